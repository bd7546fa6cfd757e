import { mkdirSync } from "node:fs";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { expect } from "vitest";
import { pages } from "./pages";

// What integration/console sets.
function env(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run this by make test PKG=./integration/console`);
  return value;
}

export const url = env("DECKHAND_E2E_URL");
export const token = env("DECKHAND_E2E_TOKEN");
// An image that the node can pull.
export const image = env("DECKHAND_E2E_IMAGE");
// Answers to POST /kill and /start, and to /cli with a JSON list of arguments.
const control = env("DECKHAND_E2E_CONTROL");
// Where screenshots go.
const artefacts = process.env.DECKHAND_E2E_ARTEFACTS;

// patience is how long anything may take, in milliseconds: longer on a slow or busy
// machine, as in the tests written in Go (internal/waittest).
export const patience = 90_000 * Math.max(1, Number(process.env.DECKHAND_TEST_WAIT_FACTOR) || 1);

async function post(path: string, body: unknown = {}): Promise<string> {
  const res = await fetch(control + path, { method: "POST", body: JSON.stringify(body) });
  const text = await res.text();
  if (!res.ok) throw new Error(`${path}: ${text}`);
  return text;
}

// cli runs the command line and answers what it printed.
export const cli = (...args: string[]) => post("/cli", args);
// kill ends the hub and all with it as kill -9 does; start runs it again.
export const kill = () => post("/kill");
export const start = () => post("/start");

export async function json<T>(...args: string[]): Promise<T> {
  return JSON.parse(await cli(...args, "-o", "json")) as T;
}

// persona applies a scripted agent.
export const persona = (name: string, script: string, keys: string[] = []) => post("/persona", { name, script, keys });

// site is the web site of the tests of browsers: the front matter that shows it in a jail, and its
// program.
export const site = async () => JSON.parse(await post("/site")) as { keys: string; program: string };

export type Step = { id: string; number: number; tool: string; state: string };
export const task = async (id: string) => JSON.parse(await post("/task", id)) as { id: string; state: string; goal: string };
export const state = async (id: string) => (await task(id)).state;
export const steps = async (id: string) => (JSON.parse(await post("/steps", id)) as { steps?: Step[] }).steps ?? [];
// newest is the id of the newest task.
export const newest = async () => (await task("")).id;

// tell opens an agent's page and says something to it.
export async function tell(page: Page, agent: string, words: string) {
  await page.goto(`${url}/agents/${agent}`);
  await page.getByLabel("Message the agent").fill(words);
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Sent", { exact: true }).first().waitFor();
}

// enrol runs the command that enrols a node, on this machine; leave ends it.
export const enrol = (command: string, name: string) => post("/join", { command, name });
export const leave = () => post("/leave");

// poll waits until what fn answers is what is wanted.
export const poll = <T>(fn: () => Promise<T>) => expect.poll(fn, { timeout: patience, interval: 250 });

// enabled waits until a button can be pressed, and so do the keys that do the same.
export async function enabled(page: Page, name: string) {
  await page.locator("button:enabled").filter({ hasText: name }).first().waitFor();
}

let browser: Browser | undefined;

// started is a browser that has shown a page. Playwright gives newPage no limit, and a
// Chromium that starts on a busy machine sometimes never gets there: it is started again.
async function started(): Promise<Browser> {
  for (let left = 2; ; left--) {
    const one = await chromium.launch({
      executablePath: process.env.DECKHAND_E2E_CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-dev-shm-usage"],
    });
    const opened = one.newPage().then((page) => page.close());
    const limit = new Promise<"late">((resolve) => setTimeout(() => resolve("late"), patience / 3));
    if ((await Promise.race([opened, limit])) !== "late") return one;
    opened.catch(() => undefined); // it ends with its browser
    await one.close();
    if (left === 0) throw new Error("Chromium opened no page");
  }
}

export async function open(): Promise<{ context: BrowserContext; page: Page; problems: string[] }> {
  browser ??= await started();
  // Without motion: what fades has another contrast at each moment.
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" });
  context.setDefaultTimeout(patience);
  // Answers are sent at once, except in the story about taking one back.
  await context.addInitScript(() => {
    if (location.protocol.startsWith("http") && !localStorage.getItem("deckhand.comfort")) localStorage.setItem("deckhand.comfort", '{"undo":false}');
  });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("pageerror", (e) => problems.push(e.message));
  page.on("console", (m) => {
    // What the policy refuses, and what React finds wrong. A hub that is away
    // makes lines of its own.
    if (m.type() === "error" && !/Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|ERR_NETWORK/.test(m.text())) problems.push(m.text());
  });
  return { context, page, problems };
}

export async function close() {
  await browser?.close();
}

export async function login(page: Page) {
  await page.goto(url);
  await page.getByLabel("API token").fill(token);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
  await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
  await live(page);
}

// live waits until the stream stands.
export async function live(page: Page) {
  await page.locator("[data-live=live]").waitFor({ state: "attached" });
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

type Violation = { id: string; help: string; nodes: { html: string; failureSummary?: string }[] };

// The rules of axe whose result depends on the theme: those about colours.
const colours = ["color-contrast", "link-in-text-block"];

// accessible verifies that the page breaks nothing of WCAG 2.2 AA, or none of the rules
// that are given.
export async function accessible(page: Page, name: string, only = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  const violations = await page.evaluate(async (runOnly) => {
    const run = (globalThis as unknown as { axe: { run: (o: unknown) => Promise<{ violations: Violation[] }> } }).axe.run;
    return (await run({ runOnly })).violations;
  }, only);
  const told = violations.map((v) => `${v.id}: ${v.help}\n${v.nodes.slice(0, 3).map((n) => `  ${n.html.slice(0, 300)}\n  ${n.failureSummary ?? ""}`).join("\n")}`);
  expect(told, `${name}: what axe finds`).toEqual([]);
}

// inBothThemes looks at a page in each theme: with axe, and for the artefacts.
export async function inBothThemes(page: Page, name: string) {
  for (const theme of ["light", "dark"]) {
    await page.evaluate((t) => {
      localStorage.setItem("deckhand.theme", t);
      dispatchEvent(new StorageEvent("storage", { key: "deckhand.theme" })); // as from another tab
    }, theme);
    await accessible(page, `${name}, ${theme}`, theme === "light" ? undefined : colours);
    if (artefacts) {
      mkdirSync(artefacts, { recursive: true });
      await page.screenshot({ path: join(artefacts, `${name}-${theme}.png`) });
    }
  }
}

// everyPage checks each page in both themes; suffix tells its pictures apart.
export async function everyPage(page: Page, suffix: string) {
  for (const p of pages) {
    await page.goto(`${url}/${p.path}`);
    await page.getByRole("heading", { level: 1, name: p.heading }).waitFor();
    await page.locator("[aria-label=Loading]").first().waitFor({ state: "detached" });
    await inBothThemes(page, `${p.name}-${suffix}`);
  }
}
