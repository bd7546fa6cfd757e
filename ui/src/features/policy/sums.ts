import { effectWord } from "./effect";

type Changed = { was?: { effect: string } | undefined; wouldBe?: { effect: string } | undefined };

// sums says how many decisions go from what to what: "3 asks → allowed".
export function sums(changed: Changed[]): string {
  const counts = new Map<string, number>();
  for (const c of changed) {
    const key = `${effectWord(c.was?.effect ?? "")} → ${effectWord(c.wouldBe?.effect ?? "")}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].map(([key, n]) => `${n} ${key}`).join(", ");
}
