import { useQuery } from "@connectrpc/connect-query";
import { HistoryService } from "@/gen/deckhand/v1/history_pb";
import { Quotas } from "./Quotas";
import { left, likely } from "./words";

// Likely says what a run is going to take by the runs before it, and what is left
// to spend: of an agent's next one, or of a task that is under way. It says
// nothing while the hub does not.
export function Likely(props: { agentId?: string; taskId?: string }) {
  const { data } = useQuery(HistoryService.method.getEstimate, { agentId: props.agentId ?? "", taskId: props.taskId ?? "" });
  const e = data?.estimate;
  if (!e) return null;
  const text = likely(e);
  return (
    <p className="text-xs text-dim" data-testid="estimate">
      {text ? (
        <>
          {text}.
        </>
      ) : (
        <>No estimate yet ({e.basis}).</>
      )}
      {data.budgets.length > 0 && <> Budget left: {data.budgets.map(left).join(", ")}.</>}
      <Quotas of={data.quotas} runsLeft={data.runsLeft} upgradeUrl={data.upgradeUrl} />
    </p>
  );
}
