// Measures the console in a browser, for scripts/bench ui, which makes things
// happen when this prints "task" and "fleet", and reads one JSON line at the end.
import { chromium } from "playwright-core";

const {
  DECKHAND_BENCH_URL: url,
  DECKHAND_BENCH_TOKEN: token,
  DECKHAND_BENCH_TASK: task,
  DECKHAND_BENCH_PRINTED: printed,
  DECKHAND_BENCH_REPLAY: replayed,
} = process.env;
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
  // Looking has its price, which is not to be the cards'.
  if (location.pathname.startsWith("/tasks/") && !location.search) requestAnimationFrame(look);
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

// The cards: a usual window, in which most of them are below the fold.
await page.goto(`${url}/fleet`);
await page.getByRole("article").nth(299).waitFor({ state: "attached" });
await page.locator("[data-live=live]").waitFor({ state: "attached" });
await page.waitForTimeout(3_000);
const cdp = await page.context().newCDPSession(page);
await cdp.send("Performance.enable");
// CPU time: of the page's process with all its threads (ProcessTime), or of the
// thread that answers a person (ThreadTime).
const cpu = async (name) => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === name).value;
const cards = () => page.getByRole("article").evaluateAll((all) => all.map((card) => card.textContent));
console.log("fleet");
await page.waitForTimeout(1_000);
const shown = await cards();
const before = await cpu("ProcessTime");
const begin = Date.now();
await page.waitForTimeout(during - 3_000);
const share = ((await cpu("ProcessTime")) - before) / ((Date.now() - begin) / 1000);
const shownAfter = await cards();

