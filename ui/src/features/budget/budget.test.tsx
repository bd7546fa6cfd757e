import { create } from "@bufbuild/protobuf";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { BudgetSchema, BudgetService } from "@/gen/deckhand/v1/provider_pb";
import { PlanService } from "@/gen/deckhand/v1/plan_pb";
import { showPage } from "@/test/page";
import { parseDollars, share } from "./limit";
import { budgetRoutes } from "./route";

describe("limits", () => {
  it("count what is reserved as used", () => {
    expect(share(create(BudgetSchema, { limitMicros: 100n, spentMicros: 50n, reservedMicros: 30n }))).toBe(0.8);
    expect(share(create(BudgetSchema, { limitMicros: 0n }))).toBe(1);
    expect(share(create(BudgetSchema, { spentMicros: 50n }))).toBeUndefined();
  });
  it("are read exactly", () => {
    expect(parseDollars("100")).toBe(100_000_000n);
    expect(parseDollars("$ 2.5".replace(" ", ""))).toBe(2_500_000n);
    expect(parseDollars("0.000001")).toBe(1n);
    for (const bad of ["", "-1", "1,5", "1e3", "2.5000001"]) expect(parseDollars(bad)).toBeUndefined();
  });
});

const services =
  (calls = vi.fn()): Parameters<typeof showPage>[2] =>
  (r) =>
    r.service(BudgetService, {
      listBudgets: () => ({
        budgets: [
          { scope: "organisation", every: "month", limitMicros: 100_000_000n, spentMicros: 85_000_000n, setBy: "ada" },
          { scope: "user", objectId: "bob", every: "day", limitMicros: 1_000_000n, spentMicros: 1_000_000n },
          { scope: "organisation", every: "day", spentMicros: 5_000_000n },
        ],
      }),
      setBudget: (req) => (calls(req.scope, req.objectId, req.every, req.limit), {}),
    });

// Budgets with what of them is spent.
describe("budgets", () => {
  it("show bars, and say in words what they show", async () => {
    const { container } = showPage("/budgets", budgetRoutes, services());
    const meter = await screen.findByRole("meter", { name: "Share of the limit spent: organisation per month" });
    expect(meter.getAttribute("aria-valuenow")).toBe("85");
    expect(screen.getByText("over 80 %")).toBeTruthy();
    expect(screen.getByText("used up")).toBeTruthy();
    expect(screen.getAllByRole("meter")).toHaveLength(2);
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("are set, taken away and reset", async () => {
    const calls = vi.fn();
    showPage("/budgets", budgetRoutes, services(calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Set a limit" }));
    await user.selectOptions(screen.getByLabelText("Scope"), "user");
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(calls).not.toHaveBeenCalled();
    await user.type(screen.getByLabelText("User"), "bob");
    await user.type(screen.getByLabelText("Amount (USD)"), "2.50");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("user", "bob", "month", { case: "limitMicros", value: 2_500_000n }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.click(screen.getByRole("button", { name: /Change the limit: organisation .*per month/ }));
    await user.selectOptions(screen.getByLabelText("Limit"), "none");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("organisation", "", "month", { case: "unlimited", value: true }));
  });

  it("are for administrators to change", async () => {
    showPage("/budgets", budgetRoutes, services(), "viewer");
    await screen.findAllByRole("meter");
    expect(screen.queryByRole("button", { name: "Set a limit" })).toBeNull();
  });
});

// What of the plan's runs is used, and which models may be called.
describe("the plan", () => {
  const set = vi.fn();
  const show = (role?: string) =>
    showPage(
      "/budgets",
      budgetRoutes,
      (r) => {
        services()(r);
        r.service(PlanService, {
          getPlan: () => ({
            plan: {
              name: "free", period: "2026-11", runs: 50n, used: 50n, left: 0n, tools: "safe", activeTime: { seconds: 300n }, models: ["anthropic/*"],
              cycleDay: 15, upgradeUrl: "https://example.com/plans",
              quotas: [{ scope: "user", metric: "tool_calls", used: 70n, reserved: 15n, limit: 100n }],
              limits: [{ userName: "*", toolCalls: 100n }],
            },
          }),
          setQuota: (req) => (set(req.quota?.userName, req.quota?.runs, req.quota?.toolCalls), {}),
          getQuotaHistory: (req) => ({
            periods: [{ period: req.userName ? "2026-10" : "2026-11", runs: 50n, iterations: 400n, tokens: 9_000n, toolCalls: 700n }],
            users: [{ period: "2026-11", userName: "bob", runs: 12n }],
          }),
          setPlan: (req) => (set(req.name, req.runs, req.cycleDay, req.hardBlock), {}),
          setAllowedModels: (req) => (set(req.models), {}),
        });
      },
      role,
    );

  it("says what is used up, and is changed", async () => {
    const { container } = show();
    const user = userEvent.setup();
    expect(await screen.findByText(/50 of 50/)).toBeTruthy();
    expect(screen.getByText("5 min 0 s")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Change plan" }));
    await user.selectOptions(screen.getByRole("combobox", { name: "Plan" }), "enterprise");
    await user.type(screen.getByLabelText(/^Runs per month/), "10x");
    expect((screen.getByRole("button", { name: "Save" }) as HTMLButtonElement).disabled).toBe(true);
    await user.type(screen.getByLabelText(/^Runs per month/), "{Backspace}0");
    await user.selectOptions(screen.getByLabelText("When no run is left"), "refuse");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(set).toHaveBeenCalledWith("enterprise", 100n, 15, true));
    await user.click(await screen.findByRole("button", { name: "Models" }));
    await user.type(screen.getByLabelText(/^One PROVIDER/), "{Enter}openai/gpt-5 openai/gpt-5");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(set).toHaveBeenCalledWith(["anthropic/*", "openai/gpt-5"]));
  });

  it("shows quotas and where a larger plan is, and quotas are set for everybody or one user", async () => {
    show();
    const user = userEvent.setup();
    expect(await screen.findByText(/70 of 100/)).toBeTruthy();
    expect(screen.getByText("and 15 reserved by runs")).toBeTruthy();
    expect(screen.getByRole("link", { name: "Get a larger plan" }).getAttribute("href")).toBe("https://example.com/plans");
    await user.click(screen.getByRole("button", { name: "Quotas" }));
    await user.selectOptions(screen.getByLabelText("For"), "*");
    expect((screen.getByLabelText("Tool calls") as HTMLInputElement).value).toBe("100");
    expect((screen.getByRole("button", { name: "Save" }) as HTMLButtonElement).disabled).toBe(true);
    await user.clear(screen.getByLabelText("Tool calls"));
    await user.type(screen.getByLabelText("Runs"), "40");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(set).toHaveBeenCalledWith("*", 40n, 0n));
  });

  it("tells what was used before", async () => {
    const { container } = show();
    const user = userEvent.setup();
    expect(await screen.findByText("9K")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    await user.selectOptions(screen.getByLabelText("Usage of"), "mine");
    expect(await screen.findByText("2026-10")).toBeTruthy();
    await user.selectOptions(screen.getByLabelText("Usage of"), "users");
    expect(await within(await screen.findByRole("group", { name: "Usage by billing period" })).findByText("bob")).toBeTruthy();
  });

  it("is an administrator's to change", async () => {
    show("advanced");
    expect(await screen.findByText(/50 of 50/)).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Change plan" })).toBeNull();
  });
});
