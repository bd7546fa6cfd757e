import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { close, login, newest, open, patience, persona, state, tell, url } from "./world";

let page: Page;

beforeAll(async () => {
  ({ page } = await open());
  await login(page);
});
afterAll(close);

const slow = patience / 90_000;

describe("a log of two gigabytes", () => {
  it("opens at its end, is searched with the hits as they come, and is never in memory", async () => {
    await persona(
      "talkative",
      `
turns:
  - text: I print.
    calls:
      - tool: shell_exec
        arguments:
          timeout_seconds: 600
          command: "yes 'some words of a line of the output' | head -c 1000000000; echo; echo a-needle-in-the-middle; yes 'and other words of it' | head -c 1100000000; echo; echo a-needle-at-the-end"
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "it is printed"}}]
`,
      ["workspace: {scope: task}"],
    );
    await tell(page, "talkative", "Print");
    const id = await newest();
    await expect.poll(() => state(id), { timeout: 10 * patience, interval: 1_000 }).toBe("TASK_STATE_SUCCEEDED");

    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Performance.enable");
    const heap = async () => {
      await cdp.send("HeapProfiler.enable");
      await cdp.send("HeapProfiler.collectGarbage");
      const { metrics } = await cdp.send("Performance.getMetrics");
      return metrics.find((m) => m.name === "JSHeapUsedSize")!.value / 1e6;
    };
    const times: Record<string, number> = {};
    const timed = async (what: string, fn: () => Promise<unknown>) => {
      const begun = Date.now();
      await fn();
      times[what] = Date.now() - begun;
    };
    await page.goto(`${url}/tasks/${id}?tab=steps`);
    const log = page.getByRole("log", { name: "Output of step 1" });
    await timed("end", async () => {
      await page.getByRole("option", { name: /^1 / }).click();
      await log.getByText("a-needle-at-the-end", { exact: true }).waitFor();
    });
    const status = page.getByRole("region", { name: "Output of step 1" }).getByRole("status");
    await timed("counted", () => status.getByText(/^[\d,]{9,} lines, /).waitFor());
    await page.getByLabel("Find in the output").fill("needle-in-the-middle");
    await timed("found", () => log.locator("mark").getByText("needle-in-the-middle").waitFor());
    await timed("searched", () => status.getByText("1 of 1", { exact: true }).waitFor());
    await page.getByLabel("Find in the output").fill("needle");
    await status.getByText("1 of 2", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Only matches" }).click();
    await log.getByText("a-needle-at-the-end").waitFor();
    times.heap = Math.round(await heap());
    console.log(JSON.stringify(times));
    expect(times.end, "milliseconds to its last line").toBeLessThan(3_000 * slow);
    expect(times.found, "milliseconds to the hit in its middle").toBeLessThan(20_000 * slow);
    expect(times.heap, "megabytes").toBeLessThan(100);
  }, 20 * 60_000 * slow);
});
