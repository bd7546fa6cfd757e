import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cli, close, inBothThemes, login, newest, open, persona, poll, state, steps, tell, url } from "./world";

let page: Page;
let problems: string[];

beforeAll(async () => {
  ({ page, problems } = await open());
  await login(page);
});
afterAll(close);

const site = `<!doctype html><title>Order</title><body style="margin:0;background:#fff"><input id=name aria-label=Name style="position:absolute;left:40px;top:40px;width:400px;height:60px;font-size:32px">`;

const script = `
turns:
  - text: I open the order.
    calls:
      - {tool: file_write, arguments: {path: index.html, content: ${JSON.stringify(site)}}}
      - {tool: shell_exec, arguments: {command: "python3 -m http.server 8080", background: true}}
      - {tool: shell_exec, arguments: {command: "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/index.html"}}
      - {tool: browser_click, arguments: {target: "css=#name"}}
      - {tool: shell_exec, arguments: {command: "until [ -e go ]; do sleep 0.1; done"}}
  - text: I look.
    calls:
      - {tool: browser_snapshot, arguments: {full: true}}
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "the order has a name"}}]
`;

describe("the browser of a task in the console", () => {
  it("is seen live, taken over and given back, and the agent finds what the person typed", async () => {
    await persona("orderer", script, ["mode: autonomous", "workspace: {scope: task}"]);
    await tell(page, "orderer", "Order");
    const id = await newest();
    await poll(async () => (await steps(id)).at(5)?.state).toBe("STEP_STATE_STARTED");
    await page.goto(`${url}/tasks/${id}?tab=steps&step=5`);
    await page.getByRole("tab", { name: "Browser" }).click();
    const picture = page.getByAltText("What the browser shows: Order");
    await picture.waitFor();
    await page.getByTestId("address").getByText("http://localhost:8080/index.html").waitFor();
    await inBothThemes(page, "browser-live");

    await page.getByRole("button", { name: "Take over" }).click();
    const screen = page.getByRole("application");
    await screen.waitFor();
    const box = (await picture.boundingBox())!;
    await page.mouse.click(box.x + (200 / 1280) * box.width, box.y + (70 / 800) * box.height);
    await page.getByTestId("act").getByText("clicked <input> Name").waitFor();
    await page.keyboard.type("Ada");
    await page.getByTestId("act").getByText("typed <input> Name").waitFor();
    await inBothThemes(page, "browser-taken");
    await page.getByRole("button", { name: "Give back" }).click();
    await page.getByText("Live. The agent uses the browser.").waitFor();

    await page.getByRole("tab", { name: "Thread" }).click();
    await page.getByText('typed "Ada" in the browser: <input> Name').waitFor();
    const folder = mkdtempSync(join(tmpdir(), "deckhand-e2e-"));
    writeFileSync(join(folder, "go"), "");
    await cli("task", "files", "put", id, join(folder, "go"), "go");
    rmSync(folder, { recursive: true });
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    const looked = (await steps(id)).find((s) => s.tool === "browser_snapshot")! as unknown as { observation: string };
    expect(looked.observation).toContain('value="Ada"');
    expect(looked.observation).toContain("took over the browser since your last call: 1 clicks, 3 keys");
    expect(problems).toEqual([]);
  });
});
