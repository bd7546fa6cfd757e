import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, cli, close, enabled, everyPage, inBothThemes, kill, live, newest, open, persona, poll, start, state, steps, tell, token, url } from "./world";

let page: Page;
let problems: string[];

beforeAll(async () => {
  ({ page, problems } = await open());
});
afterAll(close);

describe("the console", () => {
  it("lets nobody in without a token, and goes on to where one wanted to go", async () => {
    await page.goto(`${url}/tasks?agent=nobody`);
    await page.getByRole("button", { name: "Log in" }).waitFor();
    await inBothThemes(page, "login");
    await page.getByLabel("API token").fill("dhu_wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("API token").fill(token);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { name: "Tasks", level: 1 }).waitFor();
    expect(page.url()).toContain("agent=nobody");
    await live(page);
  });

  it("teaches the first command where there is nothing", async () => {
    await everyPage(page, "empty");
    await page.goto(`${url}/fleet`);
    await page.getByText("deckhand agent apply -f personas/").waitFor();
  });

  it("runs an agent by a word, and shows what it thinks and does as it happens", async () => {
    await persona(
      "writer",
      `
turns:
  - reasoning: I write a file and look at it.
    text: Writing.
    calls:
      - tool: file_write
        arguments: {path: notes/hello.txt, content: "hello from the jail\\n"}
  - text: Looking.
    calls:
      - tool: shell_exec
        arguments: {command: "cat notes/hello.txt; printf '\\\\033]0;owned\\\\007<img src=x onerror=alert(1)>\\\\n'"}
  - text: Done.
    calls:
      - tool: complete_task
        arguments: {summary: "It says hello."}
`,
      ["workspace: {scope: task}"],
    );
    await page.goto(`${url}/fleet`);
    await page.getByRole("link", { name: "writer" }).click();
    await page.getByLabel("Message the agent").fill("Say hello");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("It says hello.").first().waitFor();
    const id = await newest();
    expect(await state(id)).toBe("TASK_STATE_SUCCEEDED");
    // The tree of its files, and one of them.
    await page.getByRole("button", { name: /^hello.txt/ }).click();
    await page.getByLabel("notes/hello.txt").getByText("hello from the jail").waitFor();
    await inBothThemes(page, "agent-full");
    // What a command printed is text, without what a terminal would obey.
    await page.goto(`${url}/tasks/${id}?tab=steps`);
    await page.getByRole("option", { name: /^2 / }).click();
    const log = page.getByRole("log", { name: "Output of step 2" });
    await log.getByText("hello from the jail").waitFor();
    await log.getByText("<img src=x onerror=alert(1)>", { exact: true }).waitFor();
    expect(await page.title()).not.toContain("owned");
    await page.getByLabel("Find in the output").fill("HELLO");
    await page.getByText("1 of 1").waitFor();
    await inBothThemes(page, "task-steps");
    for (const tab of ["timeline", "plan", "cost", "details"]) {
      await page.goto(`${url}/tasks/${id}?tab=${tab}`);
      await page.getByRole("tabpanel").waitFor();
      await inBothThemes(page, `task-${tab}`);
    }
  });

  it("takes back what a task changed, after a look at it", async () => {
    const id = await newest();
    await page.goto(`${url}/tasks/${id}?tab=changes`);
    await page.getByTestId("undo-left").getByText("Can be undone for").waitFor();
    await page.getByRole("button", { name: "By step" }).click();
    await page.getByRole("button", { name: /Step 1/ }).click();
    await page.locator(".diff-row[data-sign='+']").getByText("hello from the jail").waitFor();
    await inBothThemes(page, "task-changes");
    await page.getByRole("button", { name: "Undo all" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("notes/hello.txt").waitFor();
    await accessible(page, "undo");
    await dialog.getByRole("button", { name: /^Undo \d/ }).click();
    await page.getByText(/^undone/).first().waitFor();
    await expect(cli("task", "files", "cat", id, "notes/hello.txt")).rejects.toThrow();
  });

  it("pauses an agent before its next tool call, and lets it go on", async () => {
    await persona(
      "slow",
      `
turns:
  - text: First.
    calls: [{tool: shell_exec, arguments: {command: "sleep 15; echo one"}}]
  - text: Second.
    calls: [{tool: shell_exec, arguments: {command: "echo two"}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "both ran"}}]
`,
      ["workspace: {scope: task}"],
    );
    await tell(page, "slow", "Go");
    const id = await newest();
    await page.goto(`${url}/tasks/${id}`);
    await page.locator("[data-step='1'][data-state=started]").waitFor();
    await page.getByRole("button", { name: "Pause before next tool call" }).click();
    await page.getByRole("button", { name: "Resume" }).waitFor();
    await poll(() => state(id)).toBe("TASK_STATE_PAUSED");
    expect((await steps(id)).filter((s) => s.state === "STEP_STATE_SUCCEEDED")).toHaveLength(1);
    await page.getByText("paused", { exact: true }).first().waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByText("both ran").first().waitFor();
    expect((await steps(id)).map((s) => s.state)).toEqual(Array(3).fill("STEP_STATE_SUCCEEDED"));
  });

  it("approves with changed arguments by keyboard, and counts what waits", async () => {
    await persona(
      "careful",
      `
turns:
  - text: I ask.
    calls: [{tool: shell_exec, arguments: {command: "echo as asked > out"}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "asked and done"}}]
`,
      ["workspace: {scope: task}", "approvals: {tools: [shell_exec]}"],
    );
    await tell(page, "careful", "Go");
    const id = await newest();
    await page.getByRole("navigation", { name: "Main" }).getByTestId("inbox-count").getByText("1").waitFor();
    await page.getByRole("button", { name: "More answers" }).waitFor(); // inline, too
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { level: 1 }).click(); // keys go to the page
    await page.keyboard.press("g");
    await page.keyboard.press("i");
    await page.getByRole("heading", { name: "Inbox", level: 1 }).waitFor();
    await page.getByLabel("Command", { exact: true }).getByText("echo as asked").waitFor();
    await page.getByRole("heading", { level: 2, name: /^Run a command in the jail of careful/ }).waitFor();
    await page.getByLabel("Where it runs").getByText("/workspace", { exact: true }).waitFor();
    await page.getByRole("region", { name: "Why the agent wants it" }).getByText("I ask.").waitFor();
    await inBothThemes(page, "inbox-item");
    await enabled(page, "Approve");
    await page.keyboard.press("c");
    // A script of two lines is edited as it is, without a backslash.
    const editor = page.getByRole("textbox", { name: "Command" });
    await editor.fill("sudo rm -rf --no-preserve-root /");
    await page.getByRole("button", { name: "Approve the edited, dangerous call" }).waitFor();
    await editor.fill("echo as changed > out\necho and more > more");
    await page.getByRole("group", { name: "Changes of Command" }).getByText("echo as changed > out").waitFor();
    await accessible(page, "an edited call");
    await page.getByRole("button", { name: "Approve edited call" }).click();
    await page.getByTestId("outcome").getByText(/exit 0/).waitFor();
    await accessible(page, "the outcome of a call");
    await page.getByText("Inbox zero").waitFor();
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    expect(await cli("task", "files", "cat", id, "out")).toBe("as changed\n");
    await page.getByRole("navigation", { name: "Main" }).getByTestId("inbox-count").waitFor({ state: "detached" });
  });

  it("steers a running agent, and kills it", async () => {
    await persona(
      "looper",
      `
turns:
  - name: again
    text: Once more.
    calls: [{tool: shell_exec, arguments: {command: "sleep 2; date +%s%N >> beats"}}]
    next: again
`,
      ["workspace: {scope: task}"],
    );
    await tell(page, "looper", "Go on until told to stop");
    const id = await newest();
    await page.goto(`${url}/tasks/${id}`);
    await page.locator("[data-step='2']").waitFor();
    await page.getByLabel("Message the agent").fill("Look at the weather instead");
    await page.keyboard.press("Enter");
    await page.getByText(/delivered to the agent/).waitFor();
    await inBothThemes(page, "task-live");
    await page.getByRole("button", { name: "Kill", exact: true }).click();
    await page.getByRole("dialog").getByLabel(/Reason/).fill("the story ends");
    await page.getByRole("dialog").getByRole("button", { name: "Kill" }).click();
    await page.getByText("cancelled", { exact: true }).first().waitFor();
    expect(await state(id)).toBe("TASK_STATE_CANCELLED");
  });

  it("catches up when the hub was killed and is back: no reload, no gap, no repeat", async () => {
    await tell(page, "looper", "Go on for long");
    const id = await newest();
    await page.goto(`${url}/tasks/${id}`);
    await page.locator("[data-step='2']").waitFor();
    await page.evaluate(() => ((window as unknown as { stays: boolean }).stays = true));
    await kill();
    await page.locator("[data-live=lost]").waitFor({ state: "attached" });
    await start();
    await live(page);
    const before = (await steps(id)).length;
    await poll(async () => (await steps(id)).length).toBeGreaterThan(before + 2);
    await cli("task", "cancel", id);
    await page.getByText("cancelled", { exact: true }).first().waitFor();
    expect(await page.evaluate(() => (window as unknown as { stays?: boolean }).stays)).toBe(true);
    // Each step of the ledger is there once, from the first to the last.
    const wanted = (await steps(id)).map((s) => s.number);
    const log = page.getByRole("log", { name: "Agent activity" });
    const seen = new Set<number>();
    await log.evaluate((el) => (el.scrollTop = 0));
    await log.press("Home");
    await poll(async () => {
      const now = await log.locator("[data-step]").evaluateAll((all) => all.map((e) => Number((e as HTMLElement).dataset.step)));
      expect(new Set(now).size, "each step is drawn once").toBe(now.length);
      for (const n of now) seen.add(n);
      await log.evaluate((el) => (el.scrollTop += el.clientHeight / 2));
      return [...seen].sort((a, b) => a - b);
    }).toEqual(wanted);
  });

  it("acts on a frozen selection, and kills after a typed word", async () => {
    await tell(page, "looper", "Go on for the last time");
    const id = await newest();
    await page.goto(`${url}/fleet?q=looper`);
    await page.getByRole("article", { name: "looper" }).getByRole("button", { name: /^Pause(:|$)/ }).waitFor();
    await page.getByLabel("Select looper").check();
    await page.getByRole("button", { name: "Pause 1" }).click();
    await poll(() => state(id)).toBe("TASK_STATE_PAUSED");
    await page.getByRole("region", { name: "Selected agents" }).getByRole("button", { name: "Kill" }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByRole("button", { name: "Kill" }).isDisabled()).toBe(true);
    await dialog.getByLabel("Type kill 1 to confirm").fill("kill 1");
    await dialog.getByRole("button", { name: "Kill" }).click();
    await poll(() => state(id)).toBe("TASK_STATE_CANCELLED");
  });

  it("finds tasks by words, and saves them", async () => {
    await page.goto(`${url}/tasks`);
    await page.getByLabel("Search goals and results").fill("FOR THE LAST");
    await page.getByRole("link", { name: "Go on for the last time" }).waitFor();
    await page.getByRole("link", { name: "Say hello" }).waitFor({ state: "detached" });
    expect(page.url()).toContain("q=");
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export" }).click();
    expect((await download).suggestedFilename()).toBe("tasks.jsonl");
    await page.getByLabel("Select Go on for the last time").check();
    await page.getByRole("region", { name: "Selected tasks" }).getByText("1 selected").waitFor();
    await accessible(page, "selected tasks");
    await page.getByRole("button", { name: "Clear", exact: true }).first().click();
    await page.reload();
    await page.getByRole("heading", { name: "Tasks", level: 1 }).waitFor();
  });

  it("has one stream for all tabs, and another leads when the first is closed", async () => {
    const other = await page.context().newPage();
    await other.goto(`${url}/fleet`);
    await live(other);
    expect(await other.evaluate(async () => (await navigator.locks.query()).held?.length)).toBe(1);
    expect(await other.evaluate(async () => (await navigator.locks.query()).pending?.length)).toBe(1);
    await page.close();
    page = other;
    await poll(() => other.evaluate(async () => (await navigator.locks.query()).pending?.length)).toBe(0);
    await live(other);
    await tell(page, "writer", "Once more");
    await page.getByText("It says hello.").first().waitFor();
  });

  it("finds things by keyboard, and shows its shortcuts", async () => {
    await page.goto(`${url}/tasks`);
    await page.getByRole("heading", { name: "Tasks", level: 1 }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("Go to Inbox").waitFor();
    await accessible(page, "shortcuts");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("Control+k");
    await page.getByPlaceholder(/Search pages/).fill("careful");
    await page.getByRole("option", { name: "careful" }).first().waitFor();
    await accessible(page, "palette");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: /careful/ }).waitFor();
    expect(problems, "what the browser complained of").toEqual([]);
  });

  it("shows that one is logged out, and nothing more", async () => {
    await page.getByRole("button", { name: /Account of/ }).click();
    await page.getByRole("menuitem", { name: "Log out" }).click();
    await page.getByRole("button", { name: "Log in" }).waitFor();
    await page.goto(`${url}/fleet`);
    await page.getByRole("button", { name: "Log in" }).waitFor();
  });
});
