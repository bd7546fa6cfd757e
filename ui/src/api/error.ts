import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "@/gen/deckhand/v1/error_pb";

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
  const e = ConnectError.from(error);
  const info = e.findDetails(ErrorInfoSchema)[0];
  const unreachable =
    e.code === Code.Unavailable || (e.code === Code.Unknown && !info && /fetch|network/i.test(e.rawMessage));
  return {
    code: info?.code || Code[e.code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase(),
    message: info?.message || (unreachable ? "The hub cannot be reached." : e.rawMessage),
    fix:
      info?.fix ||
      (unreachable ? "Retrying automatically. If this goes on, run `deckhand doctor` on the hub's machine: it says what is wrong and how to start the hub." : ""),
    unreachable,
    action: info?.action ? { label: info.action.label, path: info.action.path } : undefined,
  };
}

// failedInside says that the hub failed at something that a second try may not meet, such as a
// connection to its database that ended.
export function failedInside(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.Internal;
}

// lostSession says that an error means: log in again.
export function lostSession(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.Unauthenticated;
}
