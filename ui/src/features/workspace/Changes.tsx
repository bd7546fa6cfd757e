import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useQuery as usePlainQuery, useQueryClient } from "@tanstack/react-query";
import { Undo2 } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Diff } from "@/components/Diff";
import { Dialog } from "@/components/Dialog";
import { Empty } from "@/components/Empty";
import { Field, Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { absolute, duration, millis, Time, useNow } from "@/components/Time";
import { may } from "@/features/session/queries";
import { ChangeKind, OnConflict, WorkspaceService, type FileChange } from "@/gen/deckhand/v1/workspace_pb";
import { ByFile, Patch } from "./ByFile";
import { kinds } from "./kinds";
import { madeBy } from "./madeby";

const workspaces = createClient(WorkspaceService, transport);

type UndoRequest = { stepIds: string[]; paths: string[] };

// Changes shows what a task changed, file by file or step by step, with the diffs, and
// undoes it within the undo window: all, a step, or a file.
export function Changes(props: { taskId: string; file?: string; agentName?: string; live?: boolean }) {
  const session = useSession();
  const pages = useInfiniteQuery(WorkspaceService.method.listChanges, { taskId: props.taskId, pageSize: 100, pageToken: "" }, byToken);
  const { error, isPending, refetch } = pages;
  const [shown, setShown] = useState<string | undefined>();
  const [undo, setUndo] = useState<UndoRequest>();
  const [bySteps, setBySteps] = useState(false);
  const now = useNow();
  if (isPending) return <Skeletons rows={4} />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  const steps = pages.data.pages.flatMap((page) => page.steps);
  const until = millis(pages.data.pages[0]!.undoUntil);
  const left = until === undefined ? undefined : until - now;
  const over = left !== undefined && left <= 0;
  if (steps.length === 0) {
    return <Empty title="No file changes">Files changed by steps appear here and can be undone.</Empty>;
  }
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap items-center gap-3">
        <span className="text-dim" data-testid="undo-left">
          {left === undefined ? "Can be undone" : over ? `The undo window ended at ${absolute(until ?? 0)}. Restore from a checkpoint instead.` : `Can be undone for ${duration(left)} more`}
        </span>
        <span className="flex-1" />
        <div role="group" aria-label="Group changes" className="flex gap-1">
          <Button small look={bySteps ? "quiet" : "plain"} aria-pressed={!bySteps} onClick={() => setBySteps(false)}>
            By file
          </Button>
          <Button small look={bySteps ? "plain" : "quiet"} aria-pressed={bySteps} onClick={() => setBySteps(true)}>
            By step
          </Button>
        </div>
        <Patch taskId={props.taskId} />
        {may(session, "basic") && (
          <Button disabled={over} onClick={() => setUndo({ stepIds: [], paths: [] })}>
            <Undo2 aria-hidden className="size-4" /> Undo all
          </Button>
        )}
      </div>
      {!bySteps && (
        <ByFile
          taskId={props.taskId}
          open={props.file}
          undo={may(session, "basic") && !over ? (path) => setUndo({ stepIds: [], paths: [path] }) : undefined}
          comment={may(session, "basic") && props.live ? props.agentName : undefined}
        />
      )}
      {bySteps && <ul className="space-y-2">
        {steps.map((s) => (
          <li key={madeBy(s)} className="rounded-md border bg-panel">
            <div className="flex flex-wrap items-center gap-2 p-2">
              <button
                type="button"
                aria-expanded={shown === madeBy(s)}
                className="min-h-6 flex-1 text-left hover:underline"
                onClick={() => setShown(shown === madeBy(s) ? undefined : madeBy(s))}
              >
                {s.jobId ? `Job of step ${s.number}` : `Step ${s.number}`} · <Literal className="font-mono text-xs" text={s.jobId || s.tool} /> · {s.files} {s.files === 1 ? "file" : "files"}
              </button>
              {s.undoneAt ? (
                <Badge tone="warn">
                  undone <Time at={s.undoneAt} />
                </Badge>
              ) : (
                may(session, "basic") && (
                  <Button small disabled={over} aria-label={s.jobId ? `Undo the job of step ${s.number}` : `Undo step ${s.number}`} onClick={() => setUndo({ stepIds: [madeBy(s)], paths: [] })}>
                    <Undo2 aria-hidden className="size-3.5" /> Undo
                  </Button>
                )
              )}
            </div>
            <FileChanges changes={s.changes} />
            {shown === madeBy(s) && (
              <div className="border-t p-2">
                <StepDiff taskId={props.taskId} stepId={madeBy(s)} />
              </div>
            )}
          </li>
        ))}
      </ul>}
      {bySteps && <More pages={pages}>Later steps</More>}
      {undo && <Undo taskId={props.taskId} {...undo} onClose={() => setUndo(undefined)} />}
    </div>
  );
}

