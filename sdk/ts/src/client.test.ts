import { Code, ConnectError, createConnectRouter, type ConnectRouter } from "@connectrpc/connect";
import { createFetchHandler } from "@connectrpc/connect/protocol";
import { describe, expect, it } from "vitest";
import { Client } from "./client.js";
import { DeckhandError, isError } from "./error.js";
import { ErrorInfoSchema } from "./gen/deckhand/error/v1/error_pb.js";
import { InboxService } from "./gen/deckhand/v1/inbox_pb.js";
import { SessionService } from "./gen/deckhand/v1/session_pb.js";
import { TaskService } from "./gen/deckhand/v1/task_pb.js";
import { ErrorCode, errorCatalogue } from "./gen/errors.js";
import type { Options } from "./transport.js";

// hub returns a client of services that run here: requests and responses go over the wire's
// format. requests are those that were sent.
function hub(services: (router: ConnectRouter) => void, options: Partial<Options> = {}) {
  const router = createConnectRouter();
  services(router);
  const handlers = new Map(router.handlers.map((h) => [h.requestPath, createFetchHandler(h)]));
  const requests: Request[] = [];
  const client = new Client({
    url: "https://hub.example/deckhand/",
    token: "dhu_secret",
    fetch: async (input, init) => {
      const request = new Request(input, init);
      request.signal.throwIfAborted();
      requests.push(request.clone());
      const path = new URL(request.url).pathname.replace("/deckhand/", "/");
      const respond = handlers.get(path)!;
      return await Promise.race([
        respond(request),
        new Promise<never>((_, reject) => request.signal.addEventListener("abort", () => reject(request.signal.reason as Error))),
      ]);
    },
    ...options,
  });
  return { client, requests };
}

const refusal = (code: Code, info: Record<string, unknown>, headers?: HeadersInit) => {
  const e = new ConnectError("in short", code, headers);
  e.details = [{ desc: ErrorInfoSchema, value: info as never }];
  return e;
};

