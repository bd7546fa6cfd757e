import { QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen, waitFor } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { newQueryClient } from "@/api/query";
import { OIDC } from "./OIDC";

function show(answer: () => Response, next?: string) {
  const asked = vi.fn();
  vi.stubGlobal("fetch", async (input: URL) => (asked(input.pathname), answer()));
  render(
    <QueryClientProvider client={newQueryClient()}>
      <OIDC next={next} />
    </QueryClientProvider>,
  );
  return asked;
}

describe("the login with an OpenID Connect provider", () => {
  it("is offered where the hub has one", async () => {
    show(() => Response.json({ enabled: true }));
    const link = await screen.findByRole<HTMLAnchorElement>("link", { name: "Log in with your organisation" });
    expect(new URL(link.href).pathname).toBe("/oidc/login");
  });

  it("returns to the page of the hub that led to the login, and to no other", async () => {
    const next = "/oauth/authorize?client_id=oac_1&state=a%26b";
    show(() => Response.json({ enabled: true }), next);
    const link = await screen.findByRole<HTMLAnchorElement>("link", { name: "Log in with your organisation" });
    expect(new URL(link.href).searchParams.get("next")).toBe(next);
    cleanup();
    show(() => Response.json({ enabled: true }), "/fleet");
    const other = await screen.findByRole<HTMLAnchorElement>("link", { name: "Log in with your organisation" });
    expect(new URL(other.href).search).toBe("");
  });

  it.each([
    ["has none", () => Response.json({ enabled: false })],
    ["cannot say", () => new Response("no", { status: 500 })],
  ])("is not offered where the hub %s", async (_, answer) => {
    const asked = show(answer);
    await waitFor(() => expect(asked).toHaveBeenCalledWith("/oidc/status"));
    expect(screen.queryByRole("link")).toBeNull();
  });
});
