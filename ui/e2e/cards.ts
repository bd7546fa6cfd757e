import { create, fromBinary, toBinary, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page, Route } from "playwright-core";
import { expect, it } from "vitest";
import {
  GetInboxItemRequestSchema, GetInboxItemResponseSchema, InboxItemSchema, InboxKind, InboxState, ListInboxResponseSchema, type InboxItem,
} from "../../sdk/ts/src/gen/deckhand/v1/inbox_pb";
import { ToolCategory } from "../../sdk/ts/src/gen/deckhand/v1/step_pb";
import { ChangeKind, DiffChangesResponseSchema } from "../../sdk/ts/src/gen/deckhand/v1/workspace_pb";
import { patience, url } from "./world";

type Init = Exclude<MessageInitShape<typeof InboxItemSchema>, InboxItem>;

// now is when the cards are looked at, whenever that is.
const now = new Date("2026-03-02T10:00:00Z");
const ago = (minutes: number) => timestampFromDate(new Date(now.getTime() - minutes * 60_000));

const decision = { why: "the persona's approvals.tools lists it", source: "persona", nodeId: "node_1", nodeName: "web-1", folder: "/workspace", user: "agent", timeoutSeconds: 600, effect: "ask" };
const context = {
  goal: "Prepare the release of version 2.4.", planItem: "Update the guide", planDone: 2, planItems: 5, asked: 3, similarApproved: 6, similarRejected: 1, similarBy: "shape",
  lastRejection: { itemId: "inbox_before", by: "ada", reason: "not on a Friday", at: ago(3 * 24 * 60) },
};
const call = (tool: string, sentence: string, args: Record<string, string | boolean>, more: Init = {}): Init => ({
  kind: InboxKind.APPROVAL, stepId: "step_1", stepNumber: 12, tool, category: ToolCategory.MODERATE, title: `${tool} ${Object.values(args)[0] ?? ""}`, sentence,
  arguments: args, why: decision.why, reasoning: "The guide names the old version.\n\nI replace it.", decision, context, shownDigest: "d", expiresAt: ago(-5), onExpiry: "reject", mayAnswer: true, ...more,
});
const shell = (command: string, more: Init = {}) => call("shell_exec", "Run a command in the jail of coder on web-1", { command }, more);
const file = (tool: string, sentence: string, args: Record<string, string | boolean>, change: NonNullable<Init["changes"]>[number]) =>
  call(tool, sentence, args, { changes: [change], changesAt: ago(1), decision: { ...decision, reversible: true } });
const stop = (kind: InboxKind, of: NonNullable<Init["stop"]>): Init => ({ kind, stop: of, mayAnswer: true });
const diff = "--- a/docs/guide.md\n+++ b/docs/guide.md\n@@ -1,4 +1,4 @@\n # Guide\n \n-Install version 2.3.\n+Install version 2.4.\n Then log in.\n";