describe("Client", () => {
  it("sends its token, below the hub's base path", async () => {
    const { client, requests } = hub((r) => r.service(TaskService, { getTask: (q) => ({ task: { id: q.taskId } }) }));
    expect((await client.tasks.getTask({ taskId: "task_1" })).task?.id).toBe("task_1");
    expect(requests[0]!.url).toBe("https://hub.example/deckhand/deckhand.v1.TaskService/GetTask");
    expect(requests[0]!.headers.get("authorization")).toBe("Bearer dhu_secret");
    expect(requests[0]!.headers.get("user-agent")).toMatch(/^deckhand-sdk-ts\//);
  });

  it("sends a session's cookie as from the hub's own page", async () => {
    const { client, requests } = hub((r) => r.service(TaskService, { getTask: () => ({}) }), { token: undefined, session: "dhs_1" });
    await client.tasks.getTask({ taskId: "task_1" });
    expect(requests[0]!.headers.get("cookie")).toBe("deckhand_session=dhs_1");
    expect(requests[0]!.headers.get("origin")).toBe("https://hub.example");
    expect(requests[0]!.headers.get("authorization")).toBeNull();
  });

  it("refuses URLs and tokens that cannot be, without showing secrets", () => {
    const says = (url: string, token = "t") => {
      try {
        new Client({ url, token });
      } catch (e) {
        return String(e);
      }
      return "";
    };
    expect(says("hub:7443")).toContain("https://");
    expect(says("")).toContain("https://");
    expect(says("https://u:secret@hub")).toContain("has a user");
    expect(says("https://u:secret@hub")).not.toContain("secret");
    expect(says("https://hub?x=1")).toContain("query");
    expect(says("https://hub", "abc\ndef")).toContain("copy it again");
    expect(says("https://hub", "abc\ndef")).not.toContain("def");
    expect(says("https://hub")).toBe("");
  });
});

describe("errors", () => {
  it("have the hub's code, message, fix, object and place to correct it", async () => {
    const { client } = hub((r) =>
      r.service(TaskService, {
        getTask: () => {
          throw refusal(Code.FailedPrecondition, { code: "AGENT_025", message: "provider x is not connected", fix: "connect it", objectId: "x", action: { label: "Connect", path: "/providers", command: "c" } });
        },
      }),
    );
    const error = await client.tasks.getTask({ taskId: "task_1" }).then(() => undefined, (e: unknown) => e);
    expect(error).toBeInstanceOf(DeckhandError);
    expect(error).toMatchObject({
      code: ErrorCode.NoCredentials, rpcCode: "failed_precondition", message: "provider x is not connected", fix: "connect it", objectId: "x", fromHub: true,
      action: { label: "Connect", path: "/providers", command: "c" },
    });
    expect(isError(error, ErrorCode.NoCredentials)).toBe(true);
    expect(isError(error, "failed_precondition")).toBe(true);
    expect(isError(error, "not_found", ErrorCode.BudgetLimit)).toBe(false);
    expect(isError(new Error("x"), "unknown")).toBe(false);
    expect(errorCatalogue[ErrorCode.NoCredentials].title).toBe("Provider not connected");
  });

  it("of a hub that cannot be reached are unavailable", async () => {
    const client = new Client({ url: "https://hub.example", retries: 0, fetch: () => Promise.reject(new TypeError("fetch failed")) });
    await expect(client.tasks.getTask({ taskId: "x" })).rejects.toMatchObject({ rpcCode: "unavailable", fromHub: false });
  });

  it("of an aborted call are the reason of its signal", async () => {
    const { client } = hub((r) => r.service(TaskService, { getTask: () => new Promise<never>(() => {}) }));
    const reason = new Error("enough");
    const abort = new AbortController();
    const call = client.tasks.getTask({ taskId: "x" }, { signal: abort.signal });
    abort.abort(reason);
    await expect(call).rejects.toBe(reason);
    await expect(client.tasks.getTask({ taskId: "x" }, { signal: AbortSignal.timeout(5) })).rejects.toMatchObject({ name: "TimeoutError" });
    await expect(client.tasks.getTask({ taskId: "x" }, { timeoutMs: 5 })).rejects.toMatchObject({ rpcCode: "deadline_exceeded" });
  });
});

describe("retries", () => {
  // failing returns a client of a hub that fails so often.
  function failing(failures: number, error: () => Error, options: Partial<Options> = {}) {
    let n = 0;
    const keys: (string | null)[] = [];
    const answer = <T>(response: T) => (_: unknown, context: { requestHeader: Headers }) => {
      keys.push(context.requestHeader.get("idempotency-key"));
      if (n++ < failures) throw error();
      return response as object;
    };
    const { client } = hub(
      (r) => {
        r.service(TaskService, { getTask: answer({}), submitTask: answer({}) });
        r.service(SessionService, { createSession: answer({}) });
      },
      options,
    );
    return { client, keys };
  }
  const gone = () => new ConnectError("restarting", Code.Unavailable);

  it("repeat reads as they are", async () => {
    const { client, keys } = failing(3, gone);
    await client.tasks.getTask({ taskId: "x" });
    expect(keys).toEqual([null, null, null, null]);
  });

  it("repeat what changes something with one key, which differs from call to call", async () => {
    const { client, keys } = failing(2, gone);
    await client.tasks.submitTask({ agentId: "a" });
    await client.tasks.submitTask({ agentId: "a" });
    expect(new Set(keys.slice(0, 3)).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(keys[3]).not.toBe(keys[0]);
  });

  it("keep the caller's key", async () => {
    const { client, keys } = failing(1, gone);
    await client.tasks.submitTask({ agentId: "a" }, { headers: { "Idempotency-Key": "mine" } });
    expect(keys).toEqual(["mine", "mine"]);
  });

  it("end after three, and are off with none", async () => {
    const { client, keys } = failing(9, gone);
    await expect(client.tasks.getTask({ taskId: "x" })).rejects.toMatchObject({ rpcCode: "unavailable" });
    expect(keys.length).toBe(4);
    const off = failing(9, gone, { retries: 0 });
    await expect(off.client.tasks.submitTask({})).rejects.toMatchObject({ rpcCode: "unavailable" });
    expect(off.keys).toEqual([null]);
  });

  it("do not repeat refusals, and calls without a token", async () => {
    const refused = failing(9, () => new ConnectError("no", Code.PermissionDenied));
    await expect(refused.client.tasks.getTask({ taskId: "x" })).rejects.toMatchObject({ rpcCode: "permission_denied" });
    expect(refused.keys.length).toBe(1);
    const away = failing(9, () => refusal(Code.Unavailable, { code: ErrorCode.NodeUnavailable, message: "no node" }));
    await expect(away.client.tasks.submitTask({})).rejects.toMatchObject({ code: ErrorCode.NodeUnavailable });
    expect(away.keys.length).toBe(1);
    const login = failing(9, gone);
    await expect(login.client.sessions.createSession({})).rejects.toMatchObject({ rpcCode: "unavailable" });
    expect(login.keys).toEqual([null]);
  });

  it("wait as long as the hub says, and not if that is too long", async () => {
    const limited = (seconds: string) => () => refusal(Code.ResourceExhausted, { code: ErrorCode.RateLimited, message: "more than 200 calls" }, { "retry-after": seconds });
    const soon = failing(1, limited("1"));
    const begun = performance.now();
    await soon.client.tasks.getTask({ taskId: "x" });
    expect(performance.now() - begun).toBeGreaterThanOrEqual(990);
    const late = failing(1, limited("31"));
    await expect(late.client.tasks.getTask({ taskId: "x" })).rejects.toMatchObject({ code: ErrorCode.RateLimited, retryAfterMs: 31_000 });
  });

  it("end when the call is aborted", async () => {
    const { client, keys } = failing(9, () => refusal(Code.Unavailable, { message: "later" }, { "retry-after": "20" }));
    await expect(client.tasks.getTask({ taskId: "x" }, { signal: AbortSignal.timeout(20) })).rejects.toMatchObject({ name: "TimeoutError" });
    expect(keys.length).toBe(1);
  });
});

describe("lists", () => {
  const pages: Record<string, { tasks: { id: string }[]; nextPageToken: string }> = {
    "": { tasks: [{ id: "1" }, { id: "2" }], nextPageToken: "a" },
    a: { tasks: [], nextPageToken: "b" },
    b: { tasks: [{ id: "3" }], nextPageToken: "" },
  };

  it("are one page as a promise, and all rows as an iterable", async () => {
    const asked: string[] = [];
    const { client } = hub((r) =>
      r.service(TaskService, {
        listTasks: (q) => {
          asked.push(`${q.agentId} ${q.pageToken}`);
          return pages[q.pageToken]!;
        },
      }),
    );
    const page = await client.tasks.listTasks({ agentId: "x" });
    expect([page.tasks.map((t) => t.id), page.nextPageToken]).toEqual([["1", "2"], "a"]);
    const ids: string[] = [];
    for await (const task of client.tasks.listTasks({ agentId: "x" })) ids.push(task.id);
    expect(ids).toEqual(["1", "2", "3"]);
    expect(asked).toEqual(["x ", "x ", "x a", "x b"]);
    const sizes: number[] = [];
    for await (const p of client.tasks.listTasks({ agentId: "x" }).pages()) sizes.push(p.tasks.length);
    expect(sizes).toEqual([2, 0, 1]);
  });

  it("read no page more than is needed, and none twice", async () => {
    let n = 0;
    const { client } = hub((r) => {
      r.service(TaskService, { listTasks: () => (n++, pages[""]!) });
      // This one has another repeated field, which is not its rows.
      r.service(InboxService, { listInbox: () => ({ items: [{ id: "i" }], counts: [{}, {}] }) });
    });
    for await (const _ of client.tasks.listTasks({})) break;
    expect(n).toBe(1);
    await expect(
      (async () => {
        for await (const _ of client.tasks.listTasks({}));
      })(),
    ).rejects.toThrow("same page of a list twice");
    const items: string[] = [];
    for await (const item of client.inbox.listInbox({})) items.push(item.id);
    expect(items).toEqual(["i"]);
  });
});