// The output of a command: all of it is fetched, and scrolled from its end to its
// beginning and back, a window's height in four frames.
async function scrolled(step, last) {
  await page.goto(`${url}/tasks/${printed}?tab=steps`);
  await page.getByRole("option", { name: new RegExp(`^${step} `) }).waitFor();
  await page.evaluate(() => {
    window.frames_ = [];
    let at = performance.now();
    const frame = (now) => {
      window.frames_.push(now - at);
      at = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const clicked = Date.now();
  await page.getByRole("option", { name: new RegExp(`^${step} `) }).click();
  const log = page.getByRole("log", { name: `Output of step ${step}` });
  await log.getByText(last).last().waitFor();
  const all = Date.now() - clicked;
  const loading = await page.evaluate(() => Math.max(...window.frames_));
  const scroll = () =>
    log.evaluate(
      (el) =>
        new Promise((resolve) => {
          window.frames_ = [];
          // Long outputs are crossed in the same time, by larger strides.
          const stride = Math.max(el.clientHeight / 4, el.scrollHeight / 400);
          let way = -1;
          const step = () => {
            el.scrollTop += way * stride;
            if (way < 0 && el.scrollTop === 0) way = 1;
            else if (way > 0 && el.scrollTop + el.clientHeight >= el.scrollHeight - 2) return resolve(Math.max(...window.frames_));
            requestAnimationFrame(step);
          };
          requestAnimationFrame(step);
        }),
    );
  const before = await cpu("ThreadTime");
  const plain = await scroll();
  const each = (((await cpu("ThreadTime")) - before) * 1000) / (await page.evaluate(() => window.frames_.length));
  await page.getByRole("button", { name: "Wrap lines" }).click();
  const wrapped = await scroll();
  return { all, each: Number(each.toFixed(1)), loading: Math.round(loading), plain: Math.round(plain), wrapped: Math.round(wrapped) };
}
const lines = await scrolled(1, /line 100000 of the output/);
const long = await scrolled(2, /x{100}/);

// The last of five million lines: from the choice of the step to the frame that shows
// it, by End and by a search; and what of it is in memory.
await page.goto(`${url}/tasks/${printed}?tab=steps&step=1`);
const endless = page.getByRole("option", { name: /^3 / });
await endless.waitFor();
await page.getByRole("log", { name: "Output of step 1" }).waitFor();
const chosen = Date.now();
await endless.click();
const log = page.getByRole("log", { name: "Output of step 3" });
await log.getByText("5000000", { exact: true }).last().waitFor();
const lastLine = Date.now() - chosen;
await log.focus();
await page.keyboard.press("Home");
await log.getByText("1", { exact: true }).last().waitFor();
const ending = Date.now();
await page.keyboard.press("End");
await log.getByText("5000000", { exact: true }).last().waitFor();
const end = Date.now() - ending;
await page.getByLabel("Find in the output").fill("4999999");
await page.getByText("1 of 1", { exact: true }).waitFor();
await log.locator("mark").getByText("4999999").waitFor();
await cdp.send("HeapProfiler.enable");
await cdp.send("HeapProfiler.collectGarbage");
const heap = await cpu("JSHeapUsedSize");
// The replay: how soon its newest row is there, and frames while the slider is dragged
// from end to end and back, a new position each frame; the same of a page that is its
// markup alone, scrolled the same way.
const frames = (act) =>
  page.evaluate(async (act) => {
    const input = document.querySelector("input[type=range]");
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    const list = document.querySelector("[aria-label='Thread until this moment']");
    const move = {
      drag: (share) => {
        set.call(input, String(Math.round(share * Number(input.max))));
        input.dispatchEvent(new Event("input", { bubbles: true }));
      },
      scroll: (share) => (list.scrollTop = share * (list.scrollHeight - list.clientHeight)),
    }[act];
    const begin = performance.now();
    let n = 0;
    while (performance.now() - begin < 4_000) {
      move(Math.abs((((performance.now() - begin) / 2_000) % 2) - 1));
      await new Promise(requestAnimationFrame);
      n++;
    }
    return n / ((performance.now() - begin) / 1000);
  }, act);
const rowShown = () =>
  page.waitForFunction(() => document.querySelector("[data-row=turn]") && performance.now(), undefined, { polling: "raf" }).then((h) => h.jsonValue());
const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const paints = [];
for (let i = 0; i < 5; i++) {
  await page.goto(`${url}/tasks/${replayed}/replay`);
  paints.push(await rowShown());
}
await page.waitForTimeout(1_000);
const dragged = await frames("drag");
const markup = await page.evaluate(() => {
  const copy = document.documentElement.cloneNode(true);
  for (const el of copy.querySelectorAll("script, link[rel=modulepreload]")) el.remove();
  return `<!doctype html>${copy.outerHTML}`;
});
await page.route(`${url}/static-copy`, (r) => r.fulfill({ contentType: "text/html", body: markup }));
const statics = [];
for (let i = 0; i < 5; i++) {
  await page.goto(`${url}/static-copy`);
  statics.push(await rowShown());
}
const scrolledFrames = await frames("scroll");
const two = (n) => Number(n.toFixed(2));

console.log(
  JSON.stringify({
    first_paint_ms: Math.round(first[2]),
    longest_task_ms: Math.round(Math.max(0, ...tasks)),
    event_to_screen_ms: late[Math.floor(late.length * 0.95)],
    events: late.length,
    cards_core_share: Number(share.toFixed(3)),
    cards_changed: shownAfter.filter((card, i) => card !== shown[i]).length,
    log_lines_shown_ms: lines.all,
    log_lines_load_longest_ms: lines.loading,
    log_lines_scroll_longest_ms: lines.plain,
    log_lines_scroll_frame_cpu_ms: lines.each,
    log_lines_wrapped_longest_ms: lines.wrapped,
    log_line_1mb_shown_ms: long.all,
    log_line_1mb_load_longest_ms: long.loading,
    log_line_1mb_longest_ms: long.plain,
    log_line_1mb_wrapped_longest_ms: long.wrapped,
    log_5m_last_line_ms: lastLine,
    log_5m_end_key_ms: end,
    log_5m_heap_mb: Math.round(heap / 1e6),
    replay_first_paint_ms: Math.round(middle(paints)),
    replay_first_paint_static_ms: Math.round(middle(statics)),
    replay_first_paint_ratio: two(middle(paints) / middle(statics)),
    replay_drag_fps: Math.round(dragged),
    replay_static_fps: Math.round(scrolledFrames),
    replay_drag_fps_ratio: two(dragged / scrolledFrames),
    n: first.length,
  }),
);
await browser.close();
