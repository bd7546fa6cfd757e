// Takes the pictures of docs/pictures in a browser, for scripts/pictures.
import { chromium } from "playwright-core";

const { DECKHAND_PICTURES: folder, DECKHAND_PICTURES_URL: url, DECKHAND_PICTURES_TOKEN: token, DECKHAND_PICTURES_ITEM: item, DECKHAND_PICTURES_TASK: task } = process.env;
const browser = await chromium.launch({
  executablePath: process.env.DECKHAND_E2E_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
const page = await context.newPage();
page.setDefaultTimeout(60_000);
await page.goto(`${url}/login`);
await page.getByLabel("API token").fill(token.trim());
await page.getByRole("button", { name: "Log in", exact: true }).click();
await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();

// take saves a picture of a page once it stands still.
async function take(name, path, wait, size = { width: 1280, height: 800 }) {
  await page.setViewportSize(size);
  await page.goto(`${url}${path}`);
  await wait(page);
  await page.locator("[data-live=live]").waitFor({ state: "attached" });
  // Markdown is loaded after the page.
  await page.waitForFunction(() => !document.body.innerText.includes("**"));
  await page.evaluate(() => Promise.all(document.getAnimations().map((a) => a.finished.catch(() => undefined))));
  await page.screenshot({ path: `${folder}/${name}.png`, animations: "disabled" });
}

// An item can be answered when it has stood still for a moment.
const answerable = (p) => p.locator("button:enabled").filter({ hasText: /^Approve/ }).first().waitFor();

await take("fleet", "/fleet", (p) => p.getByRole("article").first().waitFor());
await take("task", `/tasks/${task}`, (p) => p.getByText("one cent").first().waitFor());
await take("inbox", `/inbox?item=${item}`, answerable, { width: 1280, height: 1000 });
await take("inbox-phone", `/inbox?item=${item}`, answerable, { width: 390, height: 844 });
await browser.close();
