import { createHash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { accessible, cli, close, kill, live, login, newest, open, start, state, url } from "./world";

let page: Page;
let problems: string[];

beforeAll(async () => {
  ({ page, problems } = await open());
  await login(page);
});
afterAll(close);

// serve starts a server on this machine.
async function serve(handle: (req: IncomingMessage, body: string, res: ServerResponse) => void) {
  const server = createServer((req, res) => {
    let body = "";
    req.on("data", (piece) => (body += String(piece)));
    req.on("end", () => handle(req, body, res));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise<void>((closed) => {
        server.closeAllConnections();
        server.close(() => closed());
      }),
  };
}

// All places of the navigation.
const places = ["Fleet", "Tasks", "Inbox", "Chat", "Search", "Statistics", "Nodes", "Images", "New agent", "Triggers", "Providers", "Policy", "Credentials", "Budgets", "Notifications", "Users", "Audit", "Settings"];

describe("the shell", () => {
  it("leads from nothing to a result in at most eight clicks, without a terminal", async () => {
    let clicks = 0;
    const steps = page.getByRole("region", { name: "Get started" });
    const click = async (name: string | RegExp, role: "button" | "link" = "button") => {
      clicks++;
      await steps.getByRole(role, { name, exact: typeof name === "string" }).click();
    };
    await steps.waitFor();
    await accessible(page, "the first steps");
    await click("Use the scripted one");
    await click("Take first-look");
    await click("Run first-look");
    await page.getByRole("dialog").getByRole("button", { name: "Run", exact: true }).click();
    clicks++;
    await page.waitForURL(/\/tasks\/task_/);
    // What it found is there to read.
    await page.getByText("I run in a jail with").first().waitFor();
    expect(clicks).toBeLessThanOrEqual(8);
    expect(await state(await newest())).toBe("TASK_STATE_SUCCEEDED");
    await page.getByRole("link", { name: "Fleet" }).click();
    await page.getByRole("heading", { name: "Fleet", level: 1 }).waitFor();
    await page.getByRole("link", { name: "first-look" }).first().waitFor();
    expect(await steps.count(), "the steps are gone").toBe(0);
  });

  it("finds a word that only a command printed, and opens its line", async () => {
    await page.keyboard.press("/");
    await page.getByLabel("Search or run a command").getByRole("combobox").fill("folder workspace");
    await page.getByRole("option", { name: /^Search commands, results and messages/ }).click();
    await page.waitForURL(/\/search\?q=/);
    await page.getByLabel("Search in").selectOption("output");
    const result = page.getByRole("link", { name: /^Result of step \d+ shell_exec/ });
    await result.waitFor();
    await accessible(page, "what was found");
    await result.click();
    const log = page.getByRole("log", { name: /^Output of step/ });
    await log.locator("mark").getByText("folder").first().waitFor();
    expect(await page.getByLabel("Find in the output").inputValue()).toBe("folder");
  });

  it("offers to connect the provider that an agent lacks", async () => {
    await page.goto(`${url}/agents/new?from=gpt`);
    await page.getByRole("button", { name: "Deploy" }).click();
    await page.getByRole("button", { name: "Run gpt" }).click();
    const dialog = page.getByRole("dialog", { name: "Run gpt" });
    await dialog.getByRole("button", { name: "Run", exact: true }).click();
    await dialog.getByRole("link", { name: "Connect openai" }).click();
    await page.getByRole("dialog", { name: "Connect a provider" }).waitFor();
    expect(await page.getByLabel("Provider", { exact: true }).inputValue()).toBe("openai");
    await page.keyboard.press("Escape");
  });

  it("marks the errors of a policy at their lines, and decides by a new one at once", async () => {
    await page.goto(`${url}/policy?tool=shell_exec&command=${encodeURIComponent("touch /workspace/sent")}&by=first-look`);
    const editor = page.getByLabel("Policy", { exact: true });
    await editor.getByText("rule-first-look-shell-exec").waitFor();
    const verdict = page.getByTestId("verdict");
    await verdict.getByText("rule-first-look-shell-exec").waitFor();
    await accessible(page, "the policy");
    // A command in parts, each with what decides about it.
    await page.getByLabel("Try a command").fill("echo ready\ntouch /workspace/sent");
    await page.getByRole("list", { name: "Parts of the command" }).getByText("asks: rule-first-look-shell-exec").waitFor();
    // A mistake stands at its line, and cannot be applied.
    await editor.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("\nnonsense: 1");
    await page.getByRole("list", { name: "Problems" }).getByRole("button", { name: /^Line \d+:/ }).waitFor();
    expect(await page.getByRole("button", { name: "Apply" }).isDisabled()).toBe(true);
    for (let i = 0; i < "\nnonsense: 1".length; i++) await page.keyboard.press("Backspace");
    await page.getByRole("list", { name: "Problems" }).waitFor({ state: "detached" });
    // What it would have decided on the steps before.
    await page.getByRole("button", { name: "Replay" }).click();
    await page.getByTestId("replayed").waitFor();
    await page.getByRole("button", { name: "Apply" }).click();
    await page.getByText("Version 1 applies from now on.").waitFor();
    const decided = await cli("policy", "test", "touch /workspace/sent", "--agent", "first-look", "-o", "name");
    expect(decided.trim()).toBe("ask");
    // The version before can be looked at, and the one that applies compared.
    await page.getByLabel("Compare with version").selectOption("1");
    await page.getByText("Nothing differs.").waitFor();
  });

  it("finds an entry of the audit by a text of it", async () => {
    await page.goto(`${url}/audit`);
    await page.getByLabel("Contains").fill("POLICY.");
    await page.getByLabel("Time").selectOption("1h");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.getByRole("button", { name: /^policy\./ }).first().waitFor();
    await page.getByLabel("Contains").fill("no such text anywhere");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.getByText("No entries match").waitFor();
  });

  it("verifies the audit log", async () => {
    await page.goto(`${url}/audit`);
    await page.getByRole("button", { name: "Verify" }).click();
    const dialog = page.getByRole("dialog", { name: "Verify audit log" });
    await dialog.getByText("Intact: every entry is as it was sealed.").waitFor();
    await dialog.getByText(/^Entries 1 to /).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "audit.verified" }).first().waitFor();
  });

  it("shows the API with what comes from the hub only", async () => {
    const foreign: string[] = [];
    const watch = (r: { url(): string }) => {
      if (!r.url().startsWith(url) && !/^(data|blob):/.test(r.url())) foreign.push(r.url());
    };
    page.on("request", watch);
    await page.goto(`${url}/api`);
    await page.getByRole("heading", { name: "API reference", level: 1 }).waitFor();
    await page.getByText("Deckhand API").first().waitFor();
    await page.getByPlaceholder("Filter by tag").fill("Task");
    await page.locator("#operations-tag-Task").waitFor();
    page.off("request", watch);
    expect(foreign).toEqual([]);
  });

  it("logs in to a provider in a window of its own", async () => {
    // The provider: its login page, its tokens, and its models.
    const asked: URLSearchParams[] = [];
    const provider = await serve((req, body, res) => {
      const at = new URL(req.url ?? "", "http://provider");
      if (at.pathname === "/auth") {
        const q = at.searchParams;
        const back = new URL(q.get("redirect_uri") ?? "");
        back.search = new URLSearchParams({ code: `code-for-${q.get("code_challenge")}`, state: q.get("state") ?? "" }).toString();
        res.writeHead(302, { Location: back.href }).end();
      } else if (at.pathname === "/token") {
        asked.push(new URLSearchParams(body));
        res.setHeader("Content-Type", "application/json").end(JSON.stringify({ access_token: "access-1-of-a-provider", refresh_token: "refresh-1-of-a-provider", token_type: "Bearer", expires_in: 3600 }));
      } else {
        res.setHeader("Content-Type", "application/json").end('{"models": []}');
      }
    });
    try {
      await page.goto(`${url}/providers`);
      await page.getByRole("button", { name: "Log in to Google Gemini" }).click();
      const dialog = page.getByRole("dialog", { name: "Log in to Google Gemini" });
      await dialog.getByLabel("Client ID").fill("client-1");
      await dialog.getByLabel("Client secret").fill("a-secret-of-the-client");
      await dialog.getByLabel("Login URL").fill(`${provider.url}/auth`);
      await dialog.getByLabel("Token URL").fill(`${provider.url}/token`);
      await dialog.getByLabel("Base URL").fill(provider.url);
      await accessible(page, "the login to a provider");
      await dialog.getByRole("button", { name: "Log in" }).click();
      await dialog.waitFor({ state: "detached" });
      const sent = asked[0];
      expect(asked).toHaveLength(1);
      expect(sent?.get("client_secret")).toBe("a-secret-of-the-client");
      expect(sent?.get("redirect_uri")).toBe(`${url}/providers/callback`);
      const digest = createHash("sha256").update(sent?.get("code_verifier") ?? "").digest("base64url");
      expect(sent?.get("code")).toBe(`code-for-${digest}`);
      const table = page.getByRole("group", { name: "All providers" });
      await table.getByRole("row", { name: /Google Gemini/ }).getByText("connected", { exact: true }).waitFor();
      await cli("provider", "disconnect", "gemini");
    } finally {
      await provider.close();
    }
  });

  it("lets a program connect by OAuth, which then uses the tools", async () => {
    let came: URLSearchParams | undefined;
    const program = await serve((req, _, res) => {
      const at = new URL(req.url ?? "", "http://program");
      if (at.pathname === "/callback") came = at.searchParams; // the browser asks for an icon, too
      res.end("You may close this window.");
    });
    try {
      const redirect = `${program.url}/callback`;
      const registered = (await (
        await fetch(`${url}/oauth/register`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ client_name: "Test program", redirect_uris: [redirect] }) })
      ).json()) as { client_id: string };
      const verifier = randomBytes(32).toString("base64url");
      const ask = new URLSearchParams({
        client_id: registered.client_id, redirect_uri: redirect, response_type: "code", state: "s1", scope: "read", resource: `${url}/mcp`,
        code_challenge: createHash("sha256").update(verifier).digest("base64url"), code_challenge_method: "S256",
      });
      await page.goto(`${url}/oauth/authorize?${ask}`);
      await page.getByRole("heading", { name: "Let “Test program” use Deckhand as admin?" }).waitFor();
      await accessible(page, "the consent page");
      await page.getByRole("radio").first().check();
      await page.getByRole("button", { name: "Allow" }).click();
      await page.getByText("You may close this window.").waitFor();
      expect(came?.get("state")).toBe("s1");
      const token = (await (
        await fetch(`${url}/oauth/token`, {
          method: "POST",
          body: new URLSearchParams({ grant_type: "authorization_code", client_id: registered.client_id, code: came?.get("code") ?? "", redirect_uri: redirect, code_verifier: verifier, resource: `${url}/mcp` }),
        })
      ).json()) as { access_token: string };
      const tools = await fetch(`${url}/mcp`, {
        method: "POST",
        headers: { Authorization: `Bearer ${token.access_token}`, "Content-Type": "application/json", Accept: "application/json, text/event-stream" },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
      });
      expect(await tools.text()).toContain("task_get");
    } finally {
      await program.close();
    }
    await page.goto(`${url}/fleet`);
    await live(page);
  });

  it("sends events to an EventSource that has the session's cookie", async () => {
    const names = await page.evaluate(
      (at) =>
        new Promise<string[]>((resolve, reject) => {
          const got: string[] = [];
          const source = new EventSource(at);
          source.onerror = () => reject(new Error(`the stream broke off after ${got.join(", ")}`));
          for (const name of ["task.submitted", "execution_completed"]) source.addEventListener(name, () => got.push(name));
          source.addEventListener("end", () => {
            source.close();
            resolve(got);
          });
        }),
      `${url}/v1/events?task=${(await newest())}`,
    );
    expect(names).toEqual(["task.submitted", "execution_completed"]);
  });

  it("stops everything in 2 clicks, says so on every page, and releases it", async () => {
    await page.goto(`${url}/fleet`);
    let clicks = 0;
    const stop = async () => {
      await page.getByRole("button", { name: "Stop everything" }).last().click();
      clicks++;
    };
    await stop();
    const dialog = page.getByRole("dialog", { name: "Stop everything" });
    await dialog.getByLabel(/^Type/).fill("stop");
    await dialog.getByLabel(/^Reason/).fill("a drill");
    await stop();
    await page.getByTestId("held").getByText("a drill").waitFor();
    expect(clicks).toBe(2);
    for (const path of ["fleet", "tasks", "settings"]) {
      await page.goto(`${url}/${path}`);
      await page.getByTestId("held").getByText("a drill").waitFor();
    }
    await page.getByRole("button", { name: "Release the organisation" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
    await page.getByTestId("held").waitFor({ state: "detached" });
  });

  it("keeps the shell and what was typed while the hub is away, and comes back by itself", async () => {
    await page.goto(`${url}/policy`);
    const answer = page.getByLabel("Try a command");
    await answer.fill("half of a com");
    await live(page);
    await kill();
    const lost = page.getByTestId("hub-lost");
    await lost.getByText(/Figures are from \d\d:\d\d:\d\d/).first().waitFor();
    expect(await answer.inputValue()).toBe("half of a com");
    // Pages that were never opened are there, and each says so.
    const main = page.getByRole("navigation", { name: "Main" });
    await start();
    await lost.waitFor({ state: "detached" });
    await live(page);
    expect(await answer.inputValue()).toBe("half of a com");
    await kill();
    await lost.waitFor();
    for (const name of places) {
      await main.getByRole("link", { name, exact: name !== "Inbox" }).click();
      await page.getByRole("heading", { level: 1 }).waitFor();
      await main.waitFor();
      await lost.waitFor();
    }
    await start();
    await lost.waitFor({ state: "detached" });
    await live(page);
    await main.getByRole("link", { name: "Fleet" }).click();
    await page.getByRole("link", { name: "first-look" }).first().waitFor();
    expect(problems).toEqual([]);
  });
});
