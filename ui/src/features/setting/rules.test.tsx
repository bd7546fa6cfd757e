import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { createRoute } from "@tanstack/react-router";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { AccessService } from "@/gen/deckhand/v1/access_pb";
import { PolicyService } from "@/gen/deckhand/v1/policy_pb";
import { TokenService } from "@/gen/deckhand/v1/token_pb";
import { showPage } from "@/test/page";
import { AccessRules } from "./AccessRules";
import { AllowRules } from "./AllowRules";
import { TokenLimits } from "./TokenLimits";

const page = (component: () => React.ReactNode) => [createRoute({ path: "/rules", getParentRoute: () => shellRoute, component })];

// Always-allow rules are listed, and people with the right to do so revoke them.
describe("what is always allowed", () => {
  const services = (calls = vi.fn()): Parameters<typeof showPage>[2] => (r) =>
    r.service(PolicyService, {
      listAllowRules: (req) => {
        calls("list", req.past);
        return {
          rules: [
            { id: "rule_1", tool: "shell_exec", description: "git status", createdBy: "bob" },
            { id: "rule_2", tool: "file_write", description: "notes", createdBy: "ada", agentName: "coder" },
          ],
        };
      },
      revokeAllowRule: (req) => (calls("revoke", req.ruleId), {}),
    });

  it("is revoked", async () => {
    const calls = vi.fn();
    const { container } = showPage("/rules", page(AllowRules), services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Revoke git status" }));
    await user.click(screen.getByRole("button", { name: "Revoke" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("revoke", "rule_1"));
    await user.click(screen.getByLabelText("Show expired"));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("list", true));
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("is shown page by page", async () => {
    const rule = (n: string) => ({ id: `rule_${n}`, tool: "shell_exec", description: `command ${n}`, createdBy: "ada" });
    showPage("/rules", page(AllowRules), (r) =>
      r.service(PolicyService, {
        listAllowRules: (req) => (req.pageToken === "older" ? { rules: [rule("2")] } : { rules: [rule("1")], nextPageToken: "older" }),
      }),
    );
    await userEvent.click(await screen.findByRole("button", { name: "Older rules" }));
    expect(await screen.findByText("command 2")).toBeTruthy();
    expect(screen.getByText("command 1")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Older rules" })).toBeNull();
  });

  it("is one's own to revoke, for whoever is no administrator", async () => {
    showPage("/rules", page(AllowRules), services(), "basic");
    expect(await screen.findByRole("button", { name: "Revoke notes" })).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Revoke git status" })).toBeNull();
  });
});

describe("how long tokens may be used", () => {
  it("is shown in days, and changed", async () => {
    const calls = vi.fn();
    const { container } = showPage("/rules", page(TokenLimits), (r) =>
      r.service(TokenService, { getTokenLimits: () => ({ limits: { maxTtl: { seconds: 7_776_000n } } }), setTokenLimits: (req) => (calls(req.limits?.maxTtl?.seconds, req.limits?.loginWithin?.seconds), {}) }),
    );
    const user = userEvent.setup();
    const age = await screen.findByLabelText<HTMLInputElement>("Maximum age of tokens (days)");
    expect(age.value).toBe("90");
    const save = screen.getByRole("button", { name: "Save" });
    expect(save.matches(":disabled")).toBe(true);
    await user.clear(age);
    await user.type(screen.getByLabelText(/^Log in at the identity provider/), "soon");
    expect(screen.getByText("Enter a number of days, at most 3650.")).toBeTruthy();
    expect(save.matches(":disabled")).toBe(true);
    await user.clear(screen.getByLabelText(/^Log in at the identity provider/));
    await user.type(screen.getByLabelText(/^Log in at the identity provider/), "0.5");
    await user.click(save);
    await waitFor(() => expect(calls).toHaveBeenCalledWith(undefined, 43_200n));
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });
});

describe("from where calls may come", () => {
  it("is set and taken away", async () => {
    const calls = vi.fn();
    const { container } = showPage("/rules", page(AccessRules), (r) =>
      r.service(AccessService, {
        listAccessRules: () => ({ rules: [{ what: "admin", networks: ["10.0.0.0/8"], changedBy: "ada" }] }),
        setAccessRule: (req) => (calls("set", req.what, req.networks, req.force), {}),
        deleteAccessRule: (req) => (calls("delete", req.what), {}),
      }),
    );
    const user = userEvent.setup();
    expect(await screen.findByText("calls that need an admin")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "New rule" }));
    await user.type(screen.getByLabelText("Applies to"), "NodeExecService");
    await user.type(screen.getByLabelText("Networks"), "10.1.0.0/16, 192.0.2.0/24");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("set", "NodeExecService", ["10.1.0.0/16", "192.0.2.0/24"], false));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.click(screen.getByRole("button", { name: "Delete the rule of admin" }));
    await user.click(screen.getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete", "admin"));
  });
});
