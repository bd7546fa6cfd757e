import { create } from "@bufbuild/protobuf";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { EstimateSchema } from "@/gen/deckhand/v1/estimate_pb";
import { HistoryService } from "@/gen/deckhand/v1/history_pb";
import { BudgetSchema } from "@/gen/deckhand/v1/provider_pb";
import { showPage } from "@/test/page";
import { historyRoutes } from "./route";
import { since } from "./search";
import { left, likely } from "./words";

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
  it("has what is left of budgets", () => {
    expect(left(create(BudgetSchema, { scope: "organisation", every: "day", limitMicros: 5_000_000n, spentMicros: 1_000_000n, reservedMicros: 1_000_000n }))).toBe(
      "$3.00 of the organisation today",
    );
    expect(left(create(BudgetSchema, { scope: "user", objectId: "bob", every: "month", limitMicros: 1n, spentMicros: 5n }))).toBe("$0 of bob this month");
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
            : { rows: [{ key: "coder", tasks: 5n, succeeded: 3n, failed: 1n, live: 1n, usage: { costMicros: 1_500_000n }, ...took }] };
        },
      });
    };

  it("are told by agent and by tool, and the address says which", async () => {
    const calls = vi.fn();
    const { container, history } = showPage("/statistics", historyRoutes, services(calls));
    const user = userEvent.setup();
    expect(await screen.findByText("(75 %)")).toBeTruthy();
    expect(screen.getByText("$1.50")).toBeTruthy();
    expect(screen.getByText("1 min 30 s")).toBeTruthy();
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

  it("teach the command when nothing ran", async () => {
    showPage("/statistics", historyRoutes, (r) => {
      r.service(AgentService, { listAgents: () => ({}) });
      r.service(HistoryService, { getStatistics: () => ({}) });
    });
    expect(await screen.findByText("No tasks in this period")).toBeTruthy();
  });
});
