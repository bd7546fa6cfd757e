import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { toast } from "sonner";
import { describe, expect, it, vi } from "vitest";
import { insightRoutes } from "@/features/insight/route";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { FeedbackService, FeedbackVerdict } from "@/gen/deckhand/v1/feedback_pb";
import { InsightService } from "@/gen/deckhand/v1/insight_pb";
import { PatternService } from "@/gen/deckhand/v1/pattern_pb";
import { showPage } from "@/test/page";
import { patternRoutes } from "./route";

const one = {
  id: "pattern_1", title: "Migrate orders", taskType: "migrator", domain: "database", confidence: 0.75, suggested: true, enabled: true, version: 2, owner: "ann",
  visibility: "private", mayManage: true, sources: 2, uses: 1, offers: 3, keywords: ["migrate", "orders"],
  approach: { plan: ["Back up", "Migrate"], tools: ["shell_exec"], pitfalls: [{ tool: "shell_exec", failed: "deadlock", worked: "with a lock timeout" }], successSigns: ["Counts are equal"], notes: [] },
};

const services =
  (calls = vi.fn(), none = false): Parameters<typeof showPage>[2] =>
  (r) => {
    r.service(PatternService, {
      listPatterns: (req) => (calls("list", req.query, req.domain, req.state, req.minConfidence), { patterns: none ? [] : [one] }),
      getPattern: () => ({
        pattern: one,
        sources: [{ taskId: "task_1", title: "Migrate it", agentName: "migrator", iterations: 4 }],
        offers: [{ taskId: "task_2", patternId: "pattern_1", similarity: 0.9, heldOut: true }],
        versions: [{ version: 1, change: "drawn", changedBy: "task_1" }],
      }),
      getPatternReport: () => ({ with: { matched: 3n, ended: 2n, succeeded: 2n, used: 1n, meanIterations: 2 }, without: { matched: 1n }, settings: { holdOut: 10 } }),
      updatePattern: (req) => (calls("update", req.version, req.approach?.plan, req.approach?.pitfalls.length), { pattern: one }),
      sharePattern: (req) => (calls("share", req.visibility), { pattern: one }),
      disablePattern: () => (calls("disable"), { pattern: one }),
      enablePattern: () => (calls("enable"), { pattern: one }),
      deletePattern: () => (calls("delete"), {}),
      undeletePattern: () => (calls("undelete"), { pattern: one }),
    });
    r.service(FeedbackService, {
      listProposals: () => ({ proposals: none ? [] : [{ id: "proposal_1", patternId: "pattern_1", patternTitle: "Migrate orders", note: "Announce it", proposedBy: "bob", mayDecide: true }] }),
      listFeedback: () => ({}),
      decideProposal: (req) => (calls("decide", req.proposalId, req.accept, req.asMemory), {}),
      giveFeedback: (req) => (calls("feedback", req.verdict, req.correction), { proposals: req.correction ? [{ owner: "ann" }] : [] }),
    });
  };

