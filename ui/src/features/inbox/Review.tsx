import { createClient } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { transport } from "@/api/transport";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Diff } from "@/components/Diff";
import { Field, Input, TextArea } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import { line } from "@/components/marks";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { StepArguments } from "@/features/task/tools";
import { InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { ToolCategory } from "@/gen/deckhand/v1/step_pb";
import { ChangeKind, WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { toggled, type Without } from "./without";

const workspaces = createClient(WorkspaceService, transport);

type FileDiff = { path: string; kind: ChangeKind; unified: string; summary: string; added: number; deleted: number };
type Comment = { path: string; line: string; text: string };

const kinds: Partial<Record<ChangeKind, string>> = { [ChangeKind.ADDED]: "new", [ChangeKind.DELETED]: "deleted", [ChangeKind.METADATA]: "attributes" };

// ReviewBody shows the result of a run in review mode: what it says about its work,
// what would be sent, and the whole change of each file. Comments on lines are
// collected as the text of an answer. Files and requests can be left out.
export function ReviewBody(props: { item: InboxItem; onComments: (text: string) => void; without: Without; onWithout: (without: Without) => void }) {
  const { item, onComments, without, onWithout } = props;
  const review = item.review;
  const [comments, setComments] = useState<Comment[]>([]);
  useEffect(() => onComments(textOf(comments)), [comments, onComments]);
  if (!review) return <p className="text-warn">What this review is about cannot be read.</p>;
  const { deferred, hosts, files, summary } = review;
  return (
    <div className="space-y-4">
      {summary && (
        <div className="rounded-md border bg-panel p-3">
          <Markdown text={summary} />
        </div>
      )}
      <section aria-label="Pending requests" className="space-y-2">
        <h3 className="font-medium">{deferred.length === 0 ? "No pending requests" : deferred.length === 1 ? "1 pending request" : `${deferred.length} pending requests`}</h3>
        {deferred.length > 0 && <p className="text-xs text-dim">Sent once if you accept; never if you reject.</p>}
        {deferred.map((h) => (
          <section key={h.stepId} aria-label={line(`Step ${h.number}, ${h.tool}`)} className="space-y-1 rounded border p-2">
            <h4 className="flex items-center gap-2 text-xs text-dim">
              Step {h.number} · <Literal className="font-mono" text={h.tool} />
              {h.dangers.length > 0 ? (
                <Badge tone="bad">dangerous: {h.dangers.map((d) => d.replaceAll("_", " ")).join(", ")}</Badge>
              ) : (
                h.category === ToolCategory.DANGEROUS && <Badge tone="warn">dangerous tool</Badge>
              )}
              {item.mayAnswer && item.state === InboxState.OPEN && (
                <Check
                  label={`Send the request of step ${h.number}`}
                  word="Send"
                  checked={!without.stepIds.includes(h.stepId)}
                  onChange={() => onWithout({ ...without, stepIds: toggled(without.stepIds, h.stepId) })}
                />
              )}
            </h4>
            <StepArguments taskId={item.taskId} stepId={h.stepId} />
          </section>
        ))}
      </section>
      <section aria-label="Changed files" className="space-y-2">
        <h3 className="font-medium">{files === 0 ? "No files changed" : files === 1 ? "1 file changed" : `${files} files changed`}</h3>
        {files > 0 && (
          <Files
            taskId={item.taskId}
            onComment={(c) => setComments((all) => [...all, c])}
            without={without.paths}
            onKeep={item.mayAnswer && item.state === InboxState.OPEN ? (path) => onWithout({ ...without, paths: toggled(without.paths, path) }) : undefined}
          />
        )}
      </section>
      {comments.length > 0 && (
        <section aria-label="Comments" className="space-y-1">
          <h3 className="font-medium">Your comments</h3>
          <p className="text-xs text-dim">They are sent with &ldquo;Ask for changes&rdquo;.</p>
          <ul className="space-y-1">
            {comments.map((c, i) => (
              <li key={i} className="flex gap-2">
                <span className="min-w-0 flex-1 break-words">
                  <Literal className="font-mono text-xs" text={placeOf(c)} />: {c.text}
                </span>
                <Button small look="quiet" aria-label={`Remove comment ${i + 1}`} onClick={() => setComments((all) => all.filter((_, at) => at !== i))}>
                  Remove
                </Button>
              </li>
            ))}
          </ul>
        </section>
      )}
      {hosts.length > 0 && (
        <section aria-label="Hosts" className="space-y-1">
          <h3 className="font-medium">Network connections</h3>
          <ul className="text-xs">
            {hosts.map((h) => (
              <li key={h.host} className="font-mono break-all">
                <Literal text={h.host} />: {String(h.requests)} requests, {bytes(h.sentBytes)} sent, {bytes(h.receivedBytes)} received
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

const placeOf = (c: Comment) => (c.line ? `${c.path}:${c.line}` : c.path);

// textOf is what the agent is told: one comment in each paragraph, with its place.
const textOf = (all: Comment[]) => all.map((c) => `${placeOf(c)}: ${c.text}`).join("\n");

// Files shows the whole change of each file, once.
function Files(props: { taskId: string; onComment: (c: Comment) => void; without: string[]; onKeep: ((path: string) => void) | undefined }) {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["diff", props.taskId, "review"],
    queryFn: async ({ signal }) => {
      const found: FileDiff[] = [];
      const decoder = new TextDecoder();
      for await (const d of workspaces.diffChanges({ taskId: props.taskId }, { signal })) {
        found.push({
          path: d.change?.path ?? "",
          kind: d.change?.kind ?? ChangeKind.UNSPECIFIED,
          unified: decoder.decode(d.unified),
          summary: d.summary,
          added: d.addedLines,
          deleted: d.deletedLines,
        });
      }
      // A new file in a new folder is one file.
      const folders = new Set(found.flatMap((f) => foldersOf(f.path)));
      return found.filter((f) => !folders.has(f.path));
    },
    staleTime: Infinity,
  });
  const [viewed, setViewed] = useState<ReadonlySet<string>>(new Set());
  if (isPending) return <Skeletons rows={3} />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  const toggle = (path: string) =>
    setViewed((before) => {
      const after = new Set(before);
      if (!after.delete(path)) after.add(path);
      return after;
    });
  return (
    <>
      <p className="text-xs text-dim">
        {viewed.size} of {data.length} viewed ·{" "}
        <span className="text-good">+{data.reduce((n, f) => n + f.added, 0)}</span>{" "}
        <span className="text-bad">−{data.reduce((n, f) => n + f.deleted, 0)}</span>
      </p>
      <ul className="space-y-2">
        {data.map((f) => (
          <li key={f.path} className="rounded-md border">
            <div className="flex flex-wrap items-center gap-2 p-2">
              <Literal className="min-w-0 flex-1 font-mono text-xs break-all" text={f.path} />
              {kinds[f.kind] && <Badge>{kinds[f.kind]}</Badge>}
              <span className="text-xs">
                <span className="text-good">+{f.added}</span> <span className="text-bad">−{f.deleted}</span>
              </span>
              {props.onKeep && <Check label={line(`Keep ${f.path}`)} word="Keep" checked={!props.without.includes(f.path)} onChange={() => props.onKeep?.(f.path)} />}
              <Check label={line(`Viewed ${f.path}`)} word="Viewed" checked={viewed.has(f.path)} onChange={() => toggle(f.path)} />
            </div>
            {!viewed.has(f.path) && <FileBody of={f} onComment={props.onComment} />}
          </li>
        ))}
      </ul>
    </>
  );
}

// foldersOf are the folders that a path is in.
const foldersOf = (path: string) => path.split("/").slice(0, -1).map((_, i, all) => all.slice(0, i + 1).join("/"));

// Check is a box with a word beside it; label says what it is about.
function Check(props: { label: string; word: string; checked: boolean; onChange: () => void }) {
  return (
    <label className="flex min-h-6 items-center gap-1.5 text-xs max-sm:min-h-11">
      <input type="checkbox" className="size-4 accent-accent" aria-label={props.label} checked={props.checked} onChange={props.onChange} />
      {props.word}
    </label>
  );
}

function FileBody(props: { of: FileDiff; onComment: (c: Comment) => void }) {
  const { of: f } = props;
  const [at, setAt] = useState<string>();
  const [text, setText] = useState("");
  return (
    <div className="space-y-2 border-t p-2">
      {f.unified ? (
        <Diff text={f.unified} label={line(`Changes of ${f.path}`)} onLine={(n) => setAt(String(n))} />
      ) : (
        <p className="text-dim">
          <Literal text={f.summary || "No difference to show."} />
        </p>
      )}
      {at === undefined ? (
        <Button small onClick={() => setAt("")}>
          Comment on a line
        </Button>
      ) : (
        <form
          className="grid grid-cols-[5rem_minmax(0,1fr)] items-end gap-2"
          onSubmit={(e) => {
            e.preventDefault();
            if (!text.trim()) return;
            props.onComment({ path: f.path, line: at, text: text.trim() });
            setAt(undefined);
            setText("");
          }}
        >
          <Field label="Line">
            <Input inputMode="numeric" value={at} onChange={(e) => setAt(e.target.value.replace(/\D/g, "").slice(0, 7))} />
          </Field>
          <Field label="Comment">
            <TextArea rows={2} value={text} maxLength={1000} autoFocus onChange={(e) => setText(e.target.value)} />
          </Field>
          <div className="col-span-2 flex gap-2">
            <Button small type="submit" look="primary" disabled={!text.trim()}>
              Add comment
            </Button>
            <Button small onClick={() => setAt(undefined)}>
              Cancel
            </Button>
          </div>
        </form>
      )}
    </div>
  );
}
