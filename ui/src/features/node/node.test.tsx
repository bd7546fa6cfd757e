import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { NodeExecService, NodeExecState, NodeExecTarget } from "@/gen/deckhand/v1/node_exec_pb";
import { NodeSchema, NodeService } from "@/gen/deckhand/v1/node_pb";
import { NodeTelemetryService, WatchNodeTelemetryResponseSchema } from "@/gen/deckhand/v1/node_telemetry_pb";
import { QueueService } from "@/gen/deckhand/v1/queue_pb";
import { ChangeKind, WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { showPage } from "@/test/page";
import { nodeRoutes } from "./route";
import { Samples } from "./samples";
import { joinCommand, localOnly, matches, parseLabels, parseNodeSearch, wordsOf } from "./search";

vi.mock("@/components/Chart", () => ({
  // jsdom has no canvas; end-to-end tests see it drawn.
  Chart: (p: { label: string; values: (number | null)[]; format: (n: number) => string }) => (
    <div role="img" aria-label={`${p.label} ${p.format(p.values.at(-1) ?? 0)}`} />
  ),
}));

vi.mock("@/features/terminal/Terminal", () => ({
  Terminal: (p: { agent: string; host: boolean }) => <section aria-label={`terminal ${p.host ? "host" : p.agent}`} />,
}));

const node = (over: MessageInitShape<typeof NodeSchema> = {}) =>
  create(NodeSchema, {
    id: "node_0123456789abcdef",
    name: "web-1",
    status: "connected",
    version: "1.2.3",
    capability: 4,
    runtimes: ["runc"],
    labels: { site: "berlin" },
    ...over,
  });

describe("a node's words and address", () => {
  it("say all that it is", () => {
    expect(wordsOf(node())).toEqual(["connected"]);
    expect(wordsOf(node({ status: "disconnected", drain: { by: "ada" }, lock: { by: "bob" }, pressure: "too little disk" }))).toEqual([
      "lost",
      "drained",
      "locked",
      "pressure",
    ]);
  });
  it("find it by name, label and state", () => {
    expect(matches(node(), { q: "SITE=ber" })).toBe(true);
    expect(matches(node(), { q: "munich" })).toBe(false);
    expect(matches(node(), { is: "lost" })).toBe(false);
    expect(parseNodeSearch({ q: 7, is: "nonsense" })).toEqual({ q: undefined, is: undefined });
    expect(parseNodeSearch({ is: "drained" }).is).toBe("drained");
  });
  it("reads labels, and says which is none", () => {
    expect(parseLabels(" a=1, b=x=y ,")).toEqual({ a: "1", b: "x=y" });
    expect(parseLabels("a=1, berlin")).toMatch(/^"berlin" is not a label/);
  });
});

// Figures per jail and host.
describe("samples", () => {
  const at = (second: number, jails: Record<string, bigint>) =>
    create(WatchNodeTelemetryResponseSchema, {
      time: { seconds: BigInt(second) },
      host: { cpuMillis: 500n, memoryBytes: 10n },
      jails: Object.entries(jails).map(([jailId, cpuMillis]) => ({ jailId, cpuMillis })),
    });
  it("keep a jail's line in step with the clock, with gaps where it was not", () => {
    const s = new Samples();
    s.add(at(1, {}));
    s.add(at(2, { j: 100n }));
    s.add(at(3, {}));
    expect(s.times).toEqual([1, 2, 3]);
    expect(s.of("j").cpu).toEqual([null, 100, null]);
    expect(s.of("").cpu).toEqual([500, 500, 500]);
    expect(s.of("").disk).toEqual([null, null, null]);
    expect(s.latest("j")).toBeUndefined();
  });
  it("are bounded, go back an hour, and forget jails that are gone for longer", () => {
    const s = new Samples();
    s.add(at(1, { old: 1n }));
    // What the node kept, every 15 seconds, and then one each second.
    for (let i = 16; i <= 3_000; i += 15) s.add(at(i, { j: 1n }));
    expect(s.times).toHaveLength(200);
    expect(s.of("old").cpu[0]).toBe(1);
    for (let i = 3_001; i <= 5_000; i++) s.add(at(i, { j: 1n }));
    expect(s.times.length).toBeLessThanOrEqual(600);
    expect(s.of("j").cpu).toHaveLength(s.times.length);
    expect(s.times[0]).toBeGreaterThan(5_000 - 3_600);
    expect(s.times.slice(-200)).toEqual(Array.from({ length: 200 }, (_, i) => 4_801 + i));
    expect(s.times[0]).toBeLessThan(3_100);
    expect(s.of("old").cpu).toEqual([]);
  });
  it("draw nothing twice when a clock goes back", () => {
    const s = new Samples();
    s.add(at(5, {}));
    s.add(at(4, {}));
    expect(s.times).toEqual([5]);
  });
});

describe("the list", () => {
  it("teaches the first command when there is nothing", async () => {
    showPage("/nodes", nodeRoutes, (r) => r.service(NodeService, { listNodes: () => ({}) }));
    expect(await screen.findByText("No nodes yet")).toBeTruthy();
    expect(screen.getByText("deckhand node token")).toBeTruthy();
  });

  it("shows what nodes are, and filters by the address", async () => {
    const { container, history } = showPage("/nodes?is=lost", nodeRoutes, (r) =>
      r.service(NodeService, { listNodes: () => ({ nodes: [node(), node({ id: "node_2", name: "db-1", status: "disconnected" })] }) }),
    );
    expect(await screen.findByRole("link", { name: "db-1" })).toBeTruthy();
    expect(screen.queryByRole("link", { name: "web-1" })).toBeNull();
    await userEvent.click(screen.getByRole("button", { name: "Clear" }));
    expect(await screen.findByRole("link", { name: "web-1" })).toBeTruthy();
    expect(history.location.search).toBe("");
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("has the nodes of all pages", async () => {
    const pages: Record<string, string> = { "": "web-1", a: "web-2", b: "web-3" };
    showPage("/nodes", nodeRoutes, (r) =>
      r.service(NodeService, {
        listNodes: (req) => ({
          nodes: [node({ id: `node_${req.pageToken}`, name: pages[req.pageToken] })],
          nextPageToken: { "": "a", a: "b" }[req.pageToken] ?? "",
        }),
      }),
    );
    for (const name of Object.values(pages)) expect(await screen.findByRole("link", { name })).toBeTruthy();
  });

  it("says what went wrong, with its code", async () => {
    showPage("/nodes", nodeRoutes, (r) => {
      r.service(QueueService, { listWorkers: () => ({ workers: [] }) });
      r.service(NodeService, {
        listNodes: () => {
          throw new ConnectError("no right", Code.PermissionDenied);
        },
      });
    });
    expect((await screen.findByRole("alert")).textContent).toContain("PERMISSION_DENIED");
  });

  it("drains a worker, with the reason", async () => {
    const drained: string[] = [];
    showPage("/nodes", nodeRoutes, (r) => {
      r.service(NodeService, { listNodes: () => ({ nodes: [node()] }) });
      r.service(QueueService, {
        listWorkers: () => ({ workers: [{ id: "worker_1", name: "rack-2", slots: 8, active: 3 }] }),
        drainWorker: (req) => {
          drained.push(`${req.workerId} ${req.reason}`);
          return {};
        },
      });
    });
    expect(await screen.findByText("3 of 8")).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Drain rack-2" }));
    await userEvent.type(screen.getByLabelText(/Reason/), "new disk");
    await userEvent.click(screen.getByRole("button", { name: "Drain" }));
    await waitFor(() => expect(drained).toEqual(["worker_1 new disk"]));
  });

  // A single-use join token, and the one command with it.
  it("enrols: the token is in one command", async () => {
    const asked = vi.fn();
    let there = [node()];
    showPage("/nodes", nodeRoutes, (r) =>
      r.service(NodeService, {
        listNodes: () => ({ nodes: there }),
        createJoinToken: (req) => {
          asked(Number(req.ttl?.seconds), req.labels);
          there = [...there, node({ id: "node_new", name: "new-1" })];
          return { token: "dhj_secret.ca" };
        },
      }),
    );
    const user = userEvent.setup();
    await screen.findByRole("link", { name: "web-1" });
    await user.click(screen.getByRole("button", { name: "Enrol a node" }));
    await user.type(screen.getByLabelText("Labels"), "site=oslo");
    await user.click(screen.getByRole("button", { name: "Create command" }));
    const command = joinCommand("dhj_secret.ca", document.baseURI);
    expect(await screen.findByText(command)).toBeTruthy();
    expect(command).toBe(
      "curl -fsSL http://localhost:3000/install/node | DECKHAND_HUB_URL=http://localhost:3000 DECKHAND_JOIN_TOKEN=dhj_secret.ca sudo --preserve-env=DECKHAND_HUB_URL,DECKHAND_JOIN_TOKEN sh",
    );
    expect(screen.getByText(/Other machines cannot reach localhost:3000/)).toBeTruthy();
    expect(["http://127.0.0.1:7800/", "http://[::1]:7800", "https://hub.example.com/deckhand/"].map(localOnly)).toEqual([true, true, false]);
    expect(asked).toHaveBeenCalledWith(3600, { site: "oslo" });
    const dialog = screen.getByRole("dialog");
    expect(await within(dialog).findByRole("link", { name: "new-1" })).toBeTruthy();
  });

  it("has nothing to enrol with for those who may not", async () => {
    showPage("/nodes", nodeRoutes, (r) => r.service(NodeService, { listNodes: () => ({ nodes: [node()] }) }), "viewer");
    await screen.findByRole("link", { name: "web-1" });
    expect(screen.queryByRole("button", { name: "Enrol a node" })).toBeNull();
  });
});

describe("a node's page", () => {
  const services =
    (over: MessageInitShape<typeof NodeSchema> = {}, calls = vi.fn()) =>
    (r: Parameters<Parameters<typeof showPage>[2]>[0]) => {
      r.service(NodeService, {
        getNode: () => ({ node: node(over) }),
        listNodeLocks: () => ({
          locks: [
            { id: "lock_2", by: "agent ops", reason: "mend nginx", takenAt: { seconds: 2n }, taskId: "task_1", expiresAt: { seconds: 4_000_000_000n } },
            { id: "lock_1", by: "bob", reason: "new kernel", takenAt: { seconds: 1n } },
          ],
        }),
        revokeNode: (req) => (calls("revoke", req.nodeId), {}),
        drainNode: (req) => (calls("drain", req.reason), { activeTasks: 2 }),
        unlockNode: (req) => (calls("unlock", req.force), {}),
      });
      r.service(NodeExecService, {
        listNodeExecs: () => ({
          execs: [
            {
              id: "exec_1",
              argv: ["printf", "\u001b]0;hacked\u0007ok"],
              state: NodeExecState.ENDED,
              endReason: "exited",
              target: NodeExecTarget.HOST,
              createdBy: "ada",
              logBytes: 3n,
            },
            { id: "exec_2", argv: ["rm", "notes"], state: NodeExecState.ENDED, endReason: "exited", target: NodeExecTarget.JAIL, createdBy: "ada", files: 1 },
          ],
        }),
        indexNodeLog: () => ({ marks: [{}], nextOffset: 10n, rows: 1n, lines: 1n, end: 10n, complete: true, ended: true }),
        readNodeLog: async function* (req) {
          await Promise.resolve();
          if (req.offset === 0n) yield { data: new TextEncoder().encode("it was me\n"), offset: 0n };
        },
      });
      r.service(NodeTelemetryService, {
        watchNodeTelemetry: async function* (_, context) {
          yield {
            time: { seconds: 1n },
            host: { cpuMillis: 1500n, memoryBytes: 2048n, load: 0.75, cpus: 2 },
            jails: [{ jailId: "jail_1", agentName: "walker", cpuMillis: 250n }],
            events: [{ kind: "out_of_memory", jailId: "jail_1", time: { seconds: 1n } }],
          };
          await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
        },
      });
    };

  it("shows figures, jails, events, commands and locks", async () => {
    const { container } = showPage("/nodes/web-1", nodeRoutes, services());
    expect(await screen.findByRole("img", { name: "CPU 1.50 CPU" })).toBeTruthy();
    expect(screen.getByRole("img", { name: /^Load .*0\.75/ })).toBeTruthy();
    expect(await screen.findByText("walker")).toBeTruthy();
    expect(screen.getByText("out of memory")).toBeTruthy();
    expect(await screen.findByText("new kernel")).toBeTruthy();
    // The lock of an agent's task says so, and until when.
    const held = screen.getByText("mend nginx").closest("tr")!;
    expect(held.textContent).toContain("agent ops");
    expect(held.textContent).toContain("until");
    expect(within(held).getByRole("link", { name: "task of an agent" }).getAttribute("href")).toBe("/tasks/task_1");
    // What was run is shown as it is: with what a terminal would obey as chips.
    expect((await screen.findByText(/^printf/)).textContent).toBe("printf '\u001b]0;hacked\u0007ok'");
    expect(screen.getByRole("img", { name: "ESC" })).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Charts" }));
    expect(await screen.findByRole("img", { name: "CPU 0.25 CPU" })).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("says why its last upgrade failed", async () => {
    showPage("/nodes/web-1", nodeRoutes, services({ upgrade: { version: "1.3.0", state: "failed", problem: "no session with the hub\u001b[2J" } }));
    const said = await screen.findByText(/To 1\.3\.0: failed/);
    expect(said.textContent).toContain("no session with the hub");
    expect(within(said).getByRole("img", { name: "ESC" })).toBeTruthy();
  });

  it("reads a command's log", async () => {
    showPage("/nodes/web-1", nodeRoutes, services());
    await userEvent.click((await screen.findAllByRole("button", { name: "Log" }))[0]!);
    // jsdom lays nothing out, so that no row is drawn; the size says that it came.
    await waitFor(() => expect(screen.getByRole("dialog").textContent).toContain("10 B"));
  });

  // Revoke, and no click does it by mistake.
  it("undoes what a person's command changed in a workspace", async () => {
    const calls = vi.fn();
    showPage("/nodes/web-1", nodeRoutes, (r) => {
      services()(r);
      r.service(WorkspaceService, {
        undoNodeExec: (req) => (calls(req.execId, req.preview, req.expectState), { undo: { applied: !req.preview, files: 1, state: 7n, changes: [{ path: "notes", kind: ChangeKind.ADDED }] } }),
      });
    });
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Undo" }));
    const dialog = await screen.findByRole("dialog", { name: "Undo what a command changed" });
    await user.click(await within(dialog).findByRole("button", { name: "Undo 1 file" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("exec_2", false, 7n));
    expect(calls.mock.calls[0]).toEqual(["exec_2", true, 0n]);
  });

  it("is revoked only by its typed name", async () => {
    const calls = vi.fn();
    showPage("/nodes/web-1", nodeRoutes, services({}, calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Revoke" }));
    const dialog = await screen.findByRole("dialog");
    const revoke = within(dialog).getByRole("button", { name: "Revoke" });
    expect(revoke.hasAttribute("disabled")).toBe(true);
    await user.type(within(dialog).getByLabelText("Type web-1 to confirm"), "web-1{Enter}");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("revoke", "node_0123456789abcdef"));
  });

  it("is drained with a reason", async () => {
    const calls = vi.fn();
    showPage("/nodes/web-1", nodeRoutes, services({}, calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Drain" }));
    await user.type(await screen.findByLabelText("Reason (stored in the audit log)"), "new disks{Enter}");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("drain", "new disks"));
  });

  // A person is asked before a terminal that is no jail.
  it("opens a terminal on the machine only after a question, and says where it is", async () => {
    const { history } = showPage("/nodes/web-1", nodeRoutes, services());
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Host terminal" }));
    expect(history.location.search).toBe("");
    await user.click(await screen.findByRole("button", { name: "Open host terminal" }));
    expect(await screen.findByRole("region", { name: "terminal host" })).toBeTruthy();
    expect(history.location.search).toBe("?terminal=%40host");
  });
  it("opens a terminal in an agent's jail", async () => {
    showPage("/nodes/web-1", nodeRoutes, services(), "advanced");
    await userEvent.click(await screen.findByRole("button", { name: "Terminal" }));
    expect(await screen.findByRole("region", { name: "terminal walker" })).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Host terminal" })).toBeNull();
  });

  // Another's lock is not taken by the way.
  it("says whose lock is broken, and forces only then", async () => {
    const calls = vi.fn();
    showPage("/nodes/web-1", nodeRoutes, services({ lock: { by: "bob", reason: "new kernel" } }, calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Unlock" }));
    expect(within(await screen.findByRole("dialog")).getByText(/bob holds the lock/)).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Force unlock" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("unlock", true));
  });
});
