import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useQuery as usePlainQuery } from "@tanstack/react-query";
import { Undo2 } from "lucide-react";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Diff } from "@/components/Diff";
import { Empty } from "@/components/Empty";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { absolute, duration, millis, Time, useNow } from "@/components/Time";
import { may } from "@/features/session/queries";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { ByFile, Patch } from "./ByFile";
import { FileChanges } from "./FileChanges";
import { madeBy } from "./madeby";
import { UndoDialog } from "./UndoDialog";

const workspaces = createClient(WorkspaceService, transport);

type UndoRequest = { stepIds: string[]; paths: string[]; machine?: string };

function undoTitle({ stepIds, paths, machine }: UndoRequest): string {
  if (paths.length > 0) return line(`Undo the changes of ${paths[0]}`);
  if (machine) return line(`Undo the changes of this step on machine ${machine}`);
  if (stepIds.length === 0) return "Undo all changes of this task";
  return stepIds[0]!.startsWith("job_") ? "Undo the changes of this job" : "Undo the changes of this step";
}

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
  const onMachines = steps.some((s) => s.machine);
  const inWorkspace = steps.some((s) => !s.machine);
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
        {inWorkspace && <Patch taskId={props.taskId} />}
        {may(session, "basic") && inWorkspace && (
          <Button disabled={over} onClick={() => setUndo({ stepIds: [], paths: [] })}>
            <Undo2 aria-hidden className="size-4" /> {onMachines ? "Undo all in the workspace" : "Undo all"}
          </Button>
        )}
      </div>
      {onMachines && (
        <p className="text-dim">
          This task also changed files of machines, outside of its workspace. {may(session, "admin") ? "Undo them step by step." : "An administrator can undo them."}
        </p>
      )}
      {!bySteps && (
        <ByFile
          taskId={props.taskId}
          open={props.file}
          undoSteps={onMachines && may(session, "admin") ? () => setBySteps(true) : undefined}
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
                {s.jobId ? `Job of step ${s.number}` : `Step ${s.number}`} · {s.machine && <>on machine <Literal className="font-mono text-xs" text={s.machine} /> · </>}<Literal className="font-mono text-xs" text={s.jobId || s.tool} /> · {s.files} {s.files === 1 ? "file" : "files"}
              </button>
              {s.undoneAt ? (
                <Badge tone="warn">
                  undone <Time at={s.undoneAt} />
                </Badge>
              ) : (
                may(session, s.machine ? "admin" : "basic") && (
                  <Button small disabled={over} aria-label={s.jobId ? `Undo the job of step ${s.number}` : `Undo step ${s.number}`} onClick={() => setUndo({ stepIds: [madeBy(s)], paths: [], machine: s.machine })}>
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
      {undo && <UndoDialog of={{ taskId: props.taskId, ...undo }} title={undoTitle(undo)} onClose={() => setUndo(undefined)} />}
    </div>
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
