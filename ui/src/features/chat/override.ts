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
  files: string;
  // In MiB.
  fileSize: string;
}

export const asPersona: Choices = { mode: "", provider: "", model: "", dollars: "", iterations: "", files: "", fileSize: "" };

// problemsOf says what is wrong with choices, by field.
export function problemsOf(c: Choices): Partial<Record<keyof Choices, string>> {
  const out: Partial<Record<keyof Choices, string>> = {};
  if (Boolean(c.provider.trim()) !== Boolean(c.model.trim())) out.model = "Set both provider and model, or neither.";
  const micros = parseDollars(c.dollars);
  if (c.dollars.trim() && (micros === undefined || micros === 0n)) out.dollars = "Enter an amount above 0, such as 2.50.";
  const n = Number(c.iterations);
  if (c.iterations.trim() && !(Number.isInteger(n) && n >= 1 && n <= 1000)) out.iterations = "Enter a whole number from 1 to 1000.";
  if (c.files.trim() && !whole(c.files, 1_000_000)) out.files = "Enter a whole number from 1 to 1000000.";
  if (c.fileSize.trim() && !whole(c.fileSize, 1 << 30)) out.fileSize = "Enter a whole number of MiB, such as 500.";
  return out;
}

function whole(text: string, most: number): boolean {
  const n = Number(text);
  return Number.isInteger(n) && n >= 1 && n <= most;
}

// overrideOf is what is sent; undefined where the run is as its persona says.
export function overrideOf(c: Choices): MessageInitShape<typeof TaskOverrideSchema> | undefined {
  const limits = { costMicros: parseDollars(c.dollars) ?? 0n, iterations: Number(c.iterations.trim() || "0") };
  const more = {
    ...(whole(c.files, 1_000_000) ? { files: BigInt(c.files.trim()) } : {}),
    ...(whole(c.fileSize, 1 << 30) ? { fileSizeBytes: BigInt(c.fileSize.trim()) << 20n } : {}),
  };
  const limited = limits.costMicros > 0n || limits.iterations > 0 || Object.keys(more).length > 0;
  if (!c.mode && !c.provider.trim() && !limited) return undefined;
  return { mode: c.mode, provider: c.provider.trim(), model: c.model.trim(), ...(limited ? { limits: { ...limits, ...more } } : {}) };
}
