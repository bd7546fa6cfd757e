// The peer of scripts/bench browser-action and browser-snapshot: opens a page with
// playwright-core in the system's Chromium, and for each line of standard input does what
// it says and prints one line: "click" clicks the first button by role and name and observes
// the page as Playwright's MCP server does, "snapshot" prints that observation as JSON.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [url, name] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.DECKHAND_E2E_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
await page.goto(url);
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "click") await page.getByRole("button", { name, exact: true }).click();
  const snapshot = await page.ariaSnapshot({ mode: "ai" });
  console.log(line === "click" ? String(snapshot.length) : JSON.stringify(snapshot));
}
await browser.close();
