import { create } from "@bufbuild/protobuf";
import { render, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { EstimateSchema } from "@/gen/deckhand/v1/estimate_pb";
import { HistoryService } from "@/gen/deckhand/v1/history_pb";
import { PlanSchema, QuotaUsageSchema } from "@/gen/deckhand/v1/plan_pb";
import { BudgetSchema } from "@/gen/deckhand/v1/provider_pb";
import * as downloads from "@/components/download";
import { showPage } from "@/test/page";
import { tasksOf } from "./drill";
import { historyRoutes } from "./route";
import { since } from "./search";
import { hintOf, Quotas } from "./Quotas";
import { dayOf } from "./Trend";
import { against, left, likely } from "./words";

// The middle and the 90th percentile; nothing is made up without history.
describe("an estimate", () => {
  it("is said in a line", () => {
    expect(likely(create(EstimateSchema, { runs: 0, basis: "no history" }))).toBeUndefined();
    const e = create(EstimateSchema, {
      runs: 5,
      durationP50: { seconds: 40n },
      durationP90: { seconds: 90n },
      costMicrosP50: 20_000n,
      costMicrosP90: 1_500_000n,
    });
    expect(likely(e)).toBe("Usually 40 s and $0.02 (90 % under 1 min 30 s and $1.50; based on 5 runs)");
  });
  it("says how many times the median a run cost, where that is worth it", () => {
    const e = create(EstimateSchema, { costMicrosP50: 20_000n, runs: 5 });
    expect(against(60_000, e)).toBe("3.0 × the median of 5 runs");
    expect(against(29_000, e)).toBe("");
    expect(against(60_000, create(EstimateSchema, {}))).toBe("");
    expect(against(60_000, undefined)).toBe("");
  });

  it("has what is left of budgets", () => {
    expect(left(create(BudgetSchema, { scope: "organisation", every: "day", limitMicros: 5_000_000n, spentMicros: 1_000_000n, reservedMicros: 1_000_000n }))).toBe(
      "$3.00 of the organisation today",
    );
    expect(left(create(BudgetSchema, { scope: "user", objectId: "bob", every: "month", limitMicros: 1n, spentMicros: 5n }))).toBe("$0 of bob this month");
  });
});

// What is left before a run.
describe("quotas", () => {
  const q = create(QuotaUsageSchema, { scope: "user", metric: "tool_calls", used: 70n, reserved: 20n, limit: 100n });
  it("are said where there are any, with a link when nearly nothing is left", () => {
    const { container, rerender } = render(<Quotas of={[]} upgradeUrl="https://example.com/plans" />);
    expect(container.textContent).toBe("");
    rerender(<Quotas of={[q]} runsLeft={1_200n} upgradeUrl="https://example.com/plans" />);
    expect(container.textContent).toContain("1,200 runs of the plan, 10 of 100 tool calls of yours.");
    expect(screen.getByRole("link").getAttribute("href")).toBe("https://example.com/plans");
    rerender(<Quotas of={[q]} upgradeUrl="javascript:alert(1)" />);
    expect(screen.queryByRole("link")).toBeNull();
  });
  it("are said in one line", () => {
    expect(hintOf(create(PlanSchema, {}))).toBeUndefined();
    expect(hintOf(create(PlanSchema, { left: 0n, quotas: [q] }))).toEqual({
      text: "Left this billing period: 0 runs of the plan, 10 of 100 tool calls of yours", usedUp: true,
    });
  });
  it("weeks begin on Mondays", () => {
    expect(new Date(dayOf("2026-W01") * 1000).toISOString()).toBe("2025-12-29T00:00:00.000Z");
    expect(new Date(dayOf("2026-W48") * 1000).toISOString()).toBe("2026-11-23T00:00:00.000Z");
    expect(new Date(dayOf("2026-11-27") * 1000).toISOString()).toBe("2026-11-27T00:00:00.000Z");
  });
});

// Statistics by agent, tool, outcome and period.
describe("statistics", () => {
  const services =
    (calls = vi.fn()): Parameters<typeof showPage>[2] =>
    (r) => {
      r.service(AgentService, { listAgents: () => ({ agents: [{ id: "agent_1", name: "coder" }] }) });
      r.service(HistoryService, {
        getStatistics: (req) => {
          calls(req.by, req.agentId, req.since?.seconds);
          const took = { durationP50: { seconds: 40n }, durationP90: { seconds: 90n } };
          return req.by === "tool"
            ? { rows: [{ key: "shell_exec", calls: 10n, callsFailed: 1n, tasks: 2n, ...took }], userName: "ada" }
            : {
                rows: [
                  {
                    key: "coder", tasks: 5n, succeeded: 3n, failed: 1n, live: 1n, firstTime: 2n, retries: 6n, denied: 7n, meanIterations: 4.25, timed: 4n,
                    phases: [
                      { phase: "think", total: { seconds: 80n } },
                      { phase: "execute_action", total: { seconds: 20n } },
                    ],
                    usage: { costMicros: 1_500_000n }, ...took,
                  },
                ],
              };
        },
      });
    };

  it("are told by agent and by tool, and the address says which", async () => {
    const calls = vi.fn();
    const { container, history } = showPage("/statistics", historyRoutes, services(calls));
    const user = userEvent.setup();
    expect(await screen.findByText("(75 %)")).toBeTruthy();
    expect(screen.getByText("$1.50")).toBeTruthy();
    expect(screen.getByText("(50 %)")).toBeTruthy();
    expect(screen.getByText("4.3")).toBeTruthy();
    expect(within(screen.getByRole("group", { name: "Time in each phase" })).getByText("(20 %)")).toBeTruthy();
    const saved = vi.spyOn(downloads, "download").mockImplementation(() => undefined);
    await user.click(screen.getByRole("button", { name: "CSV" }));
    const text = await new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.readAsText(saved.mock.calls[0]![1]);
    });
    expect(text).toContain("coder,5,3,1,0,0,1,2,6,7,0,0,4.25,,40.000,90.000,0,0,0,0,1.500000,80.000,20.000\n");
    saved.mockRestore();
    expect(screen.getAllByText("1 min 30 s").length).toBeGreaterThan(0);
    expect(calls).toHaveBeenLastCalledWith("agent", "", since(30, new Date()).seconds);
    await user.selectOptions(screen.getByLabelText("Group by"), "tool");
    expect(await screen.findByText("shell_exec")).toBeTruthy();
    expect(screen.getByText(/Showing your own tasks only/)).toBeTruthy();
    await user.selectOptions(screen.getByLabelText("Period"), "7");
    await user.selectOptions(screen.getByLabelText("Agent"), "coder");
    await waitFor(() => expect(history.location.search).toBe("?by=tool&days=7&agent=coder"));
    await waitFor(() => expect(calls).toHaveBeenLastCalledWith("tool", "coder", since(7, new Date()).seconds));
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("lead from each number to the tasks that it counts", async () => {
    showPage("/statistics", historyRoutes, services());
    const from = new Date(Number(since(30, new Date()).seconds) * 1000).toISOString().slice(0, 10);
    const failed = await screen.findByRole("link", { name: "1 failed: coder" });
    expect(Object.fromEntries(new URL(failed.getAttribute("href")!, "http://x").searchParams)).toEqual({ state: '["failed"]', agent: "coder", from });
    expect(screen.getByRole("link", { name: "5 tasks: coder" }).getAttribute("href")).toContain("agent=coder");
    expect(screen.queryByRole("link", { name: /cancelled/ })).toBeNull();
    const first = { seconds: since(30, new Date("2026-11-27T12:00:00Z")).seconds };
    expect(tasksOf({ key: "2026-W48" }, "week", "coder", first, "failed")).toEqual({ agent: "coder", from: "2026-11-23", to: "2026-11-29", state: ["failed"] });
    expect(tasksOf({ key: "2026-02" }, "month", "", first)).toMatchObject({ from: "2026-02-01", to: "2026-02-28" });
    expect(tasksOf({ key: "succeeded" }, "outcome", "", first, "failed")).toBeUndefined();
    expect(tasksOf({ key: "" }, "agent", "", first)).toBeUndefined();
  });

  it("teach the command when nothing ran", async () => {
    showPage("/statistics", historyRoutes, (r) => {
      r.service(AgentService, { listAgents: () => ({}) });
      r.service(HistoryService, { getStatistics: () => ({}) });
    });
    expect(await screen.findByText("No tasks in this period")).toBeTruthy();
  });
});
