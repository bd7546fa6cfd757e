import type { CDPSession, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pages } from "./pages";
import { accessible, cli, close, json, live, login, newest, open, patience, persona, poll, state, tell, url } from "./world";

let page: Page;
let problems: string[];
let cdp: CDPSession;

const thumb = { width: 390, height: 844 };

beforeAll(async () => {
  ({ page, problems } = await open());
  await page.setViewportSize(thumb);
  cdp = await page.context().newCDPSession(page);
  // An authenticator of the phone that verifies its person, as Chromium emulates it.
  await cdp.send("WebAuthn.enable");
  await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  await login(page);
});
afterAll(close);

// go opens a page by its path, and waits until it shows something.
async function go(path: string, heading: string | RegExp) {
  await page.goto(`${url}/${path}`);
  await page.getByRole("heading", { level: 1, name: heading }).waitFor();
  await page.locator("[aria-label=Loading]").first().waitFor({ state: "detached" });
}

const bar = () => page.getByRole("navigation", { name: "Phone" });

// asks has an agent ask for leave to run a command that is known to be dangerous, and
// returns its task. The command itself does nothing.
async function asks(goal: string) {
  await persona(
    "risky",
    `turns:
  - text: I clean up.
    calls:
      - {tool: shell_exec, arguments: {command: "false && rm -rf --no-preserve-root /"}}
  - calls:
      - {tool: complete_task, arguments: {summary: done}}
`,
    ["workspace: {scope: task}", "approvals: {tools: [shell_exec]}"],
  );
  await tell(page, "risky", goal);
  const task = await newest();
  await poll(() => state(task)).toBe("TASK_STATE_AWAITING_APPROVAL");
  return task;
}

