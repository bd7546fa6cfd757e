import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pages } from "./pages";
import { work } from "./work";
import { close, everyPage, inBothThemes, login, open, url } from "./world";

let page: Page;
let problems: string[];

beforeAll(async () => {
  ({ page, problems } = await open());
  await login(page);
});
afterAll(close);

describe("daily work in the console", () => {
  work(() => page);

  it("is accessible with everything on it, in both themes", async () => {
    await everyPage(page, "full");
    // On a narrow screen nothing is lost to the side, either.
    await page.setViewportSize({ width: 400, height: 800 });
    for (const p of pages.filter((p) => p.narrow)) {
      await page.goto(`${url}/${p.path}`);
      await page.getByRole("heading", { level: 1, name: p.heading }).waitFor();
      await page.locator("[aria-label=Loading]").first().waitFor({ state: "detached" });
      await inBothThemes(page, `${p.name}-narrow`);
      const [wide, there] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      expect(wide, `${p.name}: no wider than the window`).toBeLessThanOrEqual(there!);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
    expect(problems, "what the browser complained of").toEqual([]);
  });
});
