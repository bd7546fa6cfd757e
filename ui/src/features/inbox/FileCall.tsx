import type { ReactNode } from "react";
import { Badge } from "@/components/Badge";
import { Diff } from "@/components/Diff";
import { Literal } from "@/components/Literal";
import { line, type ActObject } from "@/components/marks";
import { bytes } from "@/components/money";
import { absolute, millis } from "@/components/Time";
import { Arguments } from "@/features/task/Arguments";
import type { InboxItem, PathState, ProposedChange } from "@/gen/deckhand/v1/inbox_pb";

// fileTools are the tools of which the hub says what a call would do to files.
export const fileTools: ReadonlySet<string> = new Set(["file_write", "file_append", "file_edit", "file_delete", "file_move", "apply_patch"]);

// FileCall shows what a call of a file tool would do to the workspace as it was when
// the person was asked. What cannot be compared is shown as it was asked.
export function FileCall(props: { item: Pick<InboxItem, "changes" | "changesAt" | "changesUnknown">; args: ActObject }) {
  const { item, args } = props;
  const at = millis(item.changesAt);
  // What a diff shows, and what a sentence says.
  const shown = item.changes.length > 0 && item.changes.every((c) => !c.omitted && (c.unified || c.problem || c.kind === "delete" || c.kind === "move" || same(c)));
  const texts = shown && item.changes.every((c) => !c.problem) ? ["path", "from", "to", "content", "old_string", "new_string", "input", "recursive", "overwrite"] : ["path", "from", "to"];
  return (
    <div className="space-y-3">
      {item.changes.map((c, i) => (
        <Change key={i} of={c} />
      ))}
      {item.changesUnknown && (
        <p role="note" className="text-warn">
          What this does to the files there is not known: <Literal text={item.changesUnknown} />. The call is shown as it was asked.
        </p>
      )}
      {at !== undefined && item.changes.length > 0 && <p className="text-xs text-dim">Compared with the workspace as of {absolute(at)}.</p>}
      <Arguments of={args} without={item.changes.length > 0 ? texts : []} />
    </div>
  );
}

const same = (c: ProposedChange) => c.before !== undefined && c.after !== undefined && c.added === 0 && c.deleted === 0;

const lines = (n: number) => (n === 1 ? "1 line" : `${n} lines`);
const files = (n: number) => (n === 1 ? "1 file" : `${n} files`);
const path = (text: string) => <Literal className="font-mono text-xs break-all" text={text} />;

// sizeOf is the size of a file for people: its lines where it is text.
const sizeOf = (s: PathState) => (s.lines > 0 ? lines(s.lines) : bytes(s.sizeBytes));

// summaryOf says what a change does, in words.
function summaryOf(c: ProposedChange): ReactNode {
  const [before, after] = [c.before, c.after];
  const from = before ? sizeOf(before) : "";
  const to = after ? sizeOf(after) : "";
  switch (c.kind) {
    case "create":
      return (
        <>
          Creates {path(c.path)}
          {to && ` (${to})`}
        </>
      );
    case "overwrite":
      return (
        <>
          Overwrites {path(c.path)} ({from}
          {to && ` → ${to}`})
        </>
      );
    case "append":
      return (
        <>
          Adds to the end of {path(c.path)} ({from}
          {to && ` → ${to}`})
        </>
      );
    case "edit":
      return (
        <>
          Edits {path(c.path)}
          {from && to && ` (${from} → ${to})`}
        </>
      );
    case "delete":
      return before?.type === "dir" ? (
        <>
          Deletes the folder {path(c.path)} ({c.more ? "at least " : ""}
          {files(c.files)}, {bytes(c.sizeBytes)})
        </>
      ) : (
        <>
          Deletes {before?.type === "symlink" ? "the symbolic link " : ""}
          {path(c.path)}
          {before?.type === "file" && ` (${sizeOf(before)})`}
        </>
      );
    case "move":
      return (
        <>
          Moves {before?.type === "dir" ? `the folder (${files(c.files)}) ` : ""}
          {path(c.path)} → {path(c.to)}
        </>
      );
  }
  return path(c.path);
}

function Change({ of: c }: { of: ProposedChange }) {
  return (
    <section aria-label={line(`Change of ${c.path}`)} className="space-y-1.5">
      <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <span className="min-w-0 break-words">{summaryOf(c)}</span>
        {c.kind === "create" && <Badge tone="info">new file</Badge>}
        {(c.added > 0 || c.deleted > 0) && (
          <span className="text-xs">
            <span className="text-good">+{c.added}</span> <span className="text-bad">−{c.deleted}</span>
          </span>
        )}
        {c.before && (c.before.mode & 0o111) !== 0 && c.before.type === "file" && <Badge tone="warn">executable</Badge>}
      </p>
      {c.problem && (
        <p role="alert" className="rounded-md border border-warn p-2 text-warn">
          This call will fail: <Literal text={c.problem} />.
        </p>
      )}
      {c.kind === "move" && c.target && !c.problem && (
        <p className="text-warn">
          Replaces {path(c.to)} ({sizeOf(c.target)}): what is there now is lost.
        </p>
      )}
      {c.omitted && (
        <p className="text-dim">
          Not compared: <Literal text={c.omitted} />.
        </p>
      )}
      {c.unified ? (
        <Diff text={c.unified} label={line(`Diff of ${c.to || c.path}`)} />
      ) : (
        same(c) && !c.omitted && !c.problem && <p className="text-dim">Nothing in the file changes.</p>
      )}
      {c.kind === "delete" && <InGit of={c} />}
      {c.entries.length > 0 && (
        <details open={c.entries.length <= 10}>
          <summary className="text-xs text-dim">
            {c.entries.length < c.files ? `The first ${c.entries.length} of ${files(c.files)}` : files(c.files)}
          </summary>
          <ul aria-label="Files" className="max-h-60 overflow-y-auto pt-1" tabIndex={0}>
            {c.entries.map((e) => (
              <li key={e.path} className="flex gap-3">
                <span className="min-w-0 flex-1">{path(e.path)}</span>
                <span className="text-xs whitespace-nowrap text-dim">{e.type === "file" ? bytes(e.sizeBytes) : e.type}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

// InGit says what of a deletion Git has.
function InGit({ of: c }: { of: ProposedChange }) {
  const git = c.git;
  if (!git) return <p className="text-xs text-dim">Whether Git has it is not known.</p>;
  const lost = git.changed + git.untracked + git.ignored;
  if (lost === 0)
    return (
      <p className="text-xs text-good">
        Git has all of it, unchanged (branch <Literal text={git.branch} />).
      </p>
    );
  const parts = [
    git.unchanged > 0 && `${files(git.unchanged)} in Git, unchanged`,
    git.changed > 0 && `${files(git.changed)} changed since Git's index`,
    git.untracked > 0 && `${files(git.untracked)} not in Git`,
    git.ignored > 0 && `${files(git.ignored)} ignored by Git`,
  ].filter(Boolean);
  return <p className="text-xs text-warn">{parts.join(", ")}.</p>;
}
