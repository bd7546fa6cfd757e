import { createClient } from "@connectrpc/connect";
import { newIdempotencyKey, pages } from "@deckhand/sdk";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Field, Select, TextArea } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { FileChanges } from "@/features/workspace/FileChanges";
import { ResumeWorkspace, TaskService, type Task } from "@/gen/deckhand/v1/task_pb";

const tasks = createClient(TaskService, transport);

// ContinueFrom makes a new task that continues from the checkpoint at a moment, or the
// newest one before it that is kept, once a person has seen what that restores.
export function ContinueFrom(props: { task: Task; iteration: number; onClose: () => void }) {
  const { task, iteration } = props;
  const navigate = useNavigate();
  const [workspace, setWorkspace] = useState(ResumeWorkspace.RESTORE);
  const [message, setMessage] = useState("");
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  const key = useRef(newIdempotencyKey());
  const found = useQuery({
    queryKey: ["checkpoint until", task.id, iteration],
    gcTime: 0,
    queryFn: async () => {
      let kept: number[] = [];
      for await (const page of pages(tasks.listCheckpoints, { taskId: task.id, pageSize: 500 })) {
        kept = kept.concat(page.checkpoints.map((c) => c.iteration));
        // The newest first: the first that is not later is the one.
        const at = page.checkpoints.find((c) => c.iteration <= iteration);
        if (at) return { at, kept };
      }
      return { at: undefined, kept };
    },
  });
  const at = found.data?.at;
  const preview = useQuery({
    queryKey: ["continue from", task.id, at?.iteration, workspace],
    enabled: at !== undefined,
    gcTime: 0,
    retry: false,
    // A message is needed where the agent had ended its run there; a preview sends none.
    queryFn: () => tasks.resumeTaskFrom({ taskId: task.id, iteration: at!.iteration, workspace, preview: true, message: "preview" }),
  });
  const run = async () => {
    setBusy(true);
    setFailed(undefined);
    try {
      const made = await tasks.resumeTaskFrom({ taskId: task.id, iteration: at!.iteration, workspace, message, idempotencyKey: key.current });
      if (made.task) void navigate({ to: "/tasks/$task", params: { task: made.task.id } });
    } catch (e) {
      setFailed(e);
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      wide
      onClose={props.onClose}
      title={`Continue from iteration ${at?.iteration ?? iteration}`}
      description="Creates a new task with the turns and steps up to here as its past. This task stays as it is."
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button look="primary" busy={busy} disabled={!at || !preview.data} onClick={() => void run()}>
            Create task
          </Button>
        </>
      }
    >
      {found.isPending ? (
        <Skeletons rows={3} />
      ) : found.error ? (
        <Problem error={found.error} />
      ) : !at ? (
        <p className="text-warn">
          No checkpoint up to iteration {iteration} is kept any more.
          {found.data.kept.length > 0 && ` The oldest one is of iteration ${Math.min(...found.data.kept)}.`} Checkpoints of a task that has ended expire after a day
 unless somebody keeps them.
        </p>
      ) : (
        <>
          {at.iteration < iteration && (
            <p className="text-warn">The checkpoint of iteration {iteration} is not kept any more. The newest one before it is used.</p>
          )}
          <p className="text-xs text-dim">
            Checkpoint {at.name && <Literal text={at.name} />} of <Time at={at.createdAt} />
          </p>
          <Field label="Workspace">
            <Select value={workspace} onChange={(e) => setWorkspace(Number(e.target.value))}>
              <option value={ResumeWorkspace.RESTORE}>Restore as it was then</option>
              <option value={ResumeWorkspace.OVERWRITE}>Restore, even if later changes of others are lost</option>
              <option value={ResumeWorkspace.KEEP}>Keep as it is now</option>
            </Select>
          </Field>
          {preview.error ? (
            <Problem error={preview.error} />
          ) : preview.isPending ? (
            <Skeletons rows={2} />
          ) : preview.data.workspace?.changes.length === 0 ? (
            <p className="text-dim">No file changes.</p>
          ) : preview.data.workspace ? (
            <>
              <p>{preview.data.workspace.files} {preview.data.workspace.files === 1 ? "file changes" : "files change"} in the workspace.</p>
              <FileChanges changes={preview.data.workspace.changes} label="Files that change" most={200} />
              {preview.data.workspace.others.length > 0 && <p className="text-warn">{preview.data.workspace.others.length} changes of others are among them.</p>}
            </>
          ) : (
            <p className="text-dim">The workspace does not change.</p>
          )}
          <Field label="Message to the agent" hint="Optional, unless the agent had ended its run here">
            <TextArea rows={3} value={message} onChange={(e) => setMessage(e.target.value)} maxLength={10_000} />
          </Field>
        </>
      )}
      {failed !== undefined && <Problem error={failed} />}
    </Dialog>
  );
}