describe("the console on a phone", () => {
  it("has all pages within the window, under the thumb, and in order for those who hear them", async () => {
    for (const p of pages) {
      await go(p.path, p.heading);
      await fits(p.name);
      await accessible(page, `${p.name} on a phone`, ["best-practice"]);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
    for (const p of pages.filter((p) => ["fleet", "inbox", "settings"].includes(p.name))) {
      await go(p.path, p.heading);
      await accessible(page, `${p.name} on a desk`, ["best-practice"]);
    }
    await page.setViewportSize(thumb);
  });

  it("is found its way around in with the bar at the bottom", async () => {
    await go("fleet", "Fleet");
    await page.getByRole("navigation", { name: "Main" }).waitFor({ state: "hidden" });
    await bar().getByRole("link", { name: "Inbox" }).click();
    await page.getByRole("heading", { name: "Inbox", level: 1 }).waitFor();
    await bar().getByRole("button", { name: "More" }).click();
    await page.getByRole("dialog").getByRole("link", { name: "Settings" }).click();
    await page.getByRole("heading", { name: "Settings", level: 1 }).waitFor();
  });

  it("can be installed, and its worker keeps nothing", async () => {
    await go("inbox", "Inbox");
    const manifest = await page.evaluate(async () => {
      const link = document.querySelector<HTMLLinkElement>("link[rel=manifest]")!;
      return { at: link.href, is: (await (await fetch(link.href)).json()) as { start_url: string; icons: { src: string }[] } };
    });
    expect(new URL(manifest.is.start_url, manifest.at).href).toBe(`${url}/inbox`);
    for (const icon of manifest.is.icons) {
      const res = await page.request.get(new URL(icon.src, manifest.at).href);
      expect([res.status(), res.headers()["content-type"]], icon.src).toEqual([200, "image/png"]);
    }
    // What Chromium itself finds wrong with it.
    const { installabilityErrors } = await cdp.send("Page.getInstallabilityErrors");
    expect(installabilityErrors.map((e) => e.errorId).filter((e) => e !== "in-incognito")).toEqual([]);
    const worker = await page.evaluate(async () => {
      const ready = await navigator.serviceWorker.ready;
      return { scope: ready.scope, caches: await caches.keys() };
    });
    expect(worker).toEqual({ scope: `${url}/`, caches: [] });
  });

  it("shows what a push message says, once for one thing", async () => {
    await page.context().grantPermissions(["notifications"], { origin: url });
    const registrations = new Set<string>();
    cdp.on("ServiceWorker.workerRegistrationUpdated", (e) => e.registrations.forEach((r) => registrations.add(r.registrationId)));
    await cdp.send("ServiceWorker.enable");
    await poll(async () => registrations.size).toBe(1);
    const [registrationId] = registrations;
    const deliver = (data: string) => cdp.send("ServiceWorker.deliverPushMessage", { origin: url, registrationId: registrationId!, data });
    const shown = () =>
      page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map((n) => [n.title, n.body, (n.data as { path: string }).path]));
    // A browser takes what it shows away after a while, which a busy machine may miss.
    const says = (data: string) => {
      let delivered = false;
      return poll(async () => {
        const now = await shown();
        if (!delivered || now.length === 0) await deliver(data);
        delivered = true;
        return now;
      });
    };
    await says(JSON.stringify({ title: "coder asks for approval", body: "shell_exec · Tidy up", tag: "inbox_1", path: "inbox?item=inbox_1" })).toEqual([
      ["coder asks for approval", "shell_exec · Tidy up", "inbox?item=inbox_1"],
    ]);
    await says(JSON.stringify({ title: "coder has failed", body: "Tidy up", tag: "inbox_1", path: "tasks/task_1" })).toEqual([["coder has failed", "Tidy up", "tasks/task_1"]]);
    await says("not JSON").toContainEqual(["Deckhand", "Open the console.", "inbox"]);
  });

  it("registers a passkey, and logs in with it", async () => {
    // The session is a token's: it makes no passkey. A link of the hub's machine does.
    await go("settings", "Settings");
    await page.getByText("Your first passkey takes a sign-in of the last ten minutes.").waitFor();
    expect(await page.getByRole("button", { name: "Add passkey" }).isDisabled()).toBe(true);
    await page.context().clearCookies();
    await page.goto((await cli("open", "-o", "name")).trim());
    await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
    await go("settings", "Settings");
    await page.getByRole("button", { name: "Add passkey" }).click();
    await page.getByRole("dialog").getByLabel("Name").fill("my phone");
    await page.getByRole("button", { name: "Create passkey" }).click();
    await page.getByRole("group", { name: "Passkeys" }).getByText("my phone").waitFor();
    await page.getByLabel("Approving a dangerous call takes a passkey").click();
    await poll(async () => (await json<{ action: string }[]>("audit", "list", "--action", "passkey.rules_set")).length).toBe(1);

    await bar().getByRole("button", { name: "More" }).click();
    await page.getByRole("dialog").getByRole("button", { name: /admin/ }).click();
    await page.getByRole("menuitem", { name: "Log out" }).click();
    await page.getByRole("button", { name: "Log in with a passkey" }).click();
    await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
    await live(page);
  });

  it("approves a dangerous call with the passkey, from the list to the decision", async () => {
    await go("inbox", "Inbox");
    const task = await asks("Clean up, please");
    await go("inbox", "Inbox");
    await page.getByRole("navigation", { name: "Items" }).getByRole("button").first().click();
    const approve = page.getByRole("button", { name: /^Approve/ }).first();
    await approve.waitFor();
    await fits("an item");
    // Its button is on the screen as soon as the item is.
    const box = (await approve.boundingBox())!;
    expect(box.y + box.height).toBeLessThanOrEqual(thumb.height);
    await page.locator("button:enabled").filter({ hasText: /^Approve/ }).first().click();
    // What is dangerous takes a second answer, which names it.
    await page.getByRole("group", { name: "Approve?" }).getByRole("button", { name: /^Yes, approve/ }).click();
    await poll(() => state(task)).toBe("TASK_STATE_SUCCEEDED");
    const [entry] = await json<{ after: { proof?: { statement: string } } }[]>("audit", "list", "--action", "inbox.approve", "--limit", "1");
    expect(JSON.parse(entry!.after.proof!.statement)).toMatchObject({ action: "inbox.approve", user: "admin" });
  });

  it("leads from the lock screen to a reasoned decision in at most 3 touches", async () => {
    const task = await asks("Clean up once more");
    // What the notification on the lock screen opens: the item, as its push message has it.
    const [item] = await json<{ id: string }[]>("inbox", "list", "--task", task);
    let touches = 1; // on the notification itself
    await page.goto(`${url}/inbox?item=${item!.id}`);
    await page.getByRole("button", { name: "Reject", exact: true }).waitFor();
    await page.locator("button:enabled").filter({ hasText: /^Reject$/ }).first().click();
    touches++;
    // The field for the reason has the keyboard already.
    await page.keyboard.type("Not on a Friday");
    await page.locator("button:enabled").filter({ hasText: /^Reject$/ }).first().click();
    touches++;
    await page.getByText(/Rejected by you/).first().waitFor();
    expect(touches).toBeLessThanOrEqual(3);
    const [entry] = await json<{ reason: string }[]>("audit", "list", "--action", "inbox.reject", "--limit", "1");
    expect(entry!.reason).toBe("Not on a Friday");
  });

  it("tells those who hear the page what has come", async () => {
    await go("agents/risky", "risky");
    await asks("Tell me aloud");
    const said = page.getByRole("region", { name: "Announcements" });
    await said.getByText("risky asks for approval").waitFor({ timeout: patience });
    expect(await said.ariaSnapshot()).toContain("risky asks for approval: shell_exec");
    // What a reader goes through: landmarks, and headings without gaps.
    const tree = await page.locator("body").ariaSnapshot();
    expect(tree).toContain("- main");
    expect(tree).toContain('- navigation "Phone"');
  });

  it("leaves single keys alone for those who want that", async () => {
    await go("settings/appearance", "Settings");
    await page.getByLabel("Single-key shortcuts").uncheck();
    await page.locator("#main").focus();
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    await page.keyboard.press("?");
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(page.url()).toContain("/settings");
    await page.getByLabel("Single-key shortcuts").check();
    await page.locator("#main").focus();
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
    await go("settings/appearance", "Settings");
    await page.getByLabel("Largest").check();
    expect(await page.evaluate(() => getComputedStyle(document.documentElement).fontSize)).toBe("24px");
    await fits("settings in the largest text");
    await page.getByLabel("Normal").check();
    expect(problems, "what the browser complained of").toEqual([]);
  });
});

