import { create } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Field, Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { duration } from "@/components/Time";
import { OnConflict, UndoChangesResponseSchema, WorkspaceService, type UndoChangesResponse } from "@/gen/deckhand/v1/workspace_pb";
import { FileChanges } from "./FileChanges";

const workspaces = createClient(WorkspaceService, transport);

// Undone is what an undo is of: some steps of a task, or all for none, and some files, or
// all for none; or a person's command.
type Undone = { taskId: string; stepIds: string[]; paths?: string[] } | { execId: string };

type Asked = { onConflict: OnConflict; preview?: boolean; expectState?: bigint };

// undo asks the hub for one, or for its preview.
async function undo(of: Undone, asked: Asked): Promise<UndoChangesResponse> {
  if (!("execId" in of)) return workspaces.undoChanges({ taskId: of.taskId, stepIds: of.stepIds, paths: of.paths ?? [], ...asked });
  const { undo } = await workspaces.undoNodeExec({ execId: of.execId, ...asked });
  return undo ?? create(UndoChangesResponseSchema);
}

// UndoDialog shows a preview of what an undo would restore, and restores it.
export function UndoDialog(props: {
  of: Undone;
  title: string;
  description?: string;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const [onConflict, setOnConflict] = useState(OnConflict.REFUSE);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  const { data, error, isPending } = useQuery({
    queryKey: ["undo", props.of, onConflict],
    queryFn: () => undo(props.of, { onConflict, preview: true }),
    gcTime: 0,
    staleTime: 0,
  });
  const run = async () => {
    setBusy(true);
    setFailed(undefined);
    try {
      const done = await undo(props.of, { onConflict, expectState: data?.state ?? 0n });
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
      title={props.title}
      description={props.description}
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
          {data.changes.length > 0 && <p>The undo makes these changes:</p>}
          <FileChanges changes={data.changes} label="Files that change" most={200} />
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
