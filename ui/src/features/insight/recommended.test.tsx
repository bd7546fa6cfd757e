import { createRoute } from "@tanstack/react-router";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { Run } from "@/features/history/Run";
import { InsightService } from "@/gen/deckhand/v1/insight_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { showPage } from "@/test/page";

const page = createRoute({
  getParentRoute: () => shellRoute,
  path: "/start",
  component: () => <Run agent={{ id: "agent_1", name: "mender" }} onClose={() => undefined} started={() => undefined} />,
});

it("a run starts with the model and mode that did best before, if the person says so", async () => {
  const calls = vi.fn();
  showPage("/start", [page], (r) => {
    r.service(InsightService, {
      getRecommendation: (req) => {
        calls("recommend", req.agentId);
        return {
          strategies: [
            { provider: "anthropic", model: "small", mode: "review", runs: 10n, succeeded: 9n, costMicrosP50: 20_000, costMicrosP90: 50_000, meanIterations: 4 },
            { provider: "vertex", model: "large", runs: 5n, succeeded: 4n, costMicrosP50: 400_000, costMicrosP90: 900_000, meanIterations: 6 },
            { provider: "anthropic", model: "large", runs: 4n, succeeded: 3n, costMicrosP50: 400_000, costMicrosP90: 900_000, meanIterations: 6.25 },
          ],
        };
      },
    });
    r.service(TaskService, { submitTask: (req) => (calls("submit", req.goal, req.override?.model, req.override?.mode), { task: { id: "task_1" } }) });
  });
  const user = userEvent.setup();
  expect(await screen.findByText(/small, mode review: 9 of 10 succeeded, usually \$0\.02 \(90 % under \$0\.05\), 4\.0 iterations/)).toBeTruthy();
  expect(calls).toHaveBeenCalledWith("recommend", "agent_1");
  await user.type(screen.getByRole("textbox", { name: /Goal/ }), "Mend it");
  await user.click(screen.getByRole("button", { name: "Use large (vertex)" }));
  expect(screen.getByRole("button", { name: "Use large (anthropic)" }).getAttribute("aria-pressed")).toBe("false");
  await user.click(screen.getByRole("button", { name: "Use small, mode review" }));
  expect(screen.getByRole("button", { name: "Use small, mode review" }).getAttribute("aria-pressed")).toBe("true");
  await user.click(screen.getByRole("button", { name: "Run" }));
  await waitFor(() => expect(calls).toHaveBeenCalledWith("submit", "Mend it", "small", "review"));
});
