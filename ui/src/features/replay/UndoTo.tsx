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
import { madeBy } from "@/features/workspace/madeby";
import { OnConflict, WorkspaceService, type FileChange } from "@/gen/deckhand/v1/workspace_pb";
import { changeWords } from "./words";

const workspaces = createClient(WorkspaceService, transport);

// UndoTo undoes what the steps after a number changed, once a person has seen what that
// restores.
export function UndoTo(props: { taskId: string; number: number; onClose: () => void }) {
  const { taskId, number } = props;
  const queries = useQueryClient();
  const [onConflict, setOnConflict] = useState(OnConflict.REFUSE);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  const { data, error, isPending } = useQuery({
    queryKey: ["undo to", taskId, number, onConflict],
    gcTime: 0,
    staleTime: 0,
    retry: false,
    queryFn: async () => {
      const stepIds: string[] = [];
      for (let pageToken = ""; ; ) {
        const page = await workspaces.listChanges({ taskId, pageSize: 500, pageToken });
        stepIds.push(...page.steps.filter((s) => s.number > number && !s.undoneAt).map(madeBy));
        pageToken = page.nextPageToken;
        if (!pageToken) break;
      }
      if (stepIds.length === 0) return { stepIds, preview: undefined };
      return { stepIds, preview: await workspaces.undoChanges({ taskId, stepIds, onConflict, preview: true }) };
    },
  });
  const preview = data?.preview;
  const run = async () => {
    setBusy(true);
    setFailed(undefined);
    try {
      const done = await workspaces.undoChanges({ taskId, stepIds: data?.stepIds, onConflict, expectState: preview?.state });
      await queries.invalidateQueries();
      toast(done.applied ? `Undone: ${done.files} ${done.files === 1 ? "file" : "files"} restored` : "No changes to undo");
      props.onClose();
    } catch (e) {
      setFailed(e);
      setBusy(false);
    }
  };
  const blocked = onConflict === OnConflict.REFUSE && (preview?.conflicts.length ?? 0) > 0;
  return (
    <Dialog
      open
      wide
      onClose={props.onClose}
      title={`Undo back to step ${number}`}
      description="The files of the workspace become what they were after this step. What later steps sent elsewhere stays."
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button look="primary" busy={busy} disabled={!preview || blocked || preview.files === 0} onClick={() => void run()}>
            {preview ? `Undo ${preview.files} ${preview.files === 1 ? "file" : "files"}` : "Undo"}
          </Button>
        </>
      }
    >
      {isPending ? (
        <Skeletons rows={3} />
      ) : error ? (
        <Problem error={error} />
      ) : !preview ? (
        <p>No later step has changes that could be undone.</p>
      ) : (
        <>
          <p>Undoes {data.stepIds.length} {data.stepIds.length === 1 ? "step" : "steps"}.</p>
          <FileList changes={preview.changes} />
          {preview.running > 0 && <p className="text-warn">{preview.running} {preview.running === 1 ? "command is" : "commands are"} running in this workspace.</p>}
          {preview.conflicts.length > 0 && (
            <>
              <ul className="list-inside list-disc">
                {preview.conflicts.slice(0, 20).map((c) => (
                  <li key={c.path}><Literal className="font-mono text-xs break-all" text={c.path} />: <Literal text={c.message} /></li>
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
          {preview.irreversible.length > 0 && (
            <p className="text-warn">
              {preview.irreversible.length} {preview.irreversible.length === 1 ? "step" : "steps"} had effects that cannot be undone.
            </p>
          )}
        </>
      )}
      {failed !== undefined && <Problem error={failed} />}
    </Dialog>
  );
}

// FileList is the paths of changes, and what would happen to each.
export function FileList({ changes }: { changes: FileChange[] }) {
  if (changes.length === 0) return <p className="text-dim">No file changes.</p>;
  return (
    <ul aria-label="Files that change" className="max-h-64 overflow-y-auto">
      {changes.slice(0, 200).map((c) => (
        <li key={c.path} className="flex gap-2 py-0.5">
          <span className="w-20 shrink-0 text-xs text-dim">{changeWords[c.kind] ?? "changed"}</span>
          <Literal className="min-w-0 font-mono text-xs break-all" text={c.path} />
        </li>
      ))}
      {changes.length > 200 && <li className="text-xs text-dim">and {changes.length - 200} more</li>}
    </ul>
  );
}
