import { useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { Hand, WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { Button } from "@/components/Button";
import { Literal } from "@/components/Literal";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { ReleaseHold } from "@/features/setting/ReleaseHold";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { ControlService, KillScope, type Hold } from "@/gen/deckhand/v1/control_pb";
import { useLiveStatus } from "@/live/context";
import { useSession } from "./session";

// A break that is over so soon is not worth a word, in milliseconds.
const patience = 1_500;

const clock = (at: number) => new Date(at).toLocaleTimeString("en-GB");

// useLost returns since when the hub does not answer; undefined while it does.
export function useLost(): number | undefined {
  const status = useLiveStatus();
  const [since, setSince] = useState<number>();
  const lost = status === "lost";
  useEffect(() => {
    if (!lost) {
      setSince(undefined);
      return undefined;
    }
    const at = Date.now();
    const timer = setTimeout(() => setSince(at), patience);
    return () => clearTimeout(timer);
  }, [lost]);
  return since;
}

// Lost says on every page that the hub is away, and of when the figures are.
export function Lost(props: { since: number }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.round((now - props.since) / 1_000));
  const ago = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
  return (
    <div data-testid="hub-lost" className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-warn bg-panel px-5 py-2 text-warn">
      <WifiOff aria-hidden className="size-4 shrink-0" />
      <p role="status" className="min-w-0 flex-1">
        {/* What counts up is not read out again each second. */}
        <span className="sr-only">Connection to the hub lost. Figures are from {clock(props.since)}. Reconnecting.</span>
        <span aria-hidden>
          Connection to the hub lost {ago} ago. Figures are from {clock(props.since)}. Reconnecting…
        </span>
      </p>
    </div>
  );
}

// Holds says on every page that the organisation, or an agent, is on hold.
export function Holds() {
  const session = useSession();
  const admin = may(session, "admin");
  // No event tells of a hold of a scope without a task.
  const holds = useQuery(ControlService.method.listHolds, { pageSize: 100 }, { refetchInterval: 15_000 });
  const [releasing, setReleasing] = useState<Hold>();
  const standing = holds.data?.holds.filter((h) => !h.releasedAt) ?? [];
  const organisation = standing.find((h) => h.scope === KillScope.ORGANISATION);
  const agents = standing.filter((h) => h.scope === KillScope.AGENT);
  const names = useQuery(AgentService.method.listAgents, { pageSize: 500 }, { enabled: agents.length > 0 });
  const nameOf = (id: string) => names.data?.agents.find((a) => a.id === id)?.name ?? id;
  const shown = organisation ? [organisation] : agents.slice(0, 3);
  if (shown.length === 0) return null;
  return (
    <>
      {shown.map((h) => (
        <div key={h.id} data-testid="held" role="status" className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-bad bg-panel px-5 py-2">
          <Hand aria-hidden className="size-4 shrink-0 text-bad" />
          <p className="min-w-0 flex-1 break-words">
            <strong className="font-semibold text-bad">
              {h.scope === KillScope.ORGANISATION ? "The whole organisation is on hold." : `${nameOf(h.objectId)} is on hold.`}
            </strong>{" "}
            No new task starts. {h.heldBy}, <Time at={h.createdAt} />
            {h.reason ? <>: <Literal text={h.reason} /></> : "."}
          </p>
          {admin ? (
            <Button small aria-label={h.scope === KillScope.ORGANISATION ? "Release the organisation" : `Release ${nameOf(h.objectId)}`} onClick={() => setReleasing(h)}>
              Release
            </Button>
          ) : (
            <span className="text-dim">An administrator can release it.</span>
          )}
        </div>
      ))}
      {!organisation && agents.length > shown.length && (
        <p className="border-b bg-panel px-5 py-1 text-dim">
          {agents.length - shown.length} more agents are on hold.{" "}
          <Link to="/settings/organisation" className="underline">
            Show all
          </Link>
        </p>
      )}
      <ReleaseHold hold={releasing} onClose={() => setReleasing(undefined)} />
    </>
  );
}
