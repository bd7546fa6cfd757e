import { useQueryClient } from "@tanstack/react-query";
import { OctagonX } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Literal } from "@/components/Literal";
import { final } from "@/components/state";
import { may } from "@/features/session/queries";
import { KillScope, type KilledTask } from "@/gen/deckhand/v1/control_pb";
import type { Task } from "@/gen/deckhand/v1/task_pb";
import { control, killed } from "./actions";
import { BulkBar } from "./BulkBar";

// TasksBulk acts on the tasks that are selected. A kill is for those that were
// selected when it was chosen, and asks for a typed word.
export function TasksBulk(props: { tasks: Task[]; onClear: () => void }) {
  const queries = useQueryClient();
  const session = useSession();
  const [kill, setKill] = useState<Task[]>();
  if (props.tasks.length === 0 || !may(session, "basic")) return null;
  const live = props.tasks.filter((t) => !final(t.state));
  return (
    <BulkBar label="Selected tasks" summary={`${props.tasks.length} selected`} tasks={live} className="mb-3" onClear={props.onClear}>
      <Button small look="danger" disabled={live.length === 0} onClick={() => setKill(live)}>
        <OctagonX aria-hidden className="size-4" /> Kill {live.length}
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
    </BulkBar>
  );
}