describe("patterns", () => {
  it("teach what they are when there are none", async () => {
    showPage("/patterns", patternRoutes, services(vi.fn(), true));
    expect(await screen.findByText("No patterns yet")).toBeTruthy();
  });

  it("are searched and filtered in the address, and corrections are decided", async () => {
    const calls = vi.fn();
    const { history, container } = showPage("/patterns?domain=database", patternRoutes, services(calls));
    const user = userEvent.setup();
    expect((await screen.findAllByRole("link", { name: "Migrate orders" })).length).toBeGreaterThan(0);
    expect(calls).toHaveBeenCalledWith("list", "", "database", "", 0);
    await user.selectOptions(screen.getByLabelText("State"), "enabled");
    await user.type(screen.getByLabelText("Search patterns"), "orders");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("list", "orders", "database", "enabled", 0));
    expect(history.location.search).toContain("q=orders");
    await user.click(await screen.findByRole("button", { name: "Accept" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("decide", "proposal_1", true, false));
    expect(await screen.findByText(/the difference may be chance/)).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("are disabled and deleted together, which can be undone", async () => {
    const calls = vi.fn();
    const said = vi.spyOn(toast, "success");
    showPage("/patterns", patternRoutes, services(calls));
    const user = userEvent.setup();
    const undo = () => (said.mock.calls.at(-1)![1] as unknown as { action: { onClick: () => void } }).action.onClick();
    await user.click(await screen.findByLabelText("Choose Migrate orders"));
    await user.click(screen.getByRole("button", { name: "Disable chosen" }));
    await waitFor(() => expect(said).toHaveBeenCalledWith("1 pattern disabled.", expect.anything()));
    undo();
    await waitFor(() => expect(calls).toHaveBeenCalledWith("enable"));
    await user.click(await screen.findByLabelText("Choose Migrate orders"));
    await user.click(screen.getByRole("button", { name: "Delete chosen" }));
    await waitFor(() => expect(said).toHaveBeenCalledWith("1 pattern deleted.", expect.anything()));
    undo();
    await waitFor(() => expect(calls).toHaveBeenCalledWith("undelete"));
    await user.click(screen.getByRole("button", { name: "Accept into my memory" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("decide", "proposal_1", true, true));
  });

  it("show where they came from, and are edited, shared, judged and deleted", async () => {
    const calls = vi.fn();
    const { history, container } = showPage("/patterns/pattern_1", patternRoutes, services(calls));
    const user = userEvent.setup();
    expect(await screen.findByText("with a lock timeout")).toBeTruthy();
    expect(screen.getByText("held out for comparison")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Edit" }));
    await user.clear(screen.getByRole("textbox", { name: "Plan" }));
    await user.type(screen.getByRole("textbox", { name: "Plan" }), "Back up{enter}Announce it");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("update", 2, ["Back up", "Announce it"], 1));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.click(screen.getByRole("button", { name: "Share" }));
    await user.selectOptions(screen.getByRole("combobox", { name: "Seen by" }), "team");
    await user.click(screen.getAllByRole("button", { name: "Share" }).at(-1)!);
    await waitFor(() => expect(calls).toHaveBeenCalledWith("share", "team"));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.click(screen.getByRole("button", { name: "Good" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("feedback", FeedbackVerdict.APPROVE, ""));
    await user.click(screen.getByRole("button", { name: "Correct" }));
    await user.type(screen.getByLabelText("What would have been better"), "Announce it");
    await user.click(screen.getByRole("button", { name: "Propose" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("feedback", FeedbackVerdict.CORRECT, "Announce it"));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await user.click(screen.getByRole("button", { name: "Disable" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("disable"));
    await user.click(screen.getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete"));
    await waitFor(() => expect(history.location.pathname).toBe("/patterns"));
  });
});

describe("insights", () => {
  it("show agents, tools and denied calls with a rule", async () => {
    const { container } = showPage("/insights", insightRoutes, (r) => {
      r.service(AgentService, { listAgents: () => ({}) });
      r.service(InsightService, {
        getInsights: () => ({
          agents: [{ figures: { key: "coder", tasks: 4n, succeeded: 3n, firstTime: 2n, meanIterations: 5.5, denied: 3n }, interventions: 2n }],
          slowTools: [{ tool: "shell_exec", calls: 7n, total: { seconds: 60n } }],
          denied: [{ agentName: "coder", tool: "git_push", reason: "the policy denies it", calls: 3n, taskId: "task_1", stepId: "step_1", ruleYaml: "rules:\n  - {name: ask}\n" }],
          markdown: "# Insights",
        }),
      });
    });
    expect(await screen.findByText("75 %")).toBeTruthy();
    expect(screen.getByText("5.5")).toBeTruthy();
    expect(screen.getByText("the policy denies it")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("teach what they are when there are none", async () => {
    showPage("/insights", insightRoutes, (r) => {
      r.service(AgentService, { listAgents: () => ({}) });
      r.service(InsightService, { getInsights: () => ({}) });
    });
    expect(await screen.findByText("No tasks in this period")).toBeTruthy();
  });
});
