import { QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { newQueryClient } from "@/api/query";
import { OIDC } from "./OIDC";

function show(answer: () => Response) {
  const asked = vi.fn();
  vi.stubGlobal("fetch", async (input: URL) => (asked(input.pathname), answer()));
  render(
    <QueryClientProvider client={newQueryClient()}>
      <OIDC />
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

  it.each([
    ["has none", () => Response.json({ enabled: false })],
    ["cannot say", () => new Response("no", { status: 500 })],
  ])("is not offered where the hub %s", async (_, answer) => {
    const asked = show(answer);
    await waitFor(() => expect(asked).toHaveBeenCalledWith("/oidc/status"));
    expect(screen.queryByRole("link")).toBeNull();
  });
});
