import { createClient } from "@connectrpc/connect";
import { rows } from "@deckhand/sdk";
import { useQuery } from "@tanstack/react-query";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { madeBy } from "@/features/workspace/madeby";
import { UndoDialog } from "@/features/workspace/UndoDialog";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";

const workspaces = createClient(WorkspaceService, transport);

// UndoTo undoes what the steps after a number changed, once a person has seen what that
// restores.
export function UndoTo(props: { taskId: string; number: number; onClose: () => void }) {
  const { taskId, number, onClose } = props;
  const title = `Undo back to step ${number}`;
  const later = useQuery({
    queryKey: ["undo to", taskId, number],
    gcTime: 0,
    staleTime: 0,
    retry: false,
    queryFn: async () => {
      const stepIds: string[] = [];
      for await (const s of rows(workspaces.listChanges, { taskId, pageSize: 500 })) {
        if (s.number > number && !s.undoneAt) stepIds.push(madeBy(s));
      }
      return stepIds;
    },
  });
  if (later.data && later.data.length > 0)
    return (
      <UndoDialog
        of={{ taskId, stepIds: later.data }}
        title={title}
        description={`The files of the workspace become what they were after this step: ${later.data.length} later ${later.data.length === 1 ? "step is" : "steps are"} undone. What those sent elsewhere stays.`}
        onClose={onClose}
      />
    );
  return (
    <Dialog open wide onClose={onClose} title={title} footer={<Button onClick={onClose}>Cancel</Button>}>
      {later.isPending ? <Skeletons rows={3} /> : later.error ? <Problem error={later.error} /> : <p>No later step has changes that could be undone.</p>}
    </Dialog>
  );
}
