import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import axe from "axe-core";
import { describe, expect, it, vi } from "vitest";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { DeliveryState, TriggerKind, TriggerSchema, TriggerService, TriggerState } from "@/gen/deckhand/v1/trigger_pb";
import { showPage } from "@/test/page";
import { emptyDraft, problemsOf, requestOf } from "./draft";
import { condition, fieldsOf, withCondition } from "./fields";
import { triggerRoutes } from "./route";
import { bodyText, mappingText, parseDuration, parseMapping, parseTriggerSearch, whenOf } from "./words";

const now = Math.floor(Date.now() / 1000);
const at = (second: number) => ({ seconds: BigInt(now + second) });
const trigger = (over: MessageInitShape<typeof TriggerSchema> = {}) =>
  create(TriggerSchema, {
    id: "trigger_1",
    name: "on-push",
    kind: TriggerKind.WEBHOOK,
    agentName: "walker",
    state: TriggerState.ENABLED,
    path: "/webhooks/trigger_1",
    secretEndsIn: "abcd",
    spec: { filter: "payload.a == 1", goal: "Look at {{ title }}", mapping: { title: "payload.title" }, webhook: { verify: "github" } },
    ...over,
  } as MessageInitShape<typeof TriggerSchema>);

describe("words", () => {
  it("read lengths of time", () => {
    expect(parseDuration("90s")?.seconds).toBe(90n);
    expect(parseDuration(" 2 h ")?.seconds).toBe(7200n);
    expect(parseDuration("1d")?.seconds).toBe(86400n);
    for (const bad of ["", "5", "-1m", "1.5h", "soon"]) expect(parseDuration(bad)).toBeUndefined();
  });
  it("read and write a mapping", () => {
    expect(parseMapping("title = payload.a == 'x'\n\n n=1")).toEqual({ title: "payload.a == 'x'", n: "1" });
    expect(parseMapping("no equals sign")).toMatch(/not of the form/);
    expect(parseMapping(mappingText({ a: "payload.b", c: "1" }))).toEqual({ a: "payload.b", c: "1" });
  });
  it("say what a trigger waits for", () => {
    expect(whenOf(trigger())).toBe("webhook request (verified by github)");
    expect(whenOf(trigger({ kind: TriggerKind.CRON, spec: { cron: { schedule: "0 6 * * *" } } }))).toBe("0 6 * * * UTC");
    expect(whenOf(trigger({ kind: TriggerKind.LOOP, spec: { loop: { pause: { seconds: 600n } } } }))).toBe("10 min 0 s after each run");
  });
  it("show a body as text, whatever it is", () => {
    expect(bodyText(new TextEncoder().encode('{"a":1}'))).toBe('{\n  "a": 1\n}');
    expect(bodyText(new TextEncoder().encode("a=1&b=2"))).toBe("a=1&b=2");
    expect(bodyText(new Uint8Array([0xff, 0xfe]))).toBe("2 bytes of binary data");
  });
  it("leave out of an address what they do not know", () => {
    expect(parseTriggerSearch({ outcome: "nonsense", tab: 4 })).toEqual({ tab: undefined, outcome: undefined, delivery: undefined });
    expect(parseTriggerSearch({ outcome: "failed", tab: "try" })).toMatchObject({ outcome: "failed", tab: "try" });
  });
});

