import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { looksTheSame } from "./cards";
import { accessible, cli, close, inBothThemes, login, newest, open, persona, poll, state, tell, url } from "./world";

let page: Page;
let problems: string[];
// How many clicks a story has taken.
let clicks = 0;

beforeAll(async () => {
  ({ page, problems } = await open());
  await page.exposeFunction("clicked", () => clicks++);
  await page.addInitScript(() => {
    addEventListener("click", (e) => e.isTrusted && (window as unknown as { clicked: () => void }).clicked(), true);
  });
  await login(page);
});
afterAll(close);

// lines is many more than the rows of 18 pixels that an element of a browser can be high,
// and more than the node counts in one call: some 150 MB.
const lines = 18_000_000;

describe("the page of a task", () => {
  let id = "";

  it("says why a task failed, with the last lines of the step, in 2 clicks", async () => {
    await persona(
      "breaker",
      `
turns:
  - text: |
      I **read** first. <img src=x onerror=alert(1)> [docs](https://example.com/x)
    calls:
      - {tool: file_write, arguments: {path: kept.txt, content: "one\\ntwo\\n"}}
      - {tool: file_write, arguments: {path: "docs/spoilt.txt", content: "was fine\\n"}}
  - text: Now I test.
    calls: [{tool: shell_exec, arguments: {command: "seq ${lines}; printf '\\\\033[31mFAIL: TestLogin\\\\033[0m (0.02s)\\\\n'; exit 2"}}]
  - text: It cannot be reached.
    calls: [{tool: complete_task, arguments: {status: failed, summary: "TestLogin **fails**."}}]
`,
      ["workspace: {scope: task}"],
    );
    await tell(page, "breaker", "Break something");
    id = await newest();
    await poll(() => state(id)).toBe("TASK_STATE_FAILED");
    await page.goto(`${url}/tasks`);
    await page.getByRole("link", { name: /Break something/ }).first().waitFor();
    clicks = 0;
    await page.getByRole("link", { name: /Break something/ }).first().click();
    const outcome = page.getByTestId("outcome");
    await outcome.getByRole("heading", { name: "Failed at step 3: shell_exec, exit 2" }).waitFor();
    await outcome.getByText("FAIL: TestLogin", { exact: true }).waitFor();
    expect(clicks).toBeLessThanOrEqual(2);
    await outcome.getByRole("button", { name: "Retry with changes" }).waitFor();
    // What the agent wrote is rendered, and loads nothing.
    const thread = page.getByRole("log", { name: "Agent activity" });
    await thread.getByText("read", { exact: true }).locator("xpath=self::strong").waitFor();
    await thread.getByText("<img src=x onerror=alert(1)>").waitFor();
    expect(await thread.locator("img").count()).toBe(0);
    await inBothThemes(page, "task-failed");
  });

  it("shows the end of a log that is longer than a browser can draw, by End and by a search", async () => {
    await page.getByTestId("outcome").getByRole("link", { name: /Open step 3/ }).click();
    const log = page.getByRole("log", { name: "Output of step 3" });
    const last = log.getByText("FAIL: TestLogin", { exact: true });
    await last.waitFor();
    expect(await last.evaluate((el) => getComputedStyle(el).color)).not.toBe(await log.evaluate((el) => getComputedStyle(el).color));
    await log.focus();
    await page.keyboard.press("Home");
    await log.getByText("1", { exact: true }).last().waitFor();
    await page.keyboard.press("End");
    await last.waitFor();
    await page.keyboard.press("Home");
    await page.getByLabel("Find in the output").fill("TestLogin");
    await page.getByText("1 of 1", { exact: true }).waitFor();
    await log.locator("mark").getByText("TestLogin").waitFor();
    // A line has an address.
    const link = log.getByLabel(`Link to line ${lines}`);
    await page.goto(new URL((await link.getAttribute("href"))!, page.url()).href);
    await log.getByText(String(lines), { exact: true }).last().waitFor();
    await accessible(page, "log");
  });

  it("finds what a task changed and undoes one file, in 4 clicks", async () => {
    await page.goto(`${url}/tasks/${id}`);
    await page.getByTestId("outcome").waitFor();
    clicks = 0;
    await page.getByRole("tab", { name: "Changes" }).click();
    await page.getByRole("button", { name: "Undo docs/spoilt.txt" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Undo 1 file" }).click();
    await page.getByText("Undone: 1 file restored").waitFor();
    expect(clicks).toBeLessThanOrEqual(4);
    await expect(cli("task", "files", "cat", id, "docs/spoilt.txt")).rejects.toThrow();
    expect(await cli("task", "files", "cat", id, "kept.txt")).toBe("one\ntwo\n");
    await inBothThemes(page, "task-changes-by-file");
    expect(problems, "what the browser complained of").toEqual([]);
  });
});

describe("a task that is partly done", () => {
  it("is shown as such, with what is left and its files, and is continued", async () => {
    await persona(
      "halfway",
      `
turns:
  - text: I do the first half.
    calls: [{tool: file_write, arguments: {path: half.txt, content: "one\\n"}}]
  - text: That is as far as I get.
    calls: [{tool: complete_task, arguments: {status: partial, summary: "The first half is done.", left_over: ["the second half"]}}]
`,
      ["workspace: {scope: task}"],
    );
    await tell(page, "halfway", "Do both halves");
    const id = await newest();
    await poll(() => state(id)).toBe("TASK_STATE_FAILED");
    await page.goto(`${url}/tasks`);
    const row = page.getByRole("row").filter({ hasText: "Do both halves" });
    await row.getByText("partly done", { exact: true }).waitFor();
    expect(await row.getByText("failed", { exact: true }).count()).toBe(0);
    await row.getByRole("link", { name: /Do both halves/ }).first().click();
    const outcome = page.getByTestId("outcome");
    await outcome.getByRole("heading", { name: "Partly done" }).waitFor();
    await outcome.getByText("The first half is done.").waitFor();
    await outcome.getByText("the second half", { exact: true }).waitFor();
    await outcome.getByRole("link", { name: "half.txt" }).waitFor();
    expect(await cli("task", "files", "cat", id, "half.txt")).toBe("one\n");
    await accessible(page, "partly-done");
    await outcome.getByRole("button", { name: "Continue with the rest" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Resume", exact: true }).click();
    await page.waitForURL((at) => at.pathname.startsWith("/tasks/") && !at.pathname.endsWith(id));
    expect(problems, "what the browser complained of").toEqual([]);
  });
});

describe("the cards of the inbox", () => looksTheSame(() => page));