// fits verifies that nothing of a page is beyond the window to the side, and that what is
// touched is at least 40 pixels high. Links within a sentence are as high as its lines.
async function fits(name: string) {
  const found = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const shown = (e: Element) => {
      const r = e.getBoundingClientRect();
      return r.width > 1 && r.height > 1 && getComputedStyle(e).visibility !== "hidden";
    };
    const scroll = [document.documentElement, document.querySelector("main")!].map((e) => e.scrollWidth - e.clientWidth);
    const beyond = [...document.querySelectorAll("main button, main a, main input, main select")].filter(
      (e) => shown(e) && e.getBoundingClientRect().right > width + 1 && !e.closest("pre, .cm-editor"),
    );
    const low = [...document.querySelectorAll("main button, main select, main summary, main input:not([type=checkbox], [type=radio], [type=range]), nav[aria-label=Phone] > *")].filter(
      (e) => shown(e) && e.getBoundingClientRect().height < 39.5 && !e.closest(".cm-editor"),
    );
    const text = (e: Element) => `${e.tagName} ${(e.textContent || e.getAttribute("aria-label") || "").slice(0, 40)}`;
    return { scroll, beyond: beyond.map(text), low: low.map(text) };
  });
  expect(found, `${name}: what does not fit`).toEqual({ scroll: [0, 0], beyond: [], low: [] });
}
