import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cli, close, inBothThemes, login, newest, open, persona, poll, site, state, steps, tell, url } from "./world";

let page: Page;
let problems: string[];

beforeAll(async () => {
  ({ page, problems } = await open());
  await login(page);
});
afterAll(close);

describe("the browser of an agent in the console", () => {
  let id = "";

  it("is seen while it runs, taken over and given back", async () => {
    const { keys, program } = await site();
    await persona(
      "browsing",
      `
turns:
  - text: I open the form.
    calls:
      - {tool: shell_exec, arguments: {command: "${program} 8080", background: true}}
      - {tool: shell_exec, arguments: {command: "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/forms"}}
      - {tool: shell_exec, arguments: {command: "until [ -e go ]; do sleep 0.1; done", timeout_seconds: 300}}
  - text: I look.
    calls: [{tool: browser_snapshot, arguments: {full: true}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "it is filled in"}}]
`,
      [keys, "browser: {record: true}"],
    );
    await tell(page, "browsing", "Fill in the form");
    id = await newest();
    await page.goto(`${url}/tasks/${id}?tab=browser`);
    await page.getByRole("img", { name: "What the browser shows: Forms" }).waitFor();
    expect(await page.getByTestId("address").textContent()).toContain("localhost:8080/forms");
    await inBothThemes(page, "browser");

    await page.getByRole("button", { name: "Take over" }).click();
    const screen = page.getByRole("application");
    await screen.waitFor();
    await page.getByText("The browser is yours.").waitFor();
    const box = (await screen.boundingBox())!;
    await page.mouse.click(box.x + box.width / 100, box.y + box.height / 100);
    await page.getByTestId("act").getByText("clicked").waitFor();
    await page.keyboard.press("Tab");
    await page.getByTestId("act").getByText("pressed").waitFor();
    await page.keyboard.press("Control+a");
    await page.keyboard.type("Grace", { delay: 50 });
    await page.getByTestId("act").getByText("typed <input> Name").waitFor();
    await inBothThemes(page, "browser-taken-over");
    await page.getByRole("button", { name: "Give back" }).click();
    await page.getByText("Live. The agent uses the browser.").waitFor();

    const dir = mkdtempSync(join(tmpdir(), "browser-"));
    writeFileSync(join(dir, "go"), "");
    await cli("task", "files", "put", id, join(dir, "go"), "go");
    rmSync(dir, { recursive: true });
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    await page.getByText("The task has ended, and its browser with it.").waitFor();
    const looked = (await steps(id)).find((s) => s.tool === "browser_snapshot") as unknown as { observation: string };
    expect(looked.observation).toContain("took over the browser since your last call");
    expect(looked.observation).toContain('value="Grace"');
    expect(problems, "what the browser complained of").toEqual([]);
  });

  it("is played again as it was recorded, at the slider's moment and at a hundred times its speed", async () => {
    await page.goto(`${url}/tasks/${id}/replay?show=browser`);
    const shown = page.getByRole("img", { name: "What the browser showed: Forms" });
    await shown.waitFor();
    expect(await page.getByTestId("address").textContent()).toContain("localhost:8080/forms");
    await inBothThemes(page, "browser-replay");
    await page.getByRole("button", { name: "Beginning of the run" }).click();
    await page.getByText("No picture yet").waitFor();
    await page.getByLabel("Speed").selectOption("100");
    await page.getByRole("button", { name: "Play" }).click();
    await shown.waitFor();
    await page.getByRole("button", { name: "Play" }).waitFor(); // it has come to the end
    await shown.waitFor();
    expect(problems, "what the browser complained of").toEqual([]);
  });
});
