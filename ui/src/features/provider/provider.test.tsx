import { Code, ConnectError } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { ProviderService } from "@/gen/deckhand/v1/provider_pb";
import { showPage } from "@/test/page";
import { pass, redirectURL } from "./login";
import { providerRoutes } from "./route";
import { parsePrice, parseSince, sinceTime } from "./since";

const now = BigInt(Math.floor(Date.now() / 1000));

describe("since", () => {
  it("counts from where the hub does, in UTC", () => {
    const at = new Date("2026-03-09T00:30:00Z");
    expect(sinceTime("today", at).seconds).toBe(BigInt(Date.UTC(2026, 2, 9) / 1000));
    expect(sinceTime("week", at).seconds).toBe(BigInt(Date.UTC(2026, 2, 3) / 1000));
    expect(sinceTime("month", at).seconds).toBe(BigInt(Date.UTC(2026, 2, 1) / 1000));
    expect(parseSince({ since: "ever" })).toEqual({ since: undefined });
  });
  it("reads prices", () => {
    expect(parsePrice("2.50")).toBe(2.5);
    expect(parsePrice("0")).toBe(0);
    for (const bad of ["", "much", "-1", "1e9"]) expect(parsePrice(bad)).toBeUndefined();
  });
});

const services =
  (calls = vi.fn(), refuse = false): Parameters<typeof showPage>[2] =>
  (r) =>
    r.service(ProviderService, {
      listProviders: () => ({
        providers: [
          { name: "anthropic", keyEndsIn: "wxyz", connectedAt: { seconds: now - 60n }, connectedBy: "ada", lastUsedAt: { seconds: now - 5n }, expiresAt: { seconds: now + 86_400n } },
          { name: "openai", keyEndsIn: "1234", connectedAt: { seconds: now - 60n }, refusedAt: { seconds: now - 9n } },
        ],
      }),
      getProviderUsage: (req) => {
        calls("usage", req.since?.seconds);
        return { models: [{ provider: "anthropic", model: "claude", calls: 3n, estimated: 1n, usage: { inputTokens: 12_300n, costMicros: 1_230_000n } }] };
      },
      getProviderCatalogue: () => ({
        providers: [
          { name: "anthropic", title: "Anthropic", docsUrl: "https://docs.anthropic.com", keysUrl: "https://console.anthropic.com/settings/keys", connected: { name: "anthropic" }, calls: 3n, usage: { costMicros: 2_000_000n } },
          { name: "exa", title: "Exa", search: true },
          { name: "gemini", title: "Google Gemini", login: true, loginUrl: "https://accounts.example/auth", loginScopes: ["models"] },
        ],
      }),
      connectProvider: (req) => {
        calls("connect", req.name, req.key, ...(req.login ? [req.login] : []));
        if (refuse) throw new ConnectError("the provider refuses the key", Code.InvalidArgument);
        return {};
      },
      listPrices: () => ({
        prices: [
          { provider: "anthropic", model: "claude", input: 3, output: 15, cacheRead: 0.3 },
          { provider: "qwen", model: "own", input: 0, output: 0.005, setBy: "bob", setAt: { seconds: now - 60n } },
        ],
      }),
      disconnectProvider: (req) => (calls("disconnect", req.name), {}),
      setPrice: (req) => (calls("price", req.provider, req.model, req.input, req.output, req.cacheRead), {}),
    });