describe("a draft", () => {
  const draft = { ...emptyDraft("walker", "Europe/Berlin"), name: "x" };
  it("says what is wrong by field", () => {
    expect(problemsOf(emptyDraft("", "UTC"))).toHaveProperty("name");
    expect(problemsOf(emptyDraft("", "UTC"))).toHaveProperty("agent");
    expect(problemsOf({ ...draft, kind: "cron", schedule: "* * * * * *" })).toHaveProperty("schedule");
    expect(problemsOf({ ...draft, kind: "cron", schedule: "@daily" })).toEqual({});
    expect(problemsOf({ ...draft, kind: "loop", pause: "soon", budget: "much", maxRuns: "-1" })).toMatchObject({
      pause: expect.any(String),
      budget: expect.any(String),
      maxRuns: expect.any(String),
    });
  });
  it("becomes a request of its kind", () => {
    expect(requestOf({ ...draft, sender: "github" })).toMatchObject({ kind: TriggerKind.WEBHOOK, preset: "github" });
    expect(requestOf({ ...draft, sender: "stripe" }, "whsec_1")).toMatchObject({ preset: "", secret: "whsec_1", spec: { webhook: { verify: "stripe" } } });
    expect(requestOf({ ...draft, kind: "cron" }).spec?.cron).toMatchObject({ schedule: "0 6 * * *", timeZone: "Europe/Berlin" });
    const loop = requestOf({ ...draft, kind: "loop", pause: "10m", budget: "2.50", maxRuns: "3" }).spec;
    expect(loop?.loop).toMatchObject({ pause: { seconds: 600n }, budgetMicros: 2_500_000n, maxRuns: 3n });
    expect(loop?.webhook).toBeUndefined();
  });
});

type Services = Parameters<typeof showPage>[2];
const services =
  (over: MessageInitShape<typeof TriggerSchema> = {}, calls = vi.fn()): Services =>
  (r) => {
    const started = { id: "delivery_2", triggerId: "trigger_1", state: DeliveryState.STARTED, source: "webhook", event: "push", taskId: "task_9", receivedAt: at(-10), size: 20 };
    const failed = { id: "delivery_1", triggerId: "trigger_1", state: DeliveryState.FAILED, source: "webhook", reason: "no such key: title", receivedAt: at(-60) };
    r.service(AgentService, { listAgents: () => ({ agents: [{ id: "agent_1", name: "walker" }] }) });
    r.service(TriggerService, {
      listTriggers: () => ({
        triggers: [
          trigger(over),
          trigger({ id: "trigger_2", name: "nightly", kind: TriggerKind.CRON, spec: { cron: { schedule: "@daily" } }, nextRuns: [1, 2, 3, 4, 5].map((d) => at(d * 86_400)) }),
        ],
      }),
      getTrigger: () => ({ trigger: trigger(over) }),
      listDeliveries: (req) => {
        calls("list", req.states, req.pageToken);
        if (req.triggerId === "trigger_2") return {};
        if (req.pageToken === "older") return { deliveries: [failed] };
        if (req.states.includes(DeliveryState.FAILED)) return { deliveries: [failed] };
        return { deliveries: [started], nextPageToken: "older" };
      },
      getDelivery: (req) => ({
        delivery: {
          ...started,
          id: req.deliveryId,
          headers: { "X-Github-Event": "push" },
          body: new TextEncoder().encode('{"title":"<img src=x onerror=alert(1)>"}'),
          prompt: "Look at \u001b]0;x\u0007it",
        },
      }),
      replayDelivery: (req) => (calls("replay", req.deliveryId), { delivery: { id: "delivery_3", replayOf: req.deliveryId } }),
      testTrigger: (req) => {
        if (req.agentId) calls("try", req.agentId, req.preset, req.deliveryId, req.headers, new TextDecoder().decode(req.body), req.spec?.filter);
        else calls("test", req.deliveryId, req.spec?.filter, req.spec?.mapping, req.spec?.goal);
        return { agentName: "walker", overlap: "allow", priority: 5, state: DeliveryState.STARTED, mapped: { title: "hello" }, prompt: "Look at hello" };
      },
      updateTrigger: (req) => (calls("update", req.spec?.filter, req.spec?.webhook?.verify, req.spec?.webhook?.ratePerMinute), {}),
      rotateTriggerSecret: (req) => (calls("rotate", req.keep?.seconds), { secret: "s3cret" }),
      fireTrigger: (req) => (calls("fire", req.goal, req.idempotencyKey.length > 10), { delivery: { id: "d", taskId: "task_10" } }),
      disableTrigger: (req) => (calls("disable", req.reason), {}),
      deleteTrigger: (req) => (calls("delete", req.triggerId), {}),
      createTrigger: (req) => {
        calls("create", req.name, req.preset, req.agentId, req.secret);
        return { trigger: trigger({ name: req.name }), secret: "made-by-the-hub" };
      },
    });
  };

