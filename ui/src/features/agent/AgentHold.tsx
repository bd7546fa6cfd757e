import { createClient } from "@connectrpc/connect";
import { useQueryClient } from "@tanstack/react-query";
import { Pause, Play } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { showError } from "@/components/showError";
import { may } from "@/features/session/queries";
import { AgentService, AgentStatus, type Agent } from "@/gen/deckhand/v1/agent_pb";

export const agents = createClient(AgentService, transport);

// AgentHold is the button that pauses or resumes the scheduling of an agent.
export function AgentHold({ agent, small }: { agent: Agent; small?: boolean }) {
  const queries = useQueryClient();
  const session = useSession();
  const [busy, setBusy] = useState(false);
  if (!may(session, "advanced")) return null;
  const held = agent.status === AgentStatus.PAUSED || agent.status === AgentStatus.ERROR_SUSPENDED;
  const run = async (hold: boolean) => {
    setBusy(true);
    try {
      if (hold) await agents.pauseAgent({ agentId: agent.id });
      else await agents.resumeAgent({ agentId: agent.id });
      toast(hold ? `${agent.name} is paused: new tasks will queue` : `${agent.name} is running tasks again`, {
        action: { label: "Undo", onClick: () => void run(!hold) },
      });
      await queries.invalidateQueries();
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  const label = held ? "Resume scheduling" : "Pause scheduling";
  return (
    <Button small={small} busy={busy} aria-label={`${label} of ${agent.name}`} title={label} onClick={() => void run(!held)}>
      {held ? <Play aria-hidden className="size-4" /> : <Pause aria-hidden className="size-4" />}
      {!small && label}
    </Button>
  );
}
