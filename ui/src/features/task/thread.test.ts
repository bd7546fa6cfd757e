import { describe, expect, it } from "vitest";
import type { LiveEvent } from "@/live/event";
import { Threads, type Call, type Said } from "./thread";

let seq = 0;
const e = (type: string, payload: Record<string, unknown> = {}): LiveEvent => ({
  taskId: "t", seq: ++seq, type, time: seq, actorKind: "worker", actorId: "w", attempt: 1, payload,
});

describe("Threads", () => {
  it("tells a call from its choice to its end, in one entry", () => {
    const events = [
      e("thinking", { turn: 1, text: "I look.", calls: ["shell_exec"] }),
      e("approval_requested", { step_id: "s1", number: 1, turn: 1, tool: "shell_exec", arguments: { command: "ls" }, item_id: "i1", why: "it is dangerous" }),
    ];
    const threads = new Threads();
    const call = () => threads.of(events).entries.find((x): x is Call => x.kind === "call")!;
    expect(call()).toMatchObject({ state: "waiting", itemId: "i1", reason: "it is dangerous" });
    const before = call();
    events.push(e("inbox_answered", { step_id: "s1", by: "ada", answer: "approve" }));
    events.push(e("tool_selected", { step_id: "s1", number: 1, turn: 1, tool: "shell_exec", arguments: { command: "ls -l" }, reason: "ada" }));
    events.push(e("tool_executing", { step_id: "s1", number: 1, tool: "shell_exec" }));
    expect(call()).toMatchObject({ state: "started", itemId: undefined, args: { command: "ls -l" } });
    events.push(e("tool_completed", { step_id: "s1", state: "succeeded", outcome: { exit_code: 0 }, log_bytes: 12, workspace: { paths: ["a.txt"] } }));
    expect(call()).toMatchObject({ state: "succeeded", logBytes: 12, files: ["a.txt"] });
    expect(call()).not.toBe(before);
    expect(threads.of(events).entries.filter((x) => x.kind === "call")).toHaveLength(1);
  });

  it("answers the same thread when nothing came, and begins anew when older events are put before", () => {
    const threads = new Threads();
    const events = [e("message_received", { message_id: "m1", text: "stop", by: "ada" })];
    const first = threads.of(events);
    expect(threads.of(events)).toBe(first);
    events.push(e("message_delivered", { message_ids: ["m1"], after_turn: 2 }));
    expect((threads.of(events).entries[0] as Said).delivered).toBe(true);
    events.unshift(e("thinking", { turn: 1, text: "before" }));
    expect(threads.of(events).entries.map((x) => x.kind)).toEqual(["turn", "said"]);
  });

  it("marks a message that was withdrawn, and keeps that mark when the task ends", () => {
    const events = [
      e("message_received", { message_id: "m1", text: "delete it", by: "ada", interrupt: true }),
      e("message_received", { message_id: "m2", text: "keep it", by: "ada" }),
      e("message_withdrawn", { message_id: "m1", by: "ada" }),
      e("state_changed", { from: "running", to: "cancelled", reason: "" }),
    ];
    const said = new Threads().of(events).entries.filter((x): x is Said => x.kind === "said");
    expect(said.map((x) => [x.withdrawn, x.lost, x.interrupts])).toEqual([[true, false, true], [false, true, false]]);
  });

  it("holds twenty thousand events, and goes on in no time", () => {
    const events = Array.from({ length: 20_000 }, (_, i) => e(i % 2 ? "thinking" : "phase_changed", { turn: i, text: "x", phase: "think" }));
    const threads = new Threads();
    expect(threads.of(events).entries).toHaveLength(10_000);
    events.push(e("thinking", { turn: 1, text: "x" }));
    expect(threads.of(events).entries).toHaveLength(10_001);
  });

  it("counts requests with a credential in one note until something else happens", () => {
    const used = { credential: "github", requests: 2, problems: 0, hosts: ["github.com:443"] };
    const events = [e("credential_used", { ...used, requests: 1 })];
    const threads = new Threads();
    expect(threads.of(events).entries).toMatchObject([{ kind: "note", tone: "plain", text: "1 request with credential github to github.com:443" }]);
    events.push(e("credential_used", { ...used, hosts: ["api.github.com:443"], problems: 1, problem: "it was deleted" }));
    expect(threads.of(events).entries).toMatchObject([
      { tone: "warn", text: "3 requests with credential github to github.com:443, api.github.com:443, 1 failed: it was deleted" },
    ]);
    events.push(e("thinking", { turn: 1, text: "on" }), e("credential_used", used), e("credential_used", { ...used, credential: "api" }));
    expect(threads.of(events).entries.map((x) => x.kind)).toEqual(["note", "turn", "note", "note"]);
  });

  it("shows the pull of an image in one note", () => {
    const image = { image: "ghcr.io/team/app:1", layers: 3, layers_done: 1, bytes: 3 << 20, bytes_done: 1 << 20 };
    const events = [
      e("image_pulling", { ...image, phase: "downloading" }),
      e("image_pulling", { ...image, phase: "downloading", layers_done: 2, bytes_done: 2 << 20 }),
    ];
    const threads = new Threads();
    expect(threads.of(events).entries).toMatchObject([{ kind: "note", text: "Pulling ghcr.io/team/app:1: 2.0 MiB of 3.0 MiB, 2 of 3 layers" }]);
    events.push(e("image_pulling", { ...image, phase: "preparing" }));
    expect(threads.of(events).entries).toMatchObject([{ text: "Preparing ghcr.io/team/app:1" }]);
    events.push(e("image_setup", { image: image.image, line: 1, lines: 2, command: "apt-get update", exec_id: "nexec_1" }));
    expect(threads.of(events).entries).toMatchObject([{ text: "Setting up ghcr.io/team/app:1, command 1 of 2: apt-get update" }]);
    events.push(e("image_ready", { reference: "ghcr.io/team/app@sha256:0" }));
    expect(threads.of(events).entries).toMatchObject([{ text: "Jail image: ghcr.io/team/app@sha256:0" }]);
  });
});
