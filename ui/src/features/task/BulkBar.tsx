import { Pause, Play } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { TaskState, type Task } from "@/gen/deckhand/v1/task_pb";
import { pause, resume } from "./actions";
import { useEach } from "./each";

// BulkBar shows the actions on what is selected in a list. It pauses and resumes the
// given tasks; children are further buttons.
export function BulkBar(props: { label: string; summary: string; tasks: Task[]; className?: string; onClear: () => void; children: ReactNode }) {
  const { busy, each } = useEach();
  const paused = props.tasks.filter((t) => t.state === TaskState.PAUSED);
  const going = props.tasks.filter((t) => t.state !== TaskState.PAUSED);
  return (
    <div
      role="region"
      aria-label={props.label}
      className={cx("sticky top-0 z-10 flex flex-wrap items-center gap-2 rounded-md border border-accent bg-panel p-2", props.className)}
    >
      <span className="font-medium">{props.summary}</span>
      <span className="flex-1" />
      <Button small disabled={going.length === 0} busy={busy === "pause"} onClick={() => void each("pause", "Paused", going, pause, resume)}>
        <Pause aria-hidden className="size-4" /> Pause {going.length}
      </Button>
      <Button small disabled={paused.length === 0} busy={busy === "resume"} onClick={() => void each("resume", "Resumed", paused, resume, pause)}>
        <Play aria-hidden className="size-4" /> Resume {paused.length}
      </Button>
      {props.children}
      <Button small look="quiet" onClick={props.onClear}>
        Clear
      </Button>
    </div>
  );
}