function FileChanges(props: { changes: FileChange[] }) {
  return (
    <ul className="px-2 pb-2">
      {props.changes.map((c) => {
        const [word, tone] = kinds[c.kind] ?? kinds[ChangeKind.UNSPECIFIED];
        return (
          <li key={c.path} className="flex items-center gap-2 py-0.5">
            <Badge tone={tone}>{word}</Badge>
            <Literal className="min-w-0 font-mono text-xs break-all" text={c.path} />
          </li>
        );
      })}
    </ul>
  );
}

function StepDiff(props: { taskId: string; stepId: string }) {
  const { data, error, isPending } = usePlainQuery({
    queryKey: ["diff", props.taskId, props.stepId],
    queryFn: async ({ signal }) => {
      const files: { path: string; unified: string; summary: string }[] = [];
      const decoder = new TextDecoder();
      for await (const d of workspaces.diffChanges({ taskId: props.taskId, stepIds: [props.stepId] }, { signal })) {
        files.push({ path: d.change?.path ?? "", unified: decoder.decode(d.unified), summary: d.summary });
      }
      return files;
    },
  });
  if (isPending) return <Skeletons rows={3} />;
  if (error) return <Problem error={error} />;
  return (
    <div className="space-y-2">
      {data.map((f) => (
        <div key={f.path} className="space-y-1">
          <p className="font-mono text-xs"><Literal className="break-all" text={f.path} /></p>
          {f.unified ? <Diff text={f.unified} label={line(`Changes of ${f.path}`)} /> : <p className="text-dim">{f.summary}</p>}
        </div>
      ))}
    </div>
  );
}

// Undo shows a preview of what would be restored, and restores it.
function Undo(props: { taskId: string; stepIds: string[]; paths: string[]; onClose: () => void }) {
  const queries = useQueryClient();
  const [onConflict, setOnConflict] = useState(OnConflict.REFUSE);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  const request = { taskId: props.taskId, stepIds: props.stepIds, paths: props.paths, onConflict };
  const { data, error, isPending } = usePlainQuery({
    queryKey: ["undo", request],
    queryFn: () => workspaces.undoChanges({ ...request, preview: true }),
    gcTime: 0,
    staleTime: 0,
  });
  const run = async () => {
    setBusy(true);
    setFailed(undefined);
    try {
      const done = await workspaces.undoChanges({ ...request, expectState: data?.state ?? 0n });
      await queries.invalidateQueries();
      toast(done.applied ? `Undone: ${done.files} ${done.files === 1 ? "file" : "files"} restored` : "No changes to undo");
      props.onClose();
    } catch (e) {
      setFailed(e);
      setBusy(false);
    }
  };
  const blocked = onConflict === OnConflict.REFUSE && (data?.conflicts.length ?? 0) > 0;
  return (
    <Dialog
      open
      wide
      onClose={props.onClose}
      title={props.paths.length > 0 ? line(`Undo the changes of ${props.paths[0]}`) : props.stepIds.length === 0 ? "Undo all changes of this task" : props.stepIds[0]!.startsWith("job_") ? "Undo the changes of this job" : "Undo the changes of this step"}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button look="primary" busy={busy} disabled={!data || blocked || data.files === 0} onClick={() => void run()}>
            Undo {data ? `${data.files} ${data.files === 1 ? "file" : "files"}` : ""}
          </Button>
        </>
      }
    >
      {isPending ? (
        <Skeletons rows={3} />
      ) : error ? (
        <Problem error={error} />
      ) : (
        <>
          {data.undoLeft && <p className="text-dim">Time left: {duration(Number(data.undoLeft.seconds) * 1000)}</p>}
          <FileChanges changes={data.changes} />
          {data.files === 0 && data.conflicts.length === 0 && <p>Nothing to undo: it is as it was before.</p>}
          {data.running > 0 && <p className="text-warn">{data.running} {data.running === 1 ? "command is" : "commands are"} running in this workspace.</p>}
          {data.conflicts.length > 0 && (
            <>
              <p className="font-medium text-warn">Changed since by someone else.</p>
              <ul className="list-inside list-disc">
                {data.conflicts.map((c) => (
                  <li key={c.path}>
                    <span className="font-mono text-xs"><Literal className="break-all" text={c.path} /></span>: {c.message}
                  </li>
                ))}
              </ul>
              <Field label="For these files">
                <Select value={onConflict} onChange={(e) => setOnConflict(Number(e.target.value))}>
                  <option value={OnConflict.REFUSE}>Cancel the undo</option>
                  <option value={OnConflict.SKIP}>Skip them</option>
                  <option value={OnConflict.OVERWRITE}>Overwrite (newer changes are lost)</option>
                </Select>
              </Field>
            </>
          )}
          {data.irreversible.length > 0 && (
            <details>
              <summary>{data.irreversible.length} {data.irreversible.length === 1 ? "step" : "steps"} had effects that cannot be undone</summary>
              <ul className="list-inside list-disc pt-1">
                {data.irreversible.map((s) => (
                  <li key={s.stepId}>
                    Step {s.number} <Literal text={`${s.tool}: ${s.why}`} />
                  </li>
                ))}
              </ul>
            </details>
          )}
        </>
      )}
      {failed !== undefined && <Problem error={failed} />}
    </Dialog>
  );
}
