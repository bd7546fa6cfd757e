import { Badge, type Tone } from "@/components/Badge";
import { Empty } from "@/components/Empty";
import { Literal } from "@/components/Literal";
import type { Plan, PlanItem } from "./thread";

const tones: Record<string, Tone> = { done: "good", completed: "good", in_progress: "accent", failed: "bad", blocked: "warn" };

// PlanTree shows the agent's plan as a tree, with the dependencies of each item.
export function PlanTree(props: { plan: Plan | undefined }) {
  if (!props.plan || props.plan.items.length === 0) return <Empty title="No plan yet">It appears when the agent makes one.</Empty>;
  const { items, criteria, risks } = props.plan;
  const ids = new Set(items.map((i) => i.id));
  const below = (parent: string, depth: number): PlanItem[] =>
    depth > 20 ? [] : items.filter((i) => (ids.has(i.parent) ? i.parent : "") === parent);
  const rows = (parent: string, depth: number) => {
    const level = below(parent, depth);
    if (level.length === 0) return null;
    return (
      <ul className={depth > 0 ? "ml-4 border-l pl-3" : ""}>
        {level.map((i) => (
          <li key={i.id} className="py-1">
            <div className="flex items-start gap-2">
              <Badge tone={tones[i.status] ?? "neutral"}>{i.status.replaceAll("_", " ")}</Badge>
              <span className="min-w-0 flex-1 break-words"><Literal text={i.title} /></span>
            </div>
            {i.dependsOn.length > 0 && <p className="text-xs text-dim">after {i.dependsOn.join(", ")}</p>}
            {rows(i.id, depth + 1)}
          </li>
        ))}
      </ul>
    );
  };
  return (
    <div className="space-y-3">
      {rows("", 0)}
      {criteria.length > 0 && <Words title="Success criteria" items={criteria} />}
      {risks.length > 0 && <Words title="Risks" items={risks} />}
    </div>
  );
}

function Words(props: { title: string; items: string[] }) {
  return (
    <div>
      <h3 className="text-xs font-semibold text-dim">{props.title}</h3>
      <ul className="list-inside list-disc">
        {props.items.map((i, n) => (
          <li key={n}><Literal text={i} /></li>
        ))}
      </ul>
    </div>
  );
}
