import { Empty } from "@/components/Empty";
import { Literal } from "@/components/Literal";
import { duration } from "@/components/Time";
import type { Thread } from "./thread";

const phases = ["analyze_context", "update_plan", "think", "select_tool", "execute_action", "observe_result", "iterate"];
const colours = ["bg-dim/50", "bg-info/60", "bg-info", "bg-accent/60", "bg-accent", "bg-good/70", "bg-dim"];

// Timeline shows the time that each iteration spent in each of the seven phases.
export function Timeline(props: { thread: Thread }) {
  const { iterations } = props.thread;
  if (iterations.length === 0) return <Empty title="No finished iterations yet">Each bar shows how long every phase took.</Empty>;
  const total = (p: Record<string, number>) => Object.values(p).reduce((a, b) => a + b, 0);
  const longest = Math.max(...iterations.map((i) => total(i.phases)), 1);
  return (
    <div className="space-y-3">
      <ul aria-label="Phases" className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-dim">
        {phases.map((p, i) => (
          <li key={p} className="flex items-center gap-1.5">
            <span aria-hidden className={`size-2.5 rounded-sm ${colours[i]}`} />
            {p.replaceAll("_", " ")}
          </li>
        ))}
      </ul>
      <ol className="space-y-2">
        {iterations.slice(-200).map((i) => (
          <li key={`${i.iteration} ${i.at}`} className="grid grid-cols-[3rem_1fr_6rem] items-center gap-3">
            <span className="text-right text-dim">{i.iteration}</span>
            <div>
              <div
                className="flex h-3 overflow-hidden rounded"
                style={{ width: `${Math.max((100 * total(i.phases)) / longest, 1)}%` }}
                role="img"
                aria-label={phases.map((p) => `${p.replaceAll("_", " ")} ${duration(i.phases[p] ?? 0)}`).join(", ")}
              >
                {phases.map((p, n) => (
                  <span
                    key={p}
                    title={`${p.replaceAll("_", " ")}: ${duration(i.phases[p] ?? 0)}`}
                    className={colours[n]}
                    style={{ flexGrow: i.phases[p] ?? 0 }}
                  />
                ))}
              </div>
              {i.happened && <p className="text-xs break-words text-dim"><Literal text={i.happened} /></p>}
            </div>
            <span className="text-right text-xs text-dim">{duration(total(i.phases))}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}
