import { createClient } from "@connectrpc/connect";
import { newIdempotencyKey } from "@deckhand/sdk";
import { useQuery } from "@tanstack/react-query";
import { Download, MessageSquare, Undo2 } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Diff } from "@/components/Diff";
import { download } from "@/components/download";
import { Empty } from "@/components/Empty";
import { TextArea } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { ChangeKind, ExportFormat, WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { kinds } from "./kinds";

const workspaces = createClient(WorkspaceService, transport);
const tasks = createClient(TaskService, transport);

type FileDiff = { path: string; machine: string; type: string; quoted: boolean; kind: ChangeKind; unified: string; summary: string; added: number; deleted: number };

// How many diffs are drawn at once.
const mostOpen = 20;

// ByFile shows each file that a task changed once, with all that became of it. A file
// can be undone by itself, and commented: the comment goes to the agent.
export function ByFile(props: {
  taskId: string;
  // The file to begin with.
  open?: string;
  undo?: (path: string) => void;
  // Shows the steps, by which files of machines are undone.
  undoSteps?: () => void;
  // The agent that gets comments.
  comment?: string;
}) {
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["diff", props.taskId],
    queryFn: async ({ signal }) => {
      const files: FileDiff[] = [];
      const decoder = new TextDecoder();
      for await (const d of workspaces.diffChanges({ taskId: props.taskId }, { signal })) {
        files.push({
          path: d.change?.path ?? "", machine: d.machine, quoted: d.change?.quoted ?? false, kind: d.change?.kind ?? ChangeKind.UNSPECIFIED,
          type: d.change?.after?.type ?? d.change?.before?.type ?? "",
          // The names of the file are above it.
          unified: decoder.decode(d.unified).replace(/^--- .*\n\+\+\+ .*\n/, ""), summary: d.summary, added: d.addedLines, deleted: d.deletedLines,
        });
      }
      return files;
    },
  });
  if (isPending) return <Skeletons rows={4} />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  if (data.length === 0) return <Empty title="Nothing is left of the changes">Every change was undone, or changed back.</Empty>;
  // A folder is said by what is in it.
  const files = data.filter((f) => f.unified || f.type !== "dir" || !data.some((o) => o.path.startsWith(`${f.path}/`)));
  const [added, deleted] = [data.reduce((n, f) => n + f.added, 0), data.reduce((n, f) => n + f.deleted, 0)];
  return (
    <div className="space-y-2">
      <p className="text-xs text-dim">
        {files.length} {files.length === 1 ? "file" : "files"} · <span className="text-good">+{added}</span> <span className="text-bad">−{deleted}</span>
      </p>
      <ul className="space-y-2" aria-label="Changed files">
        {files.map((f, i) => (
          <File key={`${f.machine}:${f.path}`} taskId={props.taskId} of={f} named={props.open === f.path} open={props.open === f.path || (props.open === undefined && i < mostOpen)} undo={f.machine ? undefined : props.undo} undoSteps={f.machine ? props.undoSteps : undefined} comment={f.machine ? undefined : props.comment} />
        ))}
      </ul>
    </div>
  );
}