// cards are the kinds of card that a person decides by.
const cards: Record<string, Init> = {
  command: shell("make release VERSION=2.4"),
  "command-dangerous": shell("cd /srv\nsudo rm -rf --no-preserve-root /", {
    category: ToolCategory.DANGEROUS, dangerous: true,
    decision: {
      ...decision, source: "danger", rule: "dangerous:wipe", irreversible: "what the command does outside of /workspace",
      dangers: [{ kind: "wipe", what: "it deletes the whole filesystem", command: "rm -rf --no-preserve-root /", line: 2 }],
      commands: [{ text: "cd /srv", line: 1 }, { text: "rm -rf --no-preserve-root /", line: 2, via: ["sudo"], effect: "ask" }],
    },
  }),
  "command-long": shell(Array.from({ length: 120 }, (_, i) => `echo step ${i + 1}`).join("\n")),
  "command-invisible": shell("rm -rf build src #\recho checking \u202estatus"),
  "file-create": file("file_write", "Create docs/new.md (2 lines)", { path: "docs/new.md", content: "# New\nText\n" }, {
    kind: "create", path: "docs/new.md", after: { type: "file", sizeBytes: 11n, lines: 2, mode: 0o644 }, added: 2, unified: "--- /dev/null\n+++ b/docs/new.md\n@@ -0,0 +1,2 @@\n+# New\n+Text\n",
  }),
  "file-overwrite": file("file_write", "Overwrite docs/guide.md (4 lines)", { path: "docs/guide.md", content: "# Guide\n\nInstall version 2.4.\nThen log in.\n" }, {
    kind: "overwrite", path: "docs/guide.md", before: { type: "file", sizeBytes: 42n, lines: 4, mode: 0o644 }, after: { type: "file", sizeBytes: 42n, lines: 4, mode: 0o644 }, added: 1, deleted: 1, unified: diff,
  }),
  "file-edit": file("file_edit", "Edit docs/guide.md", { path: "docs/guide.md", old_string: "2.3", new_string: "2.4" }, {
    kind: "edit", path: "docs/guide.md", before: { type: "file", sizeBytes: 42n, lines: 4, mode: 0o644 }, after: { type: "file", sizeBytes: 42n, lines: 4, mode: 0o644 }, added: 1, deleted: 1, unified: diff,
  }),
  "file-edit-fails": file("file_edit", "Edit docs/guide.md", { path: "docs/guide.md", old_string: "2.2", new_string: "2.4" }, {
    kind: "edit", path: "docs/guide.md", before: { type: "file", sizeBytes: 42n, lines: 4, mode: 0o644 }, problem: "the text `2.2` is not in docs/guide.md",
  }),
  "file-delete": file("file_delete", "Delete the folder old (3 files, 12 KB)", { path: "old", recursive: true }, {
    kind: "delete", path: "old", before: { type: "dir" }, files: 3, sizeBytes: 12_288n,
    entries: ["old/a.txt", "old/b.txt", "old/c/d.txt"].map((path) => ({ path, type: "file", sizeBytes: 4096n })), git: { branch: "main", unchanged: 2, changed: 0, untracked: 1, ignored: 0 },
  }),
  "file-move": file("file_move", "Move docs/old.md to docs/guide.md", { from: "docs/old.md", to: "docs/guide.md", overwrite: true }, {
    kind: "move", path: "docs/old.md", to: "docs/guide.md", before: { type: "file", sizeBytes: 40n, lines: 3 }, target: { type: "file", sizeBytes: 42n, lines: 4 }, deleted: 1, unified: "--- a/docs/guide.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-# Guide\n",
  }),
  "file-unknown": call("file_write", "Write docs/guide.md", { path: "docs/guide.md", content: "x\n" }, { changesUnknown: "the node is not connected" }),
  request: call("http_post", "Send POST to api.example.com", { url: "https://api.example.com/v1/releases?dry=1", body: '{"version":"2.4","notes":["one","two"]}' }, {
    decision: { ...decision, irreversible: "the request", request: { method: "POST", host: "api.example.com" } },
  }),
  "request-lookalike": call("http_get", "Send GET to аpi.example.com", { url: "https://аpi.example.com/v1" }, {
    decision: { ...decision, request: { method: "GET", host: "аpi.example.com", asciiHost: "xn--pi-6kc.example.com", mixedLabels: ["аpi"], refused: "no rule allows xn--pi-6kc.example.com", allow: "xn--pi-6kc.example.com" } },
  }),
  push: call("git_push", "Push release-2.4 to origin", { remote: "origin", branch: "release-2.4" }, { preview: "commit 3f2a91c Release 2.4\n\n-version = 2.3\n+version = 2.4\n", effectKey: "e" }),
  "pull-request": call("pull_request_open", "Open a pull request in example/shop", { repository: "example/shop", title: "Release 2.4", body: "The guide and the version.", head: "release-2.4", base: "main" }),
  question: { kind: InboxKind.QUESTION, tool: "request_input", sentence: "Answer a question of coder", question: { text: "## Which name?\n\nWhat is the name of the *new* database?", kind: "text" }, context, mayAnswer: true, stepId: "step_1" },
  "question-choices": { kind: InboxKind.QUESTION, tool: "request_input", sentence: "Answer a question of coder", question: { text: "Which cluster?", kind: "choice", choices: ["eu-1", "us-1", "ap-1"], defaultAnswer: "eu-1" }, context, expiresAt: ago(-5), onExpiry: "default", mayAnswer: true, stepId: "step_1" },
  "question-options": {
    kind: InboxKind.QUESTION, tool: "request_input", sentence: "Answer a question of coder", context, mayAnswer: true, stepId: "step_1", expiresAt: ago(-5), onExpiry: "default",
    question: {
      text: "How should the *orders* table be migrated?", kind: "choice", choices: ["Online", "In a window"], defaultAnswer: "In a window",
      options: [
        { label: "Online", description: "Copies the rows while the shop runs, in about two hours. Orders are slower until it is done." },
        { label: "In a window", description: "Stops the shop for ten minutes on Sunday at 04:00." },
      ],
    },
    attachments: [{ number: 1, path: "plan.md", sizeBytes: 2_048n, sha256: "3f2a91c0" }],
  },
  review: { kind: InboxKind.REVIEW, sentence: "Review the work of coder", review: { summary: "I **updated** the guide.", files: 1, paths: ["docs/guide.md"], hosts: [{ host: "docs.example.com", requests: 2n, sentBytes: 900n, receivedBytes: 12_000n }] }, context, shownDigest: "d", mayAnswer: true },
  unknown: shell("make deploy", { kind: InboxKind.UNKNOWN, sentence: "Find out whether this happened: run a command in the jail of coder on web-1", evidence: "the jail ended 3 s after the command began", expiresAt: undefined, decision: { ...decision, irreversible: "what the command sends elsewhere" } }),
  escalation: { kind: InboxKind.ESCALATION, sentence: "Decide how this task of coder goes on", why: "it failed 4 times in a row", context, mayAnswer: true, escalation: { errorCode: "AGENT_014", provider: "script", model: "small", nodeId: "node_1", remedies: ["retry", "model"], failures: [{ at: ago(2), errorCode: "AGENT_014", message: "anthropic: unavailable (HTTP 500)" }] } },
  limit: stop(InboxKind.LIMIT, { title: "The run has reached its limit of iterations", limitName: "iterations", limitMost: 50n, limitOffer: 100n, waitingTasks: 1 }),
  budget: stop(InboxKind.BUDGET, { title: "The budget of agent coder for today is used up", scope: "agent", objectId: "agent_1", every: "day", period: "2026-03-02", limitMicros: 2_000_000n, spentMicros: 1_990_000n, amountMicros: 40_000n, offerMicros: 4_000_000n, waitingTasks: 2 }),
  suspended: stop(InboxKind.SUSPENDED, { title: "Agent coder is suspended: 3 tasks in a row failed", waitingTasks: 2 }),
  egress: { ...stop(InboxKind.EGRESS, { title: "A command was refused api.example.com", host: "api.example.com", port: 443, tool: "shell_exec", change: { version: 4, diff: "@@ -3,1 +3,1 @@\n-egress: {allow: []}\n+egress: {allow: [api.example.com]}\n", rule: "api.example.com" } }), shownDigest: "d" },
  provider: stop(InboxKind.PROVIDER, { title: "The provider openai cannot be used: its key is refused", provider: "openai", reason: "refused", status: 401, waitingTasks: 2 }),
  credential: stop(InboxKind.CREDENTIAL, { title: "The credential shop-api has expired", credential: "shop-api", reason: "expired" }),
};

