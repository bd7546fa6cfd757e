import { useQuery } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { bytes } from "@/components/money";
import { duration, millis, useNow } from "@/components/Time";
import { may } from "@/features/session/queries";
import { JobState, TaskService, type Job } from "@/gen/deckhand/v1/task_pb";
import { tasks } from "./actions";

// How often what the jobs use is measured, in milliseconds.
const measured = 5_000;

// Jobs lists a task's commands in the background, with what they use. For a task without
// any it shows nothing.
export function Jobs(props: { taskId: string; onLog: (stepId: string) => void }) {
  const { data } = useQuery(
    TaskService.method.listJobs,
    { taskId: props.taskId, pageSize: 500 },
    { refetchInterval: (q) => (q.state.data?.jobs.some((j) => j.state === JobState.RUNNING) ? measured : false) },
  );
  const queries = useQueryClient();
  const session = useSession();
  const [killing, setKilling] = useState<Job>();
  if (!data || data.jobs.length === 0) return null;
  return (
    <section className="space-y-2 pb-4" aria-label="Jobs">
      <h2 className="font-semibold">Jobs</h2>
      <ul className="max-h-60 overflow-y-auto rounded-md border bg-panel" tabIndex={0} aria-label="Commands in the background">
        {data.jobs.map((job) => (
          <li key={job.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 border-b px-3 py-1.5 last:border-0">
            <Id value={job.id} />
            <Status job={job} />
            <Literal className="min-w-0 flex-1 truncate font-mono text-xs" text={job.command} />
            <Button onClick={() => props.onLog(job.stepId)}>Output</Button>
            {job.state === JobState.RUNNING && may(session, "basic") && (
              <Button onClick={() => setKilling(job)} aria-label={`Kill ${job.id}`}>
                Kill
              </Button>
            )}
          </li>
        ))}
      </ul>
      <Confirm
        open={killing !== undefined}
        onClose={() => setKilling(undefined)}
        title="Kill job"
        action="Kill"
        danger
        run={async () => {
          const res = await tasks.killJob({ taskId: props.taskId, jobId: killing!.id });
          toast(res.processesLeft === 0 ? "Killed: no process is left" : `${res.processesLeft} processes are left`);
          await queries.invalidateQueries();
        }}
      >
        <p>Kills the command and all its processes. The task goes on.</p>
      </Confirm>
    </section>
  );
}

function Status({ job }: { job: Job }) {
  const now = useNow();
  const from = millis(job.startedAt) ?? now;
  if (job.state === JobState.ENDED) {
    const reason = String(job.outcome?.end_reason ?? "");
    const code = Number(job.outcome?.exit_code ?? 0);
    const fine = reason === "exited" && code === 0;
    return (
      <span className="flex items-center gap-2 text-xs text-dim">
        <Badge tone={fine ? "good" : "warn"}>{reason === "exited" ? `exit status ${code}` : reason.replaceAll("_", " ")}</Badge>
        {duration((millis(job.endedAt) ?? from) - from)}
      </span>
    );
  }
  const usage = job.usage;
  return (
    <span className="flex items-center gap-2 text-xs text-dim">
      <Badge tone="info">running</Badge>
      {duration(Math.max(now, from) - from)}
      {usage ? ` · ${duration(Number(usage.cpuTime?.seconds ?? 0n) * 1000)} CPU · ${bytes(usage.memoryBytes)} memory` : " · node not connected"}
    </span>
  );
}
