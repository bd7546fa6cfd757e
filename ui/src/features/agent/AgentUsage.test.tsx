import { screen } from "@testing-library/react";
import { createRoute } from "@tanstack/react-router";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { shellRoute } from "@/app/root";
import { NodeTelemetryService } from "@/gen/deckhand/v1/node_telemetry_pb";
import { showPage } from "@/test/page";
import { AgentUsage } from "./AgentUsage";

vi.mock("@/components/Chart", () => ({
  // There is no canvas here: what was drawn last is text.
  Chart: (p: { label: string; values: (number | null)[]; format: (n: number) => string }) => (
    <span>
      {p.label} {p.format(p.values.at(-1) ?? 0)}
    </span>
  ),
}));

describe("AgentUsage", () => {
  it("draws what each jail has used, and says why one has no figures", async () => {
    const { container } = showPage("/usage", [createRoute({ path: "/usage", getParentRoute: () => shellRoute, component: () => <AgentUsage agentId="tidy" /> })], (r) =>
      r.service(NodeTelemetryService, {
        getAgentTelemetry: () => ({
          jails: [
            {
              jailId: "jail_1", nodeId: "node_1", nodeName: "web-1",
              samples: [70n, 85n].map((seconds) => ({ time: { seconds }, usage: { jailId: "jail_1", cpuMillis: 1_500n, memoryBytes: 1_048_576n } })),
              events: [{ jailId: "jail_1", kind: "out_of_memory", time: { seconds: 80n } }],
            },
            { jailId: "jail_2", nodeId: "node_2", nodeName: "web-2", taskId: "task_2", problem: "node web-2 is not connected" },
          ],
        }),
      }),
    );
    expect(await screen.findByText("CPU 1.50 CPU")).toBeTruthy();
    expect(screen.getByText("out of memory")).toBeTruthy();
    expect(screen.getByText("node web-2 is not connected")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });
});
