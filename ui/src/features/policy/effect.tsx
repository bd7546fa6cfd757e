import { Badge, type Tone } from "@/components/Badge";

const tones: Record<string, Tone> = { allow: "good", ask: "warn", deny: "bad", missing: "neutral" };
const words: Record<string, string> = { allow: "allowed", ask: "asks", deny: "denied", missing: "no such tool", "": "up to the persona" };

// effectWord says what a policy decides.
export const effectWord = (effect: string): string => words[effect] ?? effect;

// Effect shows what a policy decides about a call.
export function Effect({ of }: { of: string }) {
  return <Badge tone={tones[of] ?? "neutral"}>{effectWord(of)}</Badge>;
}
