import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cli, close, inBothThemes, json, live, login, newest, open, patience, persona, poll, state, steps, tell, url } from "./world";

let page: Page;
let problems: string[];

beforeAll(async () => {
  ({ page, problems } = await open());
  await login(page);
});
afterAll(close);

// What a script of three writes leaves.
const script = `
turns:
  - text: I begin.
    calls: [{tool: shell_exec, arguments: {command: "echo one > notes; echo printed-one"}}]
  - text: I go on.
    calls: [{tool: shell_exec, arguments: {command: "echo two >> notes; mkdir more; echo x > more/file"}}]
  - text: I spoil it.
    calls: [{tool: shell_exec, arguments: {command: "rm -r notes more; echo printed-three"}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "it is spoilt"}}]
`;

describe("time travel in the console", () => {
  let id = "";

  it("shows the files and the output of any step, byte for byte, at an address", async () => {
    await persona("traveller", script, ["workspace: {scope: task}"]);
    await tell(page, "traveller", "Travel");
    id = await newest();
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    const all = await steps(id);
    await page.goto(`${url}/tasks/${id}`);
    await page.getByRole("link", { name: "Replay" }).click();
    await page.getByTestId("position").getByText("Step 4").waitFor();

    // What is shown of a step is what the snapshot has.
    await page.goto(`${url}/tasks/${id}/replay?at=${all[1]!.id}`);
    await page.getByTestId("position").getByText("Step 2").waitFor();
    await page.getByRole("button", { name: /^notes/ }).last().click();
    const shown = page.getByRole("group", { name: "notes after step 2" });
    await shown.waitFor();
    expect(await shown.textContent()).toBe("one\ntwo\n");
    await page.getByRole("list", { name: "Files after step 2" }).getByText("file", { exact: true }).waitFor();
    await inBothThemes(page, "replay");

    // One step back by key: the address follows, and so does the file.
    await page.keyboard.press("ArrowLeft");
    await page.waitForURL(new RegExp(`at=${all[0]!.id}`));
    await page.getByRole("group", { name: "notes after step 1" }).waitFor();
    expect(await page.getByRole("group", { name: "notes after step 1" }).textContent()).toBe("one\n");
    await page.getByRole("tab", { name: "Output" }).click();
    await page.getByTestId("output").getByText("printed-one").first().waitFor();
    await page.getByRole("button", { name: "Next step" }).click();
    await page.getByRole("button", { name: "Next step" }).click();
    await page.getByTestId("output").getByText("printed-three").first().waitFor();
  });

  it("undoes back to a step, and continues from one", async () => {
    const all = await steps(id);
    await page.goto(`${url}/tasks/${id}/replay?at=${all[1]!.id}`);
    await page.getByTestId("position").getByText("Step 2").waitFor();
    await page.getByRole("button", { name: "Undo back to here" }).click();
    await page.getByRole("list", { name: "Files that change" }).getByText("more/file").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: /^Undo \d/ }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await cli("task", "files", "cat", id, "notes")).toBe("one\ntwo\n");

    await page.getByRole("button", { name: "Previous step" }).click();
    await page.waitForURL(new RegExp(`at=${all[0]!.id}`));
    await page.getByRole("button", { name: "Continue from here" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Message to the agent").fill("Go another way");
    await dialog.getByRole("button", { name: "Create task" }).click();
    await page.waitForURL((u) => /\/tasks\/task_/.test(u.pathname) && !u.pathname.includes(id) && !u.pathname.endsWith("replay"));
    const made = await newest();
    expect(made).not.toBe(id);
    await poll(() => state(made)).toBe("TASK_STATE_SUCCEEDED");

    // From the page of the new run to where the two part.
    await page.getByRole("link", { name: "Compare with the run before" }).click();
    await page.getByTestId("parted").waitFor();
    await inBothThemes(page, "compare");
    await page.goto(`${url}/tasks/${made}?tab=details`);
    await page.getByRole("region", { name: "Related tasks" }).getByText("continues from iteration").waitFor();
  });

  it("shows the graph with the figures of the API, and in a table", async () => {
    await page.goto(`${url}/graph`);
    await page.getByRole("group", { name: "Graph of agents and triggers" }).getByText("traveller").waitFor();
    await inBothThemes(page, "graph");
    await page.getByRole("button", { name: "Show table" }).click();
    const edges = await json<unknown[]>("agent", "graph");
    if (edges.length === 0) await page.getByText("No edges").waitFor();
    await page.goto(`${url}/fleet?view=table`);
    await page.getByRole("group", { name: "Agents" }).getByText("Last run").first().waitFor();
    await inBothThemes(page, "fleet-table");
    expect(problems, "what the browser complained of").toEqual([]);
  });

  it("has an edge alive, with who waits for whom, within a second of a subtask", async () => {
    const dir = mkdtempSync(join(tmpdir(), "graph-"));
    const agent = (name: string, keys: string, script: string) => {
      writeFileSync(join(dir, `${name}.script.yaml`), script);
      writeFileSync(join(dir, `${name}.md`), `---\nname: ${name}\ndescription: For tests.\nprovider: script\nscript: ${name}.script.yaml\nworkspace: {scope: task}\n${keys}\n---\nDo what the script says.\n`);
    };
    agent("lead", "tools: [delegate, complete_task]\nagents: {delegate: [hand]}", "turns:\n  - calls: [{tool: delegate, arguments: {agent: hand, goal: Measure it}}]\n  - calls: [{tool: complete_task, arguments: {summary: measured}}]\n");
    agent("hand", "tools: [shell_exec, complete_task]", 'turns:\n  - calls: [{tool: shell_exec, arguments: {command: "sleep 15"}}]\n  - calls: [{tool: complete_task, arguments: {summary: done}}]\n');
    await cli("agent", "apply", "-f", dir);
    rmSync(dir, { recursive: true });
    await page.goto(`${url}/graph`);
    const graph = page.getByRole("group", { name: "Graph of agents and triggers" });
    await graph.getByText("hand", { exact: true }).waitFor();
    await live(page);
    // When it is on screen, by the clock of this machine.
    const seen = page.evaluate(
      () =>
        new Promise<number>((resolve) => {
          const look = () => (document.querySelector("[aria-label='Graph of agents and triggers']")?.textContent?.includes("waits for hand") ? resolve(Date.now()) : requestAnimationFrame(look));
          look();
        }),
    );
    const id = (await cli("run", "lead", "Measure", "-o", "name")).trim();
    const at = await seen;
    const [sub] = await json<{ createdAt: string }[]>("task", "list", "--parent", id);
    expect(at - Date.parse(sub!.createdAt), "milliseconds from the subtask to its edge").toBeLessThan((1_000 * patience) / 90_000);
    await page.getByRole("button", { name: "Show table" }).click();
    await page.getByRole("row", { name: /lead hand delegate/ }).getByText("lead waits for hand").waitFor();
    const [edge] = (await json<{ from: string; tasks: string }[]>("agent", "graph")).filter((e) => e.from === "lead");
    expect(Number(edge!.tasks)).toBe(1);
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    expect(problems, "what the browser complained of").toEqual([]);
  });
});
