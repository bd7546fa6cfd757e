import { DeckhandError } from "@deckhand/sdk";

// Problem is an error as a person is shown it.
export type Problem = {
  // Stable, for example "AGENT_010"; the name of the RPC code where there is
  // none.
  code: string;
  message: string;
  // What to do; empty where nobody knows.
  fix: string;
  // The hub was not reached: trying again may help.
  unreachable: boolean;
  // Where a person can do something about it.
  action?: { label: string; path: string };
};

// problemOf reads an error of any kind.
export function problemOf(error: unknown): Problem {
  const e = DeckhandError.from(error);
  const unreachable = e.rpcCode === "unavailable";
  return {
    code: e.code ?? e.rpcCode.toUpperCase(),
    message: unreachable && !e.fromHub ? "The hub cannot be reached." : e.message,
    fix:
      e.fix ||
      (unreachable ? "Retrying automatically. If this goes on, run `deckhand doctor` on the hub's machine: it says what is wrong and how to start the hub." : ""),
    unreachable,
    action: e.action,
  };
}

// failedInside says that the hub failed at something that a second try may not meet, such as a
// connection to its database that ended.
export function failedInside(error: unknown): boolean {
  return DeckhandError.from(error).rpcCode === "internal";
}

// lostSession says that an error means: log in again.
export function lostSession(error: unknown): boolean {
  return DeckhandError.from(error).rpcCode === "unauthenticated";
}