describe("the list", () => {
  it("teaches the first command when there is nothing", async () => {
    showPage("/triggers", triggerRoutes, (r) => {
      r.service(TriggerService, { listTriggers: () => ({}) });
      r.service(AgentService, { listAgents: () => ({}) });
    });
    expect(await screen.findByText("No triggers yet")).toBeTruthy();
  });
  it("asks once for the last delivery of all, and alone for none that had one lately", async () => {
    const asked: string[] = [];
    showPage("/triggers", triggerRoutes, (r) => {
      r.service(AgentService, { listAgents: () => ({}) });
      r.service(TriggerService, {
        listTriggers: () => ({ triggers: ["1", "2", "3"].map((n) => trigger({ id: `trigger_${n}`, name: `hook-${n}` })) }),
        listDeliveries: (req) => {
          asked.push(req.triggerId);
          const of = (n: string) => ({ id: `delivery_${n}`, triggerId: `trigger_${n}`, state: DeliveryState.STARTED, receivedAt: at(-10) });
          return req.triggerId ? {} : { deliveries: [of("2"), of("1"), of("2")], nextPageToken: "older" };
        },
      });
    });
    const row = async (name: string) => (await screen.findByRole("link", { name })).closest("tr")!;
    expect(await within(await row("hook-3")).findByText("none yet")).toBeTruthy();
    expect(within(await row("hook-1")).getByText(/started/i)).toBeTruthy();
    expect(asked.sort()).toEqual(["", "trigger_3"]);
  });
  // The console shows the next five runs.
  it("shows five next runs and the last delivery", async () => {
    const { container } = showPage("/triggers", triggerRoutes, services());
    const nightly = (await screen.findByRole("link", { name: "nightly" })).closest("tr")!;
    expect(within(nightly).getAllByRole("listitem")).toHaveLength(5);
    expect(await within(nightly).findByText("none yet")).toBeTruthy();
    const push = screen.getByRole("link", { name: "on-push" }).closest("tr")!;
    expect(await within(push).findByText("started")).toBeTruthy();
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });
});