function File(props: { taskId: string; of: FileDiff; named: boolean; open: boolean; undo?: (path: string) => void; undoSteps?: () => void; comment?: string }) {
  const { of: f, undo } = props;
  const [open, setOpen] = useState(props.open);
  // The line that is commented: "" for none in particular, undefined without a comment.
  const [commenting, setCommenting] = useState<string>();
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (props.named) row.current?.scrollIntoView?.({ block: "start" });
  }, [props.named]);
  const [word, tone] = kinds[f.kind] ?? kinds[ChangeKind.UNSPECIFIED];
  return (
    <li ref={row} className="rounded-md border bg-panel">
      <div className="flex flex-wrap items-center gap-2 p-2">
        <button type="button" aria-expanded={open} className="flex min-h-6 min-w-0 flex-1 items-center gap-2 text-left hover:underline" onClick={() => setOpen(!open)}>
          <Badge tone={tone}>{word}</Badge>
          <Literal className="min-w-0 font-mono text-xs break-all" text={f.path} />
          {f.machine && <span className="shrink-0 text-xs text-dim">on machine <Literal text={f.machine} /></span>}
        </button>
        {f.unified && (
          <span className="text-xs">
            <span className="text-good">+{f.added}</span> <span className="text-bad">−{f.deleted}</span>
          </span>
        )}
        {props.comment && (
          <Button small aria-label={line(`Comment on ${f.path}`)} onClick={() => setCommenting(commenting === undefined ? "" : undefined)}>
            <MessageSquare aria-hidden className="size-3.5" /> Comment
          </Button>
        )}
        {props.undoSteps && (
          <Button small aria-label={line(`Show the steps that changed ${f.path}`)} onClick={props.undoSteps}>
            <Undo2 aria-hidden className="size-3.5" /> Undo by step
          </Button>
        )}
        {undo && !f.quoted && (
          <Button small aria-label={line(`Undo ${f.path}`)} onClick={() => undo(f.path)}>
            <Undo2 aria-hidden className="size-3.5" /> Undo
          </Button>
        )}
      </div>
      {commenting !== undefined && props.comment && (
        <Comment key={commenting} taskId={props.taskId} path={f.path} line={commenting} agent={props.comment} onDone={() => setCommenting(undefined)} />
      )}
      {open && (
        <div className="border-t p-2">
          {f.unified ? (
            <Diff text={f.unified} label={line(`Changes of ${f.path}`)} onLine={props.comment ? (n) => setCommenting(String(n)) : undefined} />
          ) : (
            <p className="text-dim">{f.summary || "Only its attributes."}</p>
          )}
        </div>
      )}
    </li>
  );
}

// Comment sends the agent what a person says of a file.
function Comment(props: { taskId: string; path: string; line: string; agent: string; onDone: () => void }) {
  const [text, setText] = useState("");
  const [lines, setLines] = useState(props.line);
  const [busy, setBusy] = useState(false);
  const [key] = useState(newIdempotencyKey);
  const send = async () => {
    setBusy(true);
    try {
      const where = lines.trim() ? `${props.path}, line ${lines.trim()}` : props.path;
      await tasks.tellTask({ taskId: props.taskId, text: `About your change of ${where}:\n${text.trim()}`, idempotencyKey: key });
      toast(`Sent to ${props.agent}`);
      props.onDone();
    } catch (e) {
      showError(e);
      setBusy(false);
    }
  };
  return (
    <form
      className="flex flex-wrap items-end gap-2 border-t p-2"
      onSubmit={(e) => {
        e.preventDefault();
        if (text.trim()) void send();
      }}
    >
      <input aria-label="Lines" placeholder="Lines, such as 12-14" maxLength={40} value={lines} onChange={(e) => setLines(e.target.value)} className="min-h-8 w-40 rounded-md border bg-panel px-2 text-sm" />
      <TextArea aria-label={line(`Comment on ${props.path}`)} rows={2} maxLength={9_000} autoFocus className="flex-1" placeholder={`${props.agent} gets it with its next turn`} value={text} onChange={(e) => setText(e.target.value)} />
      <Button type="submit" look="primary" busy={busy} disabled={!text.trim()}>
        Send
      </Button>
    </form>
  );
}

// Patch downloads what a task changed as a patch for git.
export function Patch(props: { taskId: string }) {
  const [busy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    try {
      const parts: BlobPart[] = [];
      for await (const { data } of workspaces.exportWorkspace({ workspace: { case: "taskId", value: props.taskId }, format: ExportFormat.GIT_PATCH, changesOnly: true })) {
        parts.push(data as Uint8Array<ArrayBuffer>);
      }
      download(`${props.taskId}.patch`, new Blob(parts, { type: "text/x-patch" }));
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button small busy={busy} title="Apply it with: git apply FILE" onClick={() => void save()}>
      <Download aria-hidden className="size-3.5" /> Patch
    </Button>
  );
}
