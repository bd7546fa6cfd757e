import type { MessageInitShape } from "@bufbuild/protobuf";
import { parseDollars } from "@/features/budget/limit";
import type { TaskOverrideSchema } from "@/gen/deckhand/v1/task_pb";

// Choices are what a person gives one run in the place of what its persona says.
export interface Choices {
  mode: string;
  provider: string;
  model: string;
  dollars: string;
  iterations: string;
}

export const asPersona: Choices = { mode: "", provider: "", model: "", dollars: "", iterations: "" };

// problemsOf says what is wrong with choices, by field.
export function problemsOf(c: Choices): Partial<Record<keyof Choices, string>> {
  const out: Partial<Record<keyof Choices, string>> = {};
  if (Boolean(c.provider.trim()) !== Boolean(c.model.trim())) out.model = "Set both provider and model, or neither.";
  const micros = parseDollars(c.dollars);
  if (c.dollars.trim() && (micros === undefined || micros === 0n)) out.dollars = "Enter an amount above 0, such as 2.50.";
  const n = Number(c.iterations);
  if (c.iterations.trim() && !(Number.isInteger(n) && n >= 1 && n <= 1000)) out.iterations = "Enter a whole number from 1 to 1000.";
  return out;
}

// overrideOf is what is sent; undefined where the run is as its persona says.
export function overrideOf(c: Choices): MessageInitShape<typeof TaskOverrideSchema> | undefined {
  const limits = { costMicros: parseDollars(c.dollars) ?? 0n, iterations: Number(c.iterations.trim() || "0") };
  const limited = limits.costMicros > 0n || limits.iterations > 0;
  if (!c.mode && !c.provider.trim() && !limited) return undefined;
  return { mode: c.mode, provider: c.provider.trim(), model: c.model.trim(), ...(limited ? { limits } : {}) };
}
