import { render, screen } from "@testing-library/react";
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { AgentSchema } from "@/gen/deckhand/v1/agent_pb";
import { AgentFace } from "./AgentFace";
import { AgentNodes } from "./AgentNodes";

describe("AgentNodes", () => {
  it("counts the nodes and names all of them, the one with the workspace first", () => {
    const nodes = ["a", "b", "c", "d"].map((name) => ({ id: name, name, connected: name !== "b", home: name === "c" }));
    const { container } = render(<AgentNodes agent={create(AgentSchema, { nodes })} />);
    expect(container.textContent).toContain("4 nodes: c, a, b");
    expect(screen.getByTitle("c (workspace), a, b (not connected), d")).toBeTruthy();
    expect(screen.getByText("b").className).toContain("line-through");
  });

  it("says that there is none", () => {
    const { container } = render(<AgentNodes agent={create(AgentSchema, {})} />);
    expect(container.textContent).toBe("no node fits");
  });
});

describe("AgentFace", () => {
  const face = (avatar: string) => render(<AgentFace agent={create(AgentSchema, { name: "tidy", avatar })} />).container;

  it("shows an emoji, a built-in picture or initials, and never a file", () => {
    expect(face("🤖").textContent).toBe("🤖");
    expect(face("rocket").querySelector("svg")).toBeTruthy();
    expect(face("").textContent).toBe("TI");
    expect(face("https://example.com/a.png").querySelector("img")).toBeNull();
    expect(face("constructor").querySelector("svg")).toBeNull();
  });
});
