import type { LiveEvent } from "@/live/event";

// Cost is what some calls of models used: tokens, and millionths of a US dollar.
export type Cost = { name: string; input: number; cached: number; output: number; micros: number };

const number = (v: unknown) => Number(v ?? 0) || 0;

// How many turns are listed by themselves.
const mostTurns = 300;

// dearest leaves of many turns those that cost most, and joins the others.
function dearest(turns: Cost[]): Cost[] {
  if (turns.length <= mostTurns) return turns;
  const sorted = [...turns].sort((a, b) => b.micros - a.micros);
  const rest = sorted.slice(mostTurns).reduce((sum, c) => ({
    ...sum, input: sum.input + c.input, cached: sum.cached + c.cached, output: sum.output + c.output, micros: sum.micros + c.micros,
  }));
  const kept = new Set(sorted.slice(0, mostTurns));
  return [...turns.filter((t) => kept.has(t)), { ...rest, name: `${turns.length - mostTurns} other turns` }];
}

// costsOf sums up the turns of a task by model and one by one. What its total has
// besides, such as the price of summaries, is a line of its own: each list sums up to
// the total.
export function costsOf(events: readonly LiveEvent[], total: number): { models: Cost[]; turns: Cost[] } {
  const models = new Map<string, Cost>();
  const turns = new Map<string, Cost>();
  let model = "";
  let turn = 0;
  let known = 0;
  const add = (to: Map<string, Cost>, name: string, usage: Record<string, unknown>) => {
    const c = to.get(name) ?? { name, input: 0, cached: 0, output: 0, micros: 0 };
    to.set(name, {
      name,
      input: c.input + number(usage.input_tokens),
      cached: c.cached + number(usage.cache_read_tokens),
      output: c.output + number(usage.output_tokens),
      micros: c.micros + number(usage.cost_micros),
    });
  };
  for (const e of events) {
    if (e.type === "thinking") {
      model = [e.payload.provider, e.payload.model].filter(Boolean).join(" ");
      turn = number(e.payload.turn);
    }
    if (e.type !== "iteration_complete") continue;
    const usage = (e.payload.usage ?? {}) as Record<string, unknown>;
    add(models, model || "unknown", usage);
    add(turns, `${turn || number(e.payload.iteration)}`, usage);
    known += number(usage.cost_micros);
  }
  const lists = { models: [...models.values()], turns: dearest([...turns.values()]) };
  if (total !== known) {
    const rest: Cost = { name: "Other calls, such as summaries", input: 0, cached: 0, output: 0, micros: total - known };
    lists.models.push(rest);
    lists.turns.push(rest);
  }
  return lists;
}
