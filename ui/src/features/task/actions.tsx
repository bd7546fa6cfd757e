import { createClient } from "@connectrpc/connect";
import { newIdempotencyKey } from "@deckhand/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { CirclePause, OctagonX, Pause, Play, RotateCcw } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { line } from "@/components/marks";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { shorten } from "@/components/Id";
import { showError } from "@/components/showError";
import { final } from "@/components/state";
import { may } from "@/features/session/queries";
import { ControlService, KillOutcome, KillScope, type KilledTask } from "@/gen/deckhand/v1/control_pb";
import { TaskService, TaskState, type Task } from "@/gen/deckhand/v1/task_pb";
import { useRun } from "./useRun";

export const tasks = createClient(TaskService, transport);
export const control = createClient(ControlService, transport);

export const pause = (t: Task) => tasks.pauseTask({ taskId: t.id });
export const resume = (t: Task) => tasks.resumeTask({ taskId: t.id });

// killed describes the known state of the processes of killed tasks.
export function killed(all: KilledTask[]): string {
  const confirmed = all.filter((t) => t.outcome === KillOutcome.CONFIRMED).length;
  const stops = all.filter((t) => t.outcome === KillOutcome.STOPS_BY);
  const parts = [`${confirmed} of ${all.length} confirmed stopped (no process left)`];
  if (stops.length > 0) {
    const by = Math.max(...stops.map((t) => Number(t.stopsBy?.seconds ?? 0n)));
    parts.push(`${stops.length} on unreachable nodes will stop by ${new Date(by * 1000).toLocaleTimeString()}`);
  }
  const pending = all.length - confirmed - stops.length;
  if (pending > 0) parts.push(`${pending} not confirmed yet`);
  return parts.join("; ");
}

// useTaskActions returns the actions that the user may take on a task now.
function useTaskActions(task: Task) {
  const queries = useQueryClient();
  const session = useSession();
  const { busy, run } = useRun();
  const id = task.id;
  const undone = () => run("resume", () => resume(task));
  const undo = { label: "Undo", onClick: () => void undone() };
  return {
    busy,
    allowed: may(session, "basic"),
    ended: final(task.state),
    paused: task.state === TaskState.PAUSED,
    pause: () =>
      run("pause", async () => {
        await pause(task);
        toast(`Paused ${task.agentName}`, { description: shorten(id), action: undo });
      }),
    pauseNext: () =>
      run("pauseNext", async () => {
        await tasks.pauseTask({ taskId: id, onNextTool: true });
        toast(`${task.agentName} will pause before its next tool call`, { action: undo });
      }),
    resume: () =>
      run("resume", async () => {
        await resume(task);
        toast(`Resumed ${task.agentName}`, {
          description: shorten(id),
          action: { label: "Undo", onClick: () => void run("pause", () => pause(task)) },
        });
      }),
    retry: () => tasks.retryTask({ taskId: id, idempotencyKey: newIdempotencyKey() }),
    kill: async (reason: string) => {
      const res = await control.kill({ scope: KillScope.TASK, objectId: id, reason });
      toast(`Killed ${shorten(id)}`, { description: killed(res.tasks) });
      await queries.invalidateQueries();
    },
  };
}

// TaskControls are the buttons to resume, pause, kill and retry a task.
export function TaskControls(props: { task: Task; small?: boolean; onRetried?: (task: Task) => void }) {
  const { task, small } = props;
  const a = useTaskActions(task);
  const [killing, setKilling] = useState(false);
  if (!a.allowed) return null;
  const named = { title: "", small };
  // On cards the words alone would be the same on each.
  const name = (word: string) => (small ? `${word}: ${line(task.title || task.goal || task.id)}` : word);
  return (
    <div role="group" aria-label={`Control ${task.title || task.id}`} className="flex items-center gap-1">
      {!a.ended && (
        <>
          {a.paused || task.pauseNext ? (
            <Button {...named} title="Resume" aria-label={name("Resume")} busy={a.busy === "resume"} onClick={() => void a.resume()}>
              <Play aria-hidden className="size-4" />
              {!small && "Resume"}
            </Button>
          ) : (
            <Button {...named} title="Pause now" aria-label={name("Pause")} busy={a.busy === "pause"} onClick={() => void a.pause()}>
              <Pause aria-hidden className="size-4" />
              {!small && "Pause"}
            </Button>
          )}
          {!a.paused && !task.pauseNext && (
            <Button
              {...named}
              title="Pause before next tool call"
              aria-label={name("Pause before next tool call")}
              busy={a.busy === "pauseNext"}
              onClick={() => void a.pauseNext()}
            >
              <CirclePause aria-hidden className="size-4" />
              {!small && "Pause before next tool call"}
            </Button>
          )}
          <Button {...named} look="danger" title="Kill" aria-label={name("Kill")} onClick={() => setKilling(true)}>
            <OctagonX aria-hidden className="size-4" />
            {!small && "Kill"}
          </Button>
        </>
      )}
      {(a.ended || task.state === TaskState.ESCALATED) && props.onRetried && (
        <Button
          {...named}
          title="Retry"
          aria-label={name("Retry")}
          onClick={() =>
            void a.retry().then(({ task: made }) => made && props.onRetried?.(made), showError)
          }
        >
          <RotateCcw aria-hidden className="size-4" />
          {!small && "Retry"}
        </Button>
      )}
      <Confirm open={killing} onClose={() => setKilling(false)} title="Kill this task" action="Kill" danger reason run={a.kill}>
        <p>
          Its processes are killed, no further tool call starts, and the task ends as cancelled. You can undo its file
          changes afterwards.
        </p>
      </Confirm>
    </div>
  );
}