const items = Object.entries(cards).map(([name, init]) =>
  create(InboxItemSchema, { id: `inbox_${name.replaceAll("-", "")}`, state: InboxState.OPEN, taskId: "task_cards", taskTitle: "Release 2.4", submittedBy: "ada", agentId: "agent_1", agentName: "coder", askedAt: ago(2), ...init } as Init),
);

// The answers that must be on screen, by kind: yes and no.
const answers: Partial<Record<InboxKind, [RegExp, RegExp]>> = {
  [InboxKind.APPROVAL]: [/^Approve/, /^Reject$/],
  [InboxKind.QUESTION]: [/^(Answer|1 ?eu-1|eu-1|2 ?In a window|In a window)/, /^Reject$/],
  [InboxKind.REVIEW]: [/^Accept/, /^Reject$/],
  [InboxKind.UNKNOWN]: [/^Run it again$/, /^Skip$/],
  [InboxKind.ESCALATION]: [/^Retry$/, /^Close the task$/],
};

const baselines = fileURLToPath(new URL("./cards/", import.meta.url));
const update = process.env.DECKHAND_E2E_UPDATE_CARDS === "1";
const artefacts = process.env.DECKHAND_E2E_ARTEFACTS;
// shrunk is by how much a picture is smaller than the screen. What is left after it is where
// things are, how large they are and their colours: not how a font draws a letter.
const shrunk = 4;
// A cell of a picture differs if one of its colours does by more than this, of 255; and a
// picture does if more than this share of its cells differ.
const tolerance = { colour: 32, share: 0.008 };
const screens = [
  { width: 1440, height: 900, theme: "light" },
  { width: 1440, height: 900, theme: "dark" },
  { width: 390, height: 844, theme: "light" },
  { width: 390, height: 844, theme: "dark" },
];

