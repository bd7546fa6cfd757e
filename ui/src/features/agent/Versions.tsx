import { useQuery } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { toast } from "sonner";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Literal, LiteralBlock } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { AgentService, type Agent } from "@/gen/deckhand/v1/agent_pb";
import { agents } from "./AgentHold";

// newest is how many versions are listed.
const newest = 50;

// Versions lists the versions of an agent's persona, shows what each changed, and applies
// an older one again.
export function Versions({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const { data, error, isPending } = useQuery(AgentService.method.listAgentVersions, { agentId: agent.id, pageSize: newest });
  const [shown, setShown] = useState(agent.version);
  return (
    <Dialog open onClose={onClose} title={`Versions of ${agent.name}`}>
      {isPending && <Skeletons rows={4} />}
      {error && <Problem error={error} />}
      <ul className="max-h-48 divide-y overflow-y-auto">
        {data?.versions.map((v) => (
          <li key={v.version} className="flex items-center gap-2 py-1.5 text-sm">
            <Button small look="quiet" aria-pressed={shown === v.version} onClick={() => setShown(v.version)}>
              Version {v.version}
            </Button>
            <span className="min-w-0 flex-1 truncate"><Literal text={v.change} /></span>
            <span className="text-xs text-dim">{v.createdBy}, {v.createdAt && <Time at={v.createdAt} />}</span>
            {agent.mayManage && v.version !== agent.version && <Restore agent={agent} version={v.version} onClose={onClose} />}
          </li>
        ))}
      </ul>
      {data && shown > 1 && <Change agent={agent} version={shown} />}
    </Dialog>
  );
}

function Change({ agent, version }: { agent: Agent; version: number }) {
  const { data, error } = useQuery(AgentService.method.diffAgentVersions, { agentId: agent.id, from: version - 1, to: version });
  if (error) return <Problem error={error} />;
  if (!data) return <Skeletons rows={4} />;
  if (!data.diff) return <p className="text-dim">It is the same as the version before.</p>;
  return <LiteralBlock text={data.diff} label={`Changes of version ${version}`} />;
}

function Restore(props: { agent: Agent; version: number; onClose: () => void }) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const restore = async () => {
    setBusy(true);
    try {
      const { agent } = await agents.restoreAgentVersion({ agentId: props.agent.id, version: props.version });
      toast(`Version ${props.version} is applied again, as version ${agent?.version ?? 0}`);
      await queries.invalidateQueries();
      props.onClose();
    } catch (e) {
      showError(e);
      setBusy(false);
    }
  };
  return (
    <Button small busy={busy} aria-label={`Restore version ${props.version}`} onClick={() => void restore()}>
      Restore
    </Button>
  );
}