describe("a trigger", () => {
  it("says whose deliveries they are to whoever does not see them", async () => {
    const others: Services = (r) => {
      r.service(AgentService, { listAgents: () => ({}) });
      r.service(TriggerService, { getTrigger: () => ({ trigger: trigger({ createdBy: "bob" }) }), listDeliveries: () => ({}) });
    };
    showPage("/triggers/on-push", triggerRoutes, others, "advanced");
    expect(await screen.findByText("No deliveries to show")).toBeTruthy();
    expect(screen.getByText(/Only bob, who created the trigger/)).toBeTruthy();
  });

  // Listed, filtered by outcome, in pages.
  it("shows its deliveries by outcome, in pages", async () => {
    const calls = vi.fn();
    const { container, history } = showPage("/triggers/on-push", triggerRoutes, services({}, calls));
    expect(await screen.findByRole("link", { name: "task_9" })).toBeTruthy();
    const user = userEvent.setup();
    await user.click(screen.getByRole("button", { name: "Older deliveries" }));
    expect(await screen.findByText("no such key: title")).toBeTruthy();
    expect(calls).toHaveBeenCalledWith("list", [], "older");
    await user.selectOptions(screen.getByLabelText("Outcome"), "failed");
    await waitFor(() => expect(history.location.search).toBe("?outcome=failed"));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("list", [DeliveryState.FAILED], ""));
    await waitFor(() => expect(screen.queryByRole("link", { name: "task_9" })).toBeNull());
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  // Kept with headers, verdict, mapped prompt and task; replayed by a person.
  it("opens a delivery from its address, as it was sent, and replays it", async () => {
    const calls = vi.fn();
    const { history } = showPage("/triggers/on-push?delivery=delivery_2", triggerRoutes, services({}, calls));
    const dialog = await screen.findByRole("dialog");
    expect(await within(dialog).findByText("X-Github-Event")).toBeTruthy();
    expect(within(dialog).getByLabelText("Mapped prompt", { selector: "pre" }).textContent).toBe("Look at \u001b]0;x\u0007it");
    expect(within(dialog).getByRole("img", { name: "ESC" })).toBeTruthy();
    expect(within(dialog).getByLabelText("Body", { selector: "pre" }).textContent).toContain("<img src=x");
    expect(dialog.querySelector("img")).toBeNull();
    await userEvent.click(within(dialog).getByRole("button", { name: "Replay" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("replay", "delivery_2"));
    await waitFor(() => expect(history.location.search).toContain("delivery_3"));
  });

  // Tried on stored deliveries before it is enabled.
  it("tries expressions on a stored delivery, and keeps them", async () => {
    const calls = vi.fn();
    const { container } = showPage("/triggers/on-push?tab=try", triggerRoutes, services({}, calls));
    const user = userEvent.setup();
    const filter = await screen.findByLabelText("Filter");
    await screen.findByRole("option", { name: /^push, started/ });
    expect((screen.getByRole("button", { name: "Save" }) as HTMLButtonElement).disabled).toBe(true);
    await user.clear(filter);
    await user.type(filter, "payload.b");
    await user.click(screen.getByRole("button", { name: "Test" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("test", "delivery_2", "payload.b", { title: "payload.title" }, "Look at {{ title }}"));
    expect((await screen.findByLabelText("Prompt")).textContent).toBe("Look at hello");
    expect(screen.getByLabelText("Mapped").textContent).toContain('"title": "hello"');
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("update", "payload.b", "github", 0));
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
  });

  it("takes the fields of the delivery into the filter and the goal", async () => {
    const calls = vi.fn();
    showPage("/triggers/on-push?tab=try", triggerRoutes, services({}, calls));
    const user = userEvent.setup();
    // Of the delivery, when it is there.
    const title = await screen.findByRole("option", { name: 'payload.title == "<img src=x onerror=alert(1)>"' });
    await user.clear(screen.getByLabelText("Filter"));
    await user.selectOptions(screen.getByLabelText("Add a condition to the filter"), title);
    expect(screen.getByLabelText<HTMLTextAreaElement>("Filter").value).toBe('payload.title == "<img src=x onerror=alert(1)>"');
    await user.selectOptions(screen.getByLabelText("Insert a field into the goal"), screen.getByRole("option", { name: /^\{\{ payload\.title \}\}/ }));
    expect(screen.getByLabelText<HTMLTextAreaElement>("Goal").value).toBe("Look at {{ title }}{{ payload.title }}");
  });

  it("knows the fields of a payload by the expressions that have them", () => {
    const fields = fieldsOf('{"a":{"b-c":1,"list":[{"x":true},{"x":false}],"none":null},"long":"' + "y".repeat(80) + '","empty":[]}');
    expect(fields.map((f) => f.path)).toEqual(['payload.a["b-c"]', "payload.a.list[0].x", "payload.a.none", "payload.long"]);
    expect(fields.map(condition)).toEqual(['payload.a["b-c"] == 1', "payload.a.list[0].x == true", "payload.a.none == null", "has(payload.long)"]);
    expect(withCondition(" payload.a.list[0].x ", fields[0]!)).toBe('payload.a.list[0].x && payload.a["b-c"] == 1');
    expect(fieldsOf("plain text")).toEqual([]);
    expect(fieldsOf(JSON.stringify(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, i]))))).toHaveLength(200);
  });

  it("says which line of a mapping is none, and tries nothing", async () => {
    showPage("/triggers/on-push?tab=try", triggerRoutes, services());
    const mapping = await screen.findByLabelText("Mapping");
    await userEvent.type(mapping, "{enter}nonsense");
    expect(await screen.findByText('"nonsense" is not of the form name = CEL')).toBeTruthy();
    expect((screen.getByRole("button", { name: "Test" }) as HTMLButtonElement).disabled).toBe(true);
  });

  // Fired with a goal of one's own; another secret, shown once.
  it("is fired, gets another secret, and is deleted by its name", async () => {
    const calls = vi.fn();
    const { history } = showPage("/triggers/on-push", triggerRoutes, services({}, calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Fire" }));
    await user.type(await screen.findByLabelText("Goal"), "just this");
    await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Fire" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("fire", "just this", true));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());

    await user.click(screen.getByRole("button", { name: "Rotate secret" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Rotate" }));
    expect(await screen.findByText("s3cret")).toBeTruthy();
    expect(calls).toHaveBeenCalledWith("rotate", 86_400n);
    await user.click(screen.getByRole("button", { name: "I have saved it" }));
    await waitFor(() => expect(screen.queryByText("s3cret")).toBeNull());

    await user.click(screen.getByRole("button", { name: "Delete" }));
    await user.type(await screen.findByLabelText("Type on-push to confirm"), "on-push{Enter}");
    await waitFor(() => expect(calls).toHaveBeenCalledWith("delete", "trigger_1"));
    await waitFor(() => expect(history.location.pathname).toBe("/triggers"));
  });

  it("has its settings changed, and keeps what they do not name", async () => {
    const calls = vi.fn();
    showPage("/triggers/hook", triggerRoutes, services({ spec: { filter: "payload.b", webhook: { verify: "github" } } }, calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Change" }));
    await user.type(screen.getByLabelText("Deliveries per minute"), "many");
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect((await screen.findAllByText("Enter a whole number, or leave empty.")).length).toBeGreaterThan(0);
    await user.clear(screen.getByLabelText("Deliveries per minute"));
    await user.type(screen.getByLabelText("Deliveries per minute"), "30");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("update", "payload.b", "github", 30));
  });

  it("leaves those who only look with nothing to press", async () => {
    showPage("/triggers/on-push", triggerRoutes, services(), "viewer");
    await screen.findByRole("link", { name: "task_9" });
    for (const name of ["Fire", "Disable", "Delete", "Open"]) expect(screen.queryByRole("button", { name })).toBeNull();
  });
});

describe("a new one", () => {
  it("is tested before it exists, with a delivery of another trigger or a body", async () => {
    const calls = vi.fn();
    showPage("/triggers/new?agent=walker", triggerRoutes, services({}, calls));
    const user = userEvent.setup();
    const part = await screen.findByRole("region", { name: "Test before creating" });
    await user.type(screen.getByLabelText("Filter"), "payload.ok");
    await within(part).findByRole("option", { name: /push, started/ });
    await user.click(within(part).getByRole("button", { name: "Test" }));
    await waitFor(() => expect(calls).toHaveBeenCalledWith("try", "walker", "github", "delivery_2", {}, "", "payload.ok"));
    expect(await within(part).findByText("Run in parallel")).toBeTruthy();
    expect(within(part).getByText("walker")).toBeTruthy();
    expect(within(part).getByText("Look at hello")).toBeTruthy();

    await user.selectOptions(within(part).getByLabelText("Test delivery"), "Custom body");
    await user.type(within(part).getByLabelText("Event"), "pull_request");
    await user.click(within(part).getByRole("button", { name: "Test" }));
    const headers = { "Content-Type": "application/json", "X-GitHub-Event": "pull_request" };
    await waitFor(() => expect(calls).toHaveBeenCalledWith("try", "walker", "github", "", headers, '{"hello": "there"}', "payload.ok"));
    expect(calls.mock.calls.map(([what]) => String(what))).not.toContain("create");
  });
  it("is made, and its secret is shown this once", async () => {
    const calls = vi.fn();
    const { container } = showPage("/triggers/new?agent=walker", triggerRoutes, services({}, calls));
    const user = userEvent.setup();
    await user.click(await screen.findByRole("button", { name: "Create trigger" }));
    expect(calls).not.toHaveBeenCalledWith("create", expect.anything(), expect.anything(), expect.anything(), expect.anything());
    const name = screen.getByLabelText("Name");
    expect(name.getAttribute("aria-invalid")).toBe("true");
    await user.type(name, "on-push");
    const typed = screen.getByLabelText("Secret");
    expect(typed.getAttribute("autocomplete")).toBe("off");
    await user.type(typed, "issued");
    expect((await axe.run(container)).violations.map((v) => v.id)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Create trigger" }));
    expect(await screen.findByText("made-by-the-hub")).toBeTruthy();
    expect(calls).toHaveBeenCalledWith("create", "on-push", "github", "walker", "issued");
    expect(screen.getByText("http://localhost:3000/webhooks/trigger_1")).toBeTruthy();
  });
});
