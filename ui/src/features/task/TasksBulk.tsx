import { useQueryClient } from "@tanstack/react-query";
import { OctagonX, Pause, Play } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Literal } from "@/components/Literal";
import { final } from "@/components/state";
import { may } from "@/features/session/queries";
import { KillScope, type KilledTask } from "@/gen/deckhand/v1/control_pb";
import { TaskState, type Task } from "@/gen/deckhand/v1/task_pb";
import { control, killed, pause, resume } from "./actions";
import { useEach } from "./each";

// TasksBulk acts on the tasks that are selected. A kill is for those that were
// selected when it was chosen, and asks for a typed word.
export function TasksBulk(props: { tasks: Task[]; onClear: () => void }) {
  const queries = useQueryClient();
  const session = useSession();
  const { busy, each } = useEach();
  const [kill, setKill] = useState<Task[]>();
  if (props.tasks.length === 0 || !may(session, "basic")) return null;
  const live = props.tasks.filter((t) => !final(t.state));
  const paused = live.filter((t) => t.state === TaskState.PAUSED);
  const going = live.filter((t) => t.state !== TaskState.PAUSED);
  return (
    <div
      role="region"
      aria-label="Selected tasks"
      className="sticky top-0 z-10 mb-3 flex flex-wrap items-center gap-2 rounded-md border border-accent bg-panel p-2"
    >
      <span className="font-medium">{props.tasks.length} selected</span>
      <span className="flex-1" />
      <Button
        small
        disabled={going.length === 0}
        busy={busy === "pause"}
        onClick={() => void each("pause", "Paused", going, pause, resume)}
      >
        <Pause aria-hidden className="size-4" /> Pause {going.length}
      </Button>
      <Button
        small
        disabled={paused.length === 0}
        busy={busy === "resume"}
        onClick={() => void each("resume", "Resumed", paused, resume, pause)}
      >
        <Play aria-hidden className="size-4" /> Resume {paused.length}
      </Button>
      <Button small look="danger" disabled={live.length === 0} onClick={() => setKill(live)}>
        <OctagonX aria-hidden className="size-4" /> Kill {live.length}
      </Button>
      <Button small look="quiet" onClick={props.onClear}>
        Clear
      </Button>
      <Confirm
        open={kill !== undefined}
        onClose={() => setKill(undefined)}
        title={`Kill ${kill?.length} tasks`}
        action="Kill"
        danger
        reason
        typed={`kill ${kill?.length}`}
        run={async (reason) => {
          const all: KilledTask[] = [];
          for (const t of kill ?? []) all.push(...(await control.kill({ scope: KillScope.TASK, objectId: t.id, reason })).tasks);
          toast(`Killed ${kill?.length} tasks`, { description: killed(all) });
          await queries.invalidateQueries();
          props.onClear();
        }}
      >
        <ul className="list-inside list-disc">
          {kill?.map((t) => (
            <li key={t.id} className="break-words">
              <Literal text={t.title || t.goal || t.id} />
            </li>
          ))}
        </ul>
      </Confirm>
    </div>
  );
}