// looksTheSame registers the story that looks at each kind of card as a person has it in front
// of them: on a desk and on a phone, light and dark. The items are made here, and the page is
// the console's own.
export function looksTheSame(of: () => Page) {
  it("shows each kind of card as in its picture, with its answers on screen", async () => {
    // The same person, elsewhere: the pictures have times in them.
    const context = await of().context().browser()!.newContext({
      viewport: screens[0], reducedMotion: "reduce", timezoneId: "UTC", locale: "en-US", storageState: await of().context().storageState(),
    });
    context.setDefaultTimeout(patience);
    const page = await context.newPage();
    const cdp = await context.newCDPSession(page);
    const paper = await context.newPage(); // where pictures are put together and compared
    await page.clock.setFixedTime(now);
    await page.route(/InboxService\/(ListInbox|GetInboxItem)$/, serve);
    await page.route(/WorkspaceService\/DiffChanges$/, (route) => route.fulfill({ contentType: "application/connect+proto", body: stream() }));
    const wrong: string[] = [];
    await page.goto(`${url}/inbox?item=${items[0]!.id}`);
    for (const [i, item] of items.entries()) {
      const name = Object.keys(cards)[i]!;
      if (i > 0) {
        await page.setViewportSize({ width: 1440, height: 900 });
        await page.locator(`#item-${item.id} button`).last().click();
      }
      const box = page.getByRole("region", { name: "Item", exact: true });
      const shots: string[] = [];
      for (const { theme, ...screen } of screens) {
        await page.setViewportSize(screen);
        await page.evaluate((t) => (document.documentElement.dataset.theme = t), theme);
        // Another width may show it anew, with its answers disabled at first.
        await box.locator("[data-answers] button:enabled").first().waitFor();
        await page.locator("[aria-label=Loading]").first().waitFor({ state: "detached" });
        const [yes, no] = answers[item.kind] ?? [/./, /^(Dismiss|Keep it refused|End the task)$/];
        for (const answer of [yes, no]) await onScreen(box.locator("[data-answers] button").filter({ hasText: answer }).first(), `${name} at ${screen.width} px: ${answer}`);
        const { x, y, width, height } = (await box.boundingBox())!;
        const { data } = await cdp.send("Page.captureScreenshot", { clip: { x, y, width, height, scale: 1 / shrunk }, optimizeForSpeed: true });
        shots.push(data);
      }
      const path = join(baselines, `${name}.webp`);
      const picture = await paper.evaluate(together, shots);
      if (update) {
        mkdirSync(baselines, { recursive: true });
        writeFileSync(path, Buffer.from(picture.split(",")[1]!, "base64"));
        continue;
      }
      const share = await paper.evaluate(differing, { a: picture, b: `data:image/webp;base64,${readFileSync(path).toString("base64")}`, colour: tolerance.colour });
      if (share <= tolerance.share) continue;
      wrong.push(`${name}: ${(share * 100).toFixed(1)} % differ`);
      if (artefacts) {
        mkdirSync(artefacts, { recursive: true });
        writeFileSync(join(artefacts, `card-${name}.webp`), Buffer.from(picture.split(",")[1]!, "base64"));
      }
    }
    await context.close();
    expect(wrong, "cards that look other than in ui/e2e/cards; if they should, run scripts/cards").toEqual([]);
  });
}

