import { useQuery } from "@connectrpc/connect-query";
import { Button } from "@/components/Button";
import { dollars } from "@/components/money";
import { InsightService, type Strategy } from "@/gen/deckhand/v1/insight_pb";

// How many ways to run are shown.
const shown = 3;

// Recommended lists the models and modes with which earlier runs of an agent went best, and lets
// the person choose one of them for the next run. It shows nothing without history.
export function Recommended(props: { agentId: string; chosen?: Strategy; choose: (s: Strategy | undefined) => void }) {
  const { data } = useQuery(InsightService.method.getRecommendation, { agentId: props.agentId }, { retry: false });
  if (!data || data.strategies.length === 0) return null;
  return (
    <div className="space-y-1 text-xs text-dim">
      <h3 className="font-semibold">Earlier runs, the best first</h3>
      <ul className="space-y-1">
        {data.strategies.slice(0, shown).map((s) => {
          // The provider is named where it tells two apart.
          const provided = data.strategies.some((other) => other.model === s.model && other.provider !== s.provider);
          const name = nameOf(s, provided);
          const chosen = props.chosen !== undefined && nameOf(props.chosen, true) === nameOf(s, true);
          return (
            <li key={nameOf(s, true)} className="flex flex-wrap items-center gap-2">
              <span>
                {name}: {String(s.succeeded)} of {String(s.runs)} succeeded, usually {dollars(s.costMicrosP50)} (90 % under {dollars(s.costMicrosP90)}),{" "}
                {s.meanIterations.toFixed(1)} iterations
              </span>
              {s.model !== "" && (
                <Button small aria-pressed={chosen} aria-label={`Use ${name}`} onClick={() => props.choose(chosen ? undefined : s)}>
                  {chosen ? "Used" : "Use"}
                </Button>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function nameOf(s: Strategy, provided: boolean): string {
  const model = provided && s.model !== "" ? `${s.model} (${s.provider})` : s.model || s.provider;
  return `${model}${s.mode ? `, mode ${s.mode}` : ""}`;
}
