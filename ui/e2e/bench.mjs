// Measures the console in a browser, for scripts/bench ui, which makes things
// happen when this prints "task" and "fleet", and reads one JSON line at the end.
import { chromium } from "playwright-core";

const { DECKHAND_BENCH_URL: url, DECKHAND_BENCH_TOKEN: token, DECKHAND_BENCH_TASK: task } = process.env;
const during = Number(process.env.DECKHAND_BENCH_MS);
const browser = await chromium.launch({
  executablePath: process.env.DECKHAND_E2E_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
page.setDefaultTimeout(60_000);
await page.goto(`${url}/login`);
await page.getByLabel("API token").fill(token);
await page.getByRole("button", { name: "Log in" }).click();
await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();

// From the navigation to the frame with the newest of 20 000 events; files are
// in the browser's cache, as they are for whoever comes again.
await page.addInitScript(() => {
  window.tasks = [];
  new PerformanceObserver((list) => {
    for (const e of list.getEntries()) window.tasks.push(e.duration);
  }).observe({ type: "longtask", buffered: true });
  window.shown = 0;
  window.late = [];
  const known = new Set();
  const look = () => {
    for (const p of document.querySelectorAll("[role=log] article p")) {
      const at = /^bench (\d+) /.exec(p.textContent ?? "")?.[1];
      if (!at) continue;
      window.shown ||= performance.now();
      const key = p.closest("[data-index]")?.dataset.index;
      if (known.has(key)) continue;
      known.add(key);
      if (window.measuring) window.late.push(Date.now() - Number(at));
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});
const first = [];
for (let i = 0; i < 5; i++) {
  await page.goto(`${url}/tasks/${task}`);
  first.push(await page.waitForFunction(() => window.shown).then((h) => h.jsonValue()));
}
first.sort((a, b) => a - b);

await page.locator("[data-live=live]").waitFor({ state: "attached" });
await page.waitForTimeout(2_000);
await page.evaluate(() => {
  window.tasks = [];
  window.measuring = true;
});
console.log("task");
await page.waitForTimeout(during);
const { tasks, late } = await page.evaluate(() => ({ tasks: window.tasks, late: window.late }));
late.sort((a, b) => a - b);

await page.goto(`${url}/fleet`);
await page.getByRole("article").nth(299).waitFor({ state: "attached" });
await page.locator("[data-live=live]").waitFor({ state: "attached" });
await page.waitForTimeout(3_000);
const cdp = await page.context().newCDPSession(page);
await cdp.send("Performance.enable");
const busy = async () => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value;
const before = await busy();
const begin = Date.now();
console.log("fleet");
await page.waitForTimeout(during - 1_000);
const share = ((await busy()) - before) / ((Date.now() - begin) / 1000);

console.log(
  JSON.stringify({
    first_paint_ms: Math.round(first[2]),
    longest_task_ms: Math.round(Math.max(0, ...tasks)),
    event_to_screen_ms: late[Math.floor(late.length * 0.95)],
    events: late.length,
    cards_core_share: Number(share.toFixed(3)),
    n: first.length,
  }),
);
await browser.close();
