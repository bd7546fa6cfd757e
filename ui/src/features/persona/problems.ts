import { problemOf } from "@/api/error";

// Remark is one thing that is wrong with a persona.
export type Remark = {
  // From 1; 0 when it is of no line.
  line: number;
  message: string;
};

// remarksOf reads what the hub said of a persona: lines of file:line: message,
// and others, of which the fix is shown with the first.
export function remarksOf(error: unknown, filename: string): Remark[] {
  const { message, fix } = problemOf(error);
  const remarks = message
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line): Remark => {
      const rest = line.startsWith(`${filename}:`) ? line.slice(filename.length + 1) : line;
      const match = /^(\d+): ?(.*)$/.exec(rest);
      return match ? { line: Number(match[1]), message: match[2]! } : { line: 0, message: rest.trim() };
    });
  if (fix && remarks[0]) remarks[0] = { ...remarks[0], message: `${remarks[0].message}: ${fix}` };
  return remarks;
}
