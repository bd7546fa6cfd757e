import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { AppliedTriggerSchema } from "@/gen/deckhand/v1/agent_pb";
import { ErrorInfoSchema } from "@/gen/deckhand/error/v1/error_pb";
import { tryCommand } from "./Deployed";
import { Remarks } from "./Draft";
import { remarksOf } from "./problems";

function said(message: string, fix = "") {
  return new ConnectError(message, Code.InvalidArgument, undefined, [
    { desc: ErrorInfoSchema, value: create(ErrorInfoSchema, { code: "AGENT_001", message, fix }) },
  ]);
}

test("A2: what the hub says of lines is of lines", () => {
  const error = said('persona.md:4: tool "x": write "y"\npersona.md:1: limits is missing\nand this of none');
  expect(remarksOf(error, "persona.md")).toEqual([
    { line: 4, message: 'tool "x": write "y"' },
    { line: 1, message: "limits is missing" },
    { line: 0, message: "and this of none" },
  ]);
  expect(remarksOf(said("there is a trigger t already", "choose another name"), "persona.md")).toEqual([
    { line: 0, message: "there is a trigger t already: choose another name" },
  ]);
});

test("a problem leads to its line, and is shown as text", async () => {
  const go = vi.fn();
  render(<Remarks check={{ busy: false, remarks: [{ line: 7, message: "<img src=x> is wrong" }], change: "" }} onGo={go} />);
  expect(screen.getByRole("status").textContent).toContain("1 problem");
  await userEvent.click(screen.getByRole("button", { name: /line 7/ }));
  expect(go).toHaveBeenCalledWith(7);
  expect(document.querySelector("img")).toBeNull();
});

test("the command that tries a webhook is quoted for a shell", () => {
  const t = create(AppliedTriggerSchema, { kind: "webhook", path: "/webhooks/trigger_1", secret: "a'b", verify: "token" });
  expect(tryCommand(t)).toBe(
    `curl -X POST -H 'X-Deckhand-Token: a'\\''b' -H 'Content-Type: application/json' -d '{"text":"hello"}' '${location.origin}/webhooks/trigger_1'`,
  );
});