// onScreen verifies that all of an element is within the window without scrolling, and that
// nothing covers it.
async function onScreen(of: ReturnType<Page["locator"]>, what: string) {
  const seen = await of.evaluate((el) => {
    const r = el.getBoundingClientRect();
    const at = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
    return r.width > 0 && r.top >= 0 && r.left >= 0 && r.bottom <= innerHeight && r.right <= innerWidth && (el.contains(at) || at?.contains(el));
  });
  expect(seen, `${what} is on screen`).toBe(true);
}

// serve answers with the items that are made here.
async function serve(route: Route) {
  const reply = <T extends DescMessage>(schema: T, init: MessageInitShape<T>) =>
    route.fulfill({ contentType: "application/proto", body: Buffer.from(toBinary(schema, create(schema, init))) });
  if (route.request().url().endsWith("/ListInbox")) return reply(ListInboxResponseSchema, { items });
  const { itemId } = fromBinary(GetInboxItemRequestSchema, route.request().postDataBuffer() ?? new Uint8Array());
  return reply(GetInboxItemResponseSchema, { item: items.find((i) => i.id === itemId) });
}

// stream is the response of a server stream: one changed file, and the end.
function stream(): Buffer {
  const change = create(DiffChangesResponseSchema, { change: { path: "docs/guide.md", kind: ChangeKind.MODIFIED }, unified: new TextEncoder().encode(diff), addedLines: 1, deletedLines: 1 });
  const frame = (flags: number, data: Uint8Array) => {
    const head = Buffer.alloc(5);
    head.writeUInt8(flags);
    head.writeUInt32BE(data.length, 1);
    return Buffer.concat([head, data]);
  };
  return Buffer.concat([frame(0, toBinary(DiffChangesResponseSchema, change)), frame(2, Buffer.from("{}"))]);
}

// The rest runs in the browser, which can read and write pictures.

// together puts screenshots beside each other, and returns a data URL.
async function together(shots: string[]): Promise<string> {
  const all = await Promise.all(
    shots.map(async (s) => createImageBitmap(await (await fetch(`data:image/png;base64,${s}`)).blob())),
  );
  const canvas = document.createElement("canvas");
  canvas.width = all.reduce((n, b) => n + b.width, 0);
  canvas.height = Math.max(...all.map((b) => b.height));
  const to = canvas.getContext("2d")!;
  let x = 0;
  for (const b of all) {
    to.drawImage(b, x, 0);
    x += b.width;
  }
  return canvas.toDataURL("image/webp", 0.8);
}

// differing returns the share of cells of 4 by 4 that differ between two pictures.
async function differing(o: { a: string; b: string; colour: number }): Promise<number> {
  const [a, b] = await Promise.all([o.a, o.b].map(async (u) => createImageBitmap(await (await fetch(u)).blob())));
  if (a!.width !== b!.width || a!.height !== b!.height) return 1;
  const cell = 4;
  const [w, h] = [Math.ceil(a!.width / cell), Math.ceil(a!.height / cell)];
  const pixels = (of: ImageBitmap) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [w, h];
    const to = canvas.getContext("2d")!;
    to.imageSmoothingQuality = "high";
    to.drawImage(of, 0, 0, w, h);
    return to.getImageData(0, 0, w, h).data;
  };
  const [p, q] = [pixels(a!), pixels(b!)];
  let other = 0;
  for (let i = 0; i < p.length; i += 4) if ([0, 1, 2].some((c) => Math.abs(p[i + c]! - q[i + c]!) > o.colour)) other++;
  return other / (w * h);
}
