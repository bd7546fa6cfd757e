import { createRoute } from "@tanstack/react-router";
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { useState } from "react";
import { expect, it } from "vitest";
import { shellRoute } from "@/app/root";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";
import { ToolService } from "@/gen/deckhand/v1/tool_pb";
import { showPage } from "@/test/page";
import { settingsOf, withSettings } from "./frontmatter";
import { SettingsForm } from "./SettingsForm";

function Page() {
  const [text, setText] = useState("---\nname: coder\nprovider: openai\nmodel: gpt-9\ntools: [shell_exec]\n---\n");
  return (
    <>
      <SettingsForm settings={settingsOf(text)} fixedName={false} onChange={(change) => setText(withSettings(text, change))} />
      <pre>{text}</pre>
    </>
  );
}

it("offers the providers, models and tools of the hub, and writes what is chosen", async () => {
  const page = createRoute({ path: "/form", getParentRoute: () => shellRoute, component: Page });
  const { container } = showPage("/form", [page], (r) => {
    r.service(NodeService, { listNodes: () => ({}) });
    r.service(ProviderService, {
      listProviders: () => ({ providers: [{ name: "anthropic" }] }),
      listPrices: () => ({ prices: [{ provider: "anthropic", model: "claude" }, { provider: "openai", model: "gpt-5" }] }),
    });
    r.service(ToolService, { listTools: () => ({ tools: [{ tool: { name: "shell_exec" } }, { tool: { name: "file_read", description: "Reads a file." } }] }) });
  });
  const user = userEvent.setup();
  const yaml = () => container.querySelector("pre")!.textContent;
  expect(await screen.findByText("openai is not connected.")).toBeTruthy();
  expect(await screen.findByText("No price is known for this model.")).toBeTruthy();
  expect([...container.querySelectorAll("datalist option")].map((o) => o.getAttribute("value"))).toEqual(["script", "anthropic", "gpt-5"]);
  await user.selectOptions(screen.getByLabelText("Mode"), "supervised");
  expect(screen.getByText("Asks about every call that is not safe.")).toBeTruthy();
  await user.click(screen.getByText(/^Tools/));
  await user.click(await screen.findByLabelText("file_read"));
  await user.click(screen.getByLabelText("Ask before file_read"));
  await user.type(screen.getByLabelText("Cost of a run (USD)"), "3");
  expect(yaml()).toContain("mode: supervised\n");
  expect(yaml()).toContain("tools: [shell_exec, file_read]\n");
  expect(yaml()).toContain("approvals:\n  tools: [file_read]\n");
  expect(yaml()).toContain("limits:\n  cost_usd: 3\n");
  await user.click(screen.getByLabelText("file_read"));
  expect(yaml()).not.toContain("approvals");
  expect((await axe.run(container, { rules: { region: { enabled: false } } })).violations.map((v) => v.id)).toEqual([]);
});
