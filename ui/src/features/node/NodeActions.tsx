import { createClient } from "@connectrpc/connect";
import { Lock, LockOpen } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Literal } from "@/components/Literal";
import { showError } from "@/components/showError";
import { may } from "@/features/session/queries";
import { NodeService, type Node } from "@/gen/deckhand/v1/node_pb";

const nodes = createClient(NodeService, transport);

type Act = "drain" | "undrain" | "lock" | "unlock" | "revoke";

const runningTasks = (n: number) => (n === 0 ? "No tasks are running on it." : `${n} running ${n === 1 ? "task continues" : "tasks continue"}.`);

// NodeActions are what administrators do to a node.
export function NodeActions({ node }: { node: Node }) {
  const session = useSession();
  const refresh = useRefresh(NodeService);
  const [act, setAct] = useState<Act>();
  if (!may(session, "admin") || node.status === "revoked") return null;
  const close = () => setAct(undefined);
  const done = async (text: string, back?: () => Promise<unknown>) => {
    const undo = () => void back?.().then(refresh, showError);
    toast.success(text, { action: back && { label: "Undo", onClick: undo } });
    await refresh();
  };
  const nodeId = node.id;
  const force = node.lock !== undefined && (node.lock.by !== session.userName || node.lock.execId !== "" || node.lock.taskId !== "");
  return (
    <>
      {node.drain ? (
        <Button onClick={() => setAct("undrain")}>Undrain</Button>
      ) : (
        <Button onClick={() => setAct("drain")}>Drain</Button>
      )}
      {node.lock ? (
        <Button onClick={() => setAct("unlock")}>
          <LockOpen aria-hidden className="size-4" /> Unlock
        </Button>
      ) : (
        <Button onClick={() => setAct("lock")}>
          <Lock aria-hidden className="size-4" /> Lock
        </Button>
      )}
      <Button look="danger" onClick={() => setAct("revoke")}>
        Revoke
      </Button>
      <Confirm
        open={act === "drain"}
        onClose={close}
        title={`Drain ${node.name}`}
        action="Drain"
        reason
        run={async (reason) => {
          const { activeTasks } = await nodes.drainNode({ nodeId, reason });
          await done(`${node.name} is drained. ${runningTasks(activeTasks)}`, () => nodes.undrainNode({ nodeId }));
        }}
      >
        <p>No new tasks start on this node. Running tasks continue.</p>
      </Confirm>
      <Confirm
        open={act === "undrain"}
        onClose={close}
        title={`Undrain ${node.name}`}
        action="Undrain"
        run={async () => {
          await nodes.undrainNode({ nodeId });
          await done(`${node.name} accepts tasks again.`, () => nodes.drainNode({ nodeId, reason: node.drain?.reason }));
        }}
      >
        <p>Tasks can start on this node again.</p>
      </Confirm>
      <Confirm
        open={act === "lock"}
        onClose={close}
        title={`Lock ${node.name}`}
        action="Lock"
        reason
        run={async (reason) => {
          const { activeTasks } = await nodes.lockNode({ nodeId, reason: reason || "manual work" });
          await done(`${node.name} is locked by you. ${runningTasks(activeTasks)}`, () => nodes.unlockNode({ nodeId }));
        }}
      >
        <p>Use a lock for manual work on the machine. Until you unlock it, no task starts on it and nobody else can lock it. Everybody who waits for it sees the reason.</p>
      </Confirm>
      <Confirm
        open={act === "unlock"}
        onClose={close}
        title={`Unlock ${node.name}`}
        action={force ? "Force unlock" : "Unlock"}
        danger={force}
        run={async () => {
          await nodes.unlockNode({ nodeId, force });
          await done(`${node.name} is unlocked.`);
        }}
      >
        {force ? (
          <p>
            {node.lock?.by} holds the lock{node.lock?.execId && " with a running command or terminal"}{node.lock?.taskId && ", whose running command on the machine is ended"}: <Literal text={node.lock?.reason ?? ""} />. Tasks can start again although that work may not be
            finished.
          </p>
        ) : (
          <p>Tasks can start on this node again.</p>
        )}
      </Confirm>
      <Confirm
        open={act === "revoke"}
        onClose={close}
        title={`Revoke ${node.name}`}
        action="Revoke"
        typed={node.name}
        danger
        run={async () => {
          await nodes.revokeNode({ nodeId });
          await done(`${node.name} is revoked.`);
        }}
      >
        <p>The node is disconnected at once and its certificate becomes invalid. Running commands stop after the offline grace period. To use the machine again, enrol it again.</p>
      </Confirm>
    </>
  );
}