describe("providers", () => {
  it("teach the first command when there are none", async () => {
    showPage("/providers", providerRoutes, (r) => r.service(ProviderService, { listProviders: () => ({}), getProviderUsage: () => ({}), getProviderCatalogue: () => ({}) }));
    expect(await screen.findByText("No providers yet")).toBeTruthy();
    expect(await screen.findByText(/No model calls in this period/)).toBeTruthy();
  });

  it("list all that there are, and connect one that is not", async () => {
    showPage("/providers", providerRoutes, services());
    const table = await screen.findByRole("group", { name: "All providers" });
    expect(await within(table).findByText("$2.00")).toBeTruthy();
    expect(within(table).getByRole("link", { name: "Documentation" }).getAttribute("href")).toBe("https://docs.anthropic.com");
    expect(within(table).queryByRole("button", { name: "Connect Anthropic" })).toBeNull();
    await userEvent.click(within(table).getByRole("button", { name: "Connect Exa" }));
    expect(await screen.findByDisplayValue("exa")).toBeTruthy();
  });

  it("log in by OAuth: the code that came with the state goes to the hub", async () => {
    const calls = vi.fn();
    vi.stubGlobal("isSecureContext", true);
    const opened = vi.spyOn(window, "open").mockReturnValue(null);
    try {
      showPage("/providers", providerRoutes, services(calls));
      await userEvent.click(await screen.findByRole("button", { name: "Log in to Google Gemini" }));
      const dialog = await screen.findByRole("dialog");
      await userEvent.type(within(dialog).getByLabelText("Client ID"), "client-1");
      await userEvent.type(within(dialog).getByLabelText("Client secret"), "s3cret");
      const go = within(dialog).getByRole("button", { name: "Log in" });
      await waitFor(() => expect(go.hasAttribute("disabled")).toBe(false));
      await userEvent.click(go);
      const asked = new URL(String(opened.mock.calls[0]?.[0]));
      expect(asked.origin + asked.pathname).toBe("https://accounts.example/auth");
      expect(asked.searchParams.get("redirect_uri")).toBe(redirectURL());
      expect(asked.searchParams.get("code_challenge_method")).toBe("S256");
      await screen.findByText(/Waiting for you to log in/);
      pass("?state=another&code=stolen");
      pass(`?state=${asked.searchParams.get("state")}&code=code-1`);
      await waitFor(() => expect(calls).toHaveBeenCalledWith("connect", "gemini", "", expect.objectContaining({ clientId: "client-1", clientSecret: "s3cret", code: "code-1", redirectUrl: redirectURL() })));
      expect(calls.mock.calls.filter(([what]) => what === "connect")).toHaveLength(1);
    } finally {
      opened.mockRestore();
      vi.unstubAllGlobals();
    }
  });

  // Connected since, expiry, last use and usage shown; a refused key.
  it("show whose key ends, whose is refused, and what was used", async () => {
    const calls = vi.fn();
    const { container } = showPage("/providers", providerRoutes, services(calls));
    const table = await screen.findByRole("group", { name: "Providers" });
    expect(within(table).getByText("key expires soon")).toBeTruthy();
    expect(within(table).getByText("key refused")).toBeTruthy();
    expect(within(table).getByText("…wxyz")).toBeTruthy();
    expect(await screen.findByText("1 interrupted (estimated)")).toBeTruthy();
    expect(screen.getAllByText("$1.23")).toHaveLength(2);
    await userEvent.selectOptions(screen.getByLabelText("Since"), "today");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("usage", sinceTime("today", new Date()).seconds));
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  // A key goes in and never comes out: not even into the page that sent it.
  it("forget a key that was sent, also when it is refused", async () => {
    const calls = vi.fn();
    showPage("/providers", providerRoutes, services(calls, true));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Connect a provider" }));
    await user.type(screen.getByLabelText("Provider"), "mistral");
    const key = screen.getByLabelText<HTMLInputElement>("Key");
    expect(key.type).toBe("password");
    expect(key.getAttribute("autocomplete")).toBe("off");
    await user.type(key, "sk-secret");
    await user.click(screen.getByRole("button", { name: "Connect" }));
    expect((await screen.findByRole("alert")).textContent).toContain("refuses the key");
    expect(calls).toHaveBeenCalledWith("connect", "mistral", "sk-secret");
    expect(key.value).toBe("");
    expect(document.body.innerHTML).not.toContain("sk-secret");
  });

  it("are disconnected by their typed name, and get prices", async () => {
    const calls = vi.fn();
    showPage("/providers", providerRoutes, services(calls));
    const user = userEvent.setup();
    await user.click((await screen.findAllByRole("button", { name: "Disconnect" }))[0]!);
    await user.type(await screen.findByLabelText("Type anthropic to confirm"), "anthropic{Enter}");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("disconnect", "anthropic"));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    // Prices can be overridden.
    await user.click(await screen.findByRole("button", { name: "Set the price of claude" }));
    await user.type(screen.getByLabelText("Input"), "3");
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(screen.getByLabelText("Output").getAttribute("aria-invalid")).toBe("true");
    await user.type(screen.getByLabelText("Output"), "15");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("price", "anthropic", "claude", 3, 15, undefined));
  });

  it("leave those who only look with nothing to press", async () => {
    showPage("/providers", providerRoutes, services(), "viewer");
    await screen.findByText("…wxyz");
    for (const name of ["Connect a provider", "Disconnect", "Replace key", "Set price"]) expect(screen.queryByRole("button", { name })).toBeNull();
  });

  // The price table, built-in and overridden.
  it("show what models cost, and who said so", async () => {
    showPage("/providers", providerRoutes, services());
    const user = userEvent.setup();
    const prices = within(await screen.findByRole("group", { name: "Prices" }));
    expect(prices.getByText("$15.00")).toBeTruthy();
    expect(prices.getByText("$0.30")).toBeTruthy();
    expect(prices.getByText("built-in")).toBeTruthy();
    expect(prices.getByText("bob")).toBeTruthy();
    await user.type(screen.getByLabelText("Find a model"), "QWEN");
    await waitFor(() => expect(prices.queryByText("claude")).toBeNull());
    await user.click(screen.getByRole("button", { name: "Change the price of own" }));
    expect(await screen.findByRole("dialog")).toBeTruthy();
  });
});
