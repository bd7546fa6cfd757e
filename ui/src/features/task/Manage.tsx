import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { download } from "@/components/download";
import { Field, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Literal } from "@/components/Literal";
import { bytes } from "@/components/money";
import { showError } from "@/components/showError";
import { final } from "@/components/state";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { AuditService } from "@/gen/deckhand/v1/control_pb";
import { QueueService } from "@/gen/deckhand/v1/queue_pb";
import { TaskService, TaskState, type Task } from "@/gen/deckhand/v1/task_pb";
import { ExportFormat, WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { tasks } from "./actions";
import { Assign } from "./Assign";
import { checkpointNames, pointOf } from "./checkpoint";
import { ResumeFrom } from "./remedies";
import { useRun } from "./useRun";

const audit = createClient(AuditService, transport);
const queue = createClient(QueueService, transport);
const workspaces = createClient(WorkspaceService, transport);

const week = 7n * 24n * 3600n; // in seconds

type Open = "cancel" | "assign" | "complete" | "resume";

// Manage has what people rarely do with a task: give it to somebody else, move it in
// the queue, complete or cancel it, and save what proves or holds its work.
export function Manage({ task }: { task: Task }) {
  const session = useSession();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [open, setOpen] = useState<Open>();
  const ended = final(task.state);
  const queued = task.state === TaskState.QUEUED;
  const { busy, run } = useRun();
  const close = () => setOpen(undefined);
  const receipt = async () => {
    const { line } = await audit.getReceipt({ taskId: task.id });
    download(`${task.id}.receipt.json`, new Blob([line as Uint8Array<ArrayBuffer>], { type: "application/json" }));
  };
  const archive = async () => {
    const parts: BlobPart[] = [];
    for await (const { data } of workspaces.exportWorkspace({ workspace: { case: "taskId", value: task.id }, format: ExportFormat.TAR })) {
      parts.push(data as Uint8Array<ArrayBuffer>);
    }
    download(`${task.id}.tar`, new Blob(parts, { type: "application/x-tar" }));
  };
  const first = async () => {
    await queue.reorderTask({ taskId: task.id, place: { case: "first", value: true } });
    toast("It is first in the queue");
  };
  if (!may(session, "basic")) return null;
  return (
    <>
      <div role="group" aria-label="Manage" className="flex flex-wrap gap-2">
        {queued && <Button busy={busy === "first"} onClick={() => void run("first", first)}>Move to the front of the queue</Button>}
        {!ended && <Button onClick={() => setOpen("assign")}>Assign</Button>}
        {!ended && task.assignee.startsWith("@human:") && <Button onClick={() => setOpen("complete")}>Complete</Button>}
        {!ended && <Button look="danger" onClick={() => setOpen("cancel")}>Cancel the task</Button>}
        {ended && <Button busy={busy === "receipt"} onClick={() => void run("receipt", receipt)}><Download aria-hidden className="size-4" /> Receipt</Button>}
        <Button busy={busy === "tar"} onClick={() => void run("tar", archive)}><Download aria-hidden className="size-4" /> Workspace as tar</Button>
        {task.iteration > 0 && <Button onClick={() => setOpen("resume")}>Resume from a checkpoint</Button>}
      </div>
      <Confirm
        open={open === "cancel"}
        onClose={close}
        title="Cancel this task"
        action="Cancel the task"
        danger
        reason
        run={async (reason) => {
          await tasks.cancelTask({ taskId: task.id, reason });
          await queries.invalidateQueries();
        }}
      >
        <p>A running command is killed, and the task ends as cancelled.</p>
      </Confirm>
      {open === "assign" && <Assign task={task} onClose={close} />}
      {open === "complete" && <Complete task={task} onClose={close} />}
      {open === "resume" && <ResumeFrom task={task} onClose={close} onMade={(made) => void navigate({ to: "/tasks/$task", params: { task: made.id }, search: {} })} />}
    </>
  );
}

function Complete({ task, onClose }: { task: Task; onClose: () => void }) {
  const queries = useQueryClient();
  const [summary, setSummary] = useState("");
  return (
    <FormDialog
      title="Complete the task"
      action="Complete"
      onClose={onClose}
      run={async () => {
        await queue.completeTask({ taskId: task.id, summary: summary.trim() });
        await queries.invalidateQueries();
      }}
    >
      <Field label="Result">
        <TextArea rows={4} maxLength={32_768} value={summary} onChange={(e) => setSummary(e.target.value)} />
      </Field>
    </FormDialog>
  );
}

// Checkpoints lists the points that a task can be resumed from, and keeps one for
// longer.
export function Checkpoints({ task }: { task: Task }) {
  const session = useSession();
  const { data, refetch } = useQuery(TaskService.method.listCheckpoints, { taskId: task.id, pageSize: 20 });
  if (!data || data.checkpoints.length === 0) return null;
  const keep = async (checkpointId: string) => {
    try {
      await tasks.keepCheckpoint({ taskId: task.id, checkpointId, keepFor: { seconds: week } });
      await refetch();
      toast("Kept for 7 days");
    } catch (e) {
      showError(e);
    }
  };
  return (
    <section className="space-y-2">
      <h2 className="font-semibold">Checkpoints</h2>
      <Table label="Checkpoints" head={["Point", "Name", "Made", "Kept until", ""]}>
        {data.checkpoints.map((c) => (
          <Row key={c.id}>
            <Cell>{pointOf(c)}</Cell>
            <Cell><Literal text={checkpointNames(c) || c.reason} /></Cell>
            <Cell><Time at={c.createdAt} /></Cell>
            <Cell><Time at={c.expiresAt} /></Cell>
            <Cell>{may(session, "basic") && <Button small aria-label={`Keep for 7 days: ${pointOf(c)}`} onClick={() => void keep(c.id)}>Keep for 7 days</Button>}</Cell>
          </Row>
        ))}
      </Table>
    </section>
  );
}

// Artifacts lists the files that a task got from others, and gave to them.
export function Artifacts({ task }: { task: Task }) {
  const { data } = useQuery(WorkspaceService.method.listArtifacts, { taskId: task.id, pageSize: 100 });
  if (!data || data.transfers.length === 0) return null;
  return (
    <section className="space-y-2">
      <h2 className="font-semibold">Files from and for other tasks</h2>
      <Table label="Artifacts" head={["", "Task", "Files", "State"]}>
        {data.transfers.map((t) => {
          const other = t.fromTaskId === task.id ? t.toTaskId : t.fromTaskId;
          return (
            <Row key={t.id}>
              <Cell>{t.fromTaskId === task.id ? "to" : "from"}</Cell>
              <Cell>
                {other && (
                  <Link to="/tasks/$task" params={{ task: other }} search={{}} className="font-mono text-xs text-accent hover:underline">
                    {other}
                  </Link>
                )}
              </Cell>
              <Cell>
                {t.files} ({bytes(t.bytes)}): <Literal className="font-mono text-xs break-all" text={t.paths.slice(0, 5).join(", ")} />
              </Cell>
              <Cell>{t.state}{t.missing.length > 0 && `, ${t.missing.length} missing`}</Cell>
            </Row>
          );
        })}
      </Table>
    </section>
  );
}
