import { compare } from "@/components/compare";
import type { DiffRow } from "@/components/Diff";
import type { ActObject } from "@/components/marks";
import { reverse } from "@/features/workspace/reverse";
import type { ProposedChange } from "@/gen/deckhand/v1/inbox_pb";

// Hunk is one change of a call that a person can accept or leave out.
export type Hunk = { label: string; rows: DiffRow[] };

// Choice is what a person can choose from among a call's changes: the hunks, and the
// arguments that make those that are kept, and no other.
export type Choices = { hunks: Hunk[]; keep: (kept: ReadonlySet<number>) => Record<string, unknown> };

// choicesOf returns the changes of a call of a file tool, where it makes several that do
// not need one another; undefined for other calls.
export function choicesOf(tool: string, args: ActObject, changes: readonly ProposedChange[]): Choices | undefined {
  if (changes.some((c) => c.problem || c.omitted)) return undefined;
  const found = tool === "file_write" ? ofWrite(args, changes) : tool === "file_edit" ? ofEdit(args) : tool === "apply_patch" ? ofPatch(args) : undefined;
  return found && found.hunks.length > 1 ? found : undefined;
}

function ofWrite(args: ActObject, changes: readonly ProposedChange[]): Choices | undefined {
  const { content } = args as Record<string, unknown>;
  const [change] = changes;
  if (typeof content !== "string" || changes.length !== 1 || !change?.before || !change.unified) return undefined;
  const before = reverse(change.unified, content);
  return before === undefined ? undefined : texts(args, "content", before, content);
}

function ofEdit(args: ActObject): Choices | undefined {
  const { old_string: before, new_string: after } = args as Record<string, unknown>;
  return typeof before === "string" && typeof after === "string" ? texts(args, "new_string", before, after) : undefined;
}

function texts(args: ActObject, name: string, before: string, after: string): Choices {
  const rows = compare(before, after);
  const runs = runsOf(rows);
  return {
    hunks: runs.map(([from, to]) => ({
      label: `Change at line ${rows[from]!.before ?? rows[from]!.after ?? rows.length}`,
      rows: rows.slice(Math.max(0, from - margin), to + margin).filter((r, i) => r.sign === " " || inside(Math.max(0, from - margin) + i, [from, to])),
    })),
    keep: (kept) => ({ ...args, [name]: mixed(before, after, rows, runs, kept) }),
  };
}

// How many unchanged lines stand around a change.
const margin = 3;

type Run = readonly [from: number, to: number];
const inside = (i: number, [from, to]: Run) => i >= from && i < to;

// runsOf returns where rows that differ stand together. That the end of the text has a
// line feed or not, is a change of its own.
function runsOf(rows: readonly DiffRow[]): Run[] {
  const runs: Run[] = [];
  for (let i = 0; i < rows.length; ) {
    if (rows[i]!.sign === " ") {
      i++;
      continue;
    }
    const from = i;
    if (rows[i]!.sign === "@") i++;
    else while (rows[i] && (rows[i]!.sign === "-" || rows[i]!.sign === "+")) i++;
    runs.push([from, i]);
  }
  return runs;
}

// mixed returns the text before with those changes that are kept.
function mixed(before: string, after: string, rows: readonly DiffRow[], runs: readonly Run[], kept: ReadonlySet<number>): string {
  if (kept.size === runs.length) return after;
  if (kept.size === 0) return before;
  const lines: string[] = [];
  let feed = before.endsWith("\n");
  for (const [i, row] of rows.entries()) {
    const run = runs.findIndex((r) => inside(i, r));
    const taken = run >= 0 && kept.has(run);
    if (row.sign === "@") feed = taken ? after.endsWith("\n") : before.endsWith("\n");
    else if (row.sign === " " || row.sign === (taken ? "+" : "-")) lines.push(row.text);
  }
  return lines.length === 0 ? "" : lines.join("\n") + (feed ? "\n" : "");
}

const header = /^\*\*\* (Add|Update|Delete) File: (.*)$/;

// ofPatch takes a patch apart: each @@ part of an update, and each file that is added or
// deleted. The rest of its lines stay as they are.
function ofPatch(args: ActObject): Choices | undefined {
  const { input } = args as Record<string, unknown>;
  if (typeof input !== "string") return undefined;
  // To each line: the file that it belongs to, and the hunk.
  const lines = input.split("\n");
  const files: { hunks: number[] }[] = [];
  const places: { file?: number; hunk?: number }[] = [];
  const hunks: Hunk[] = [];
  let path = "";
  let kind = "";
  let file: number | undefined;
  let hunk: number | undefined;
  const begin = (label: string) => {
    hunk = hunks.push({ label, rows: [] }) - 1;
    files[file!]!.hunks.push(hunk);
  };
  for (const line of lines) {
    const at = header.exec(line);
    if (at) {
      [, kind = "", path = ""] = at;
      file = files.push({ hunks: [] }) - 1;
      hunk = undefined;
      if (kind !== "Update") begin(`${kind === "Add" ? "Creates" : "Deletes"} ${path}`);
    } else if (/^\*\*\* (Begin|End) Patch\s*$/.test(line)) {
      [file, hunk] = [undefined, undefined];
    } else if (line.startsWith("*** Move to: ")) {
      // With the move left out, its changes would be of another file.
      return undefined;
    } else if (file !== undefined && kind === "Update") {
      if (line.startsWith("@@") && (hunk === undefined || hunks[hunk]!.rows.some((r) => r.sign === "-" || r.sign === "+"))) begin(`Change of ${path}`);
      else if (hunk === undefined && line !== "") begin(`Change of ${path}`);
    }
    places.push({ file, hunk: at && kind === "Update" ? undefined : hunk });
    if (hunk === undefined || at || line.startsWith("*** ")) continue;
    const sign = line.startsWith("@@") ? "@" : line.startsWith("+") ? "+" : line.startsWith("-") ? "-" : " ";
    hunks[hunk]!.rows.push({ sign, text: sign === "@" ? line : line.slice(1) });
  }
  return {
    hunks,
    keep: (kept) => ({
      ...args,
      input: lines
        .filter((_, i) => {
          const at = places[i]!;
          if (at.hunk !== undefined) return kept.has(at.hunk);
          return at.file === undefined || files[at.file]!.hunks.length === 0 || files[at.file]!.hunks.some((h) => kept.has(h));
        })
        .join("\n"),
    }),
  };
}
