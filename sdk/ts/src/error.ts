import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "./gen/deckhand/error/v1/error_pb.js";
import type { ErrorCode } from "./gen/errors.js";

/** RpcCode is the code of the RPC, which says what kind of error it is. Every error has one. */
export type RpcCode =
  | "canceled"
  | "unknown"
  | "invalid_argument"
  | "deadline_exceeded"
  | "not_found"
  | "already_exists"
  | "permission_denied"
  | "resource_exhausted"
  | "failed_precondition"
  | "aborted"
  | "out_of_range"
  | "unimplemented"
  | "internal"
  | "unavailable"
  | "data_loss"
  | "unauthenticated";

/** Action is the place where a person can correct what an error is about. */
export type Action = {
  /** A verb and its object, for a button. */
  label: string;
  /** The page of the console, from its root. */
  path: string;
  /** The command that does the same. */
  command: string;
};

type Fields = {
  code?: string;
  fix?: string;
  objectId?: string;
  action?: Action;
  retryAfterMs?: number;
  detailed?: boolean;
  cause?: unknown;
};

/** DeckhandError is what calls are rejected with, but for those that their caller aborts. */
export class DeckhandError extends Error {
  override readonly name = "DeckhandError";
  /**
   * A stable code, such as "AGENT_010"; undefined if the RPC's code says everything. See
   * ErrorCode.
   */
  readonly code: ErrorCode | undefined;
  /** What to do; empty if nothing is known. */
  readonly fix: string;
  /** The object at fault; empty if none is named. */
  readonly objectId: string;
  readonly action: Action | undefined;
  /** When to call again, in milliseconds; undefined if the hub does not say. */
  readonly retryAfterMs: number | undefined;
  /** The hub itself reported the error, and not something on the way to it. */
  readonly fromHub: boolean;

  constructor(
    readonly rpcCode: RpcCode,
    message: string,
    fields: Fields = {},
  ) {
    super(message, { cause: fields.cause });
    // The hub's codes are those of the table, or of a later version.
    this.code = (fields.code || undefined) as ErrorCode | undefined;
    this.fix = fields.fix ?? "";
    this.objectId = fields.objectId ?? "";
    this.action = fields.action;
    this.retryAfterMs = fields.retryAfterMs;
    this.fromHub = fields.detailed ?? false;
  }

  /** from returns an error of any kind as a DeckhandError. */
  static from(error: unknown): DeckhandError {
    if (error instanceof DeckhandError) return error;
    const e = ConnectError.from(error);
    const [info] = e.findDetails(ErrorInfoSchema);
    // A hub that cannot be reached is a failure of fetch, which names no code: a TypeError.
    const unreachable = error instanceof ConnectError && e.code === Code.Unknown && !info && e.cause instanceof TypeError;
    return new DeckhandError(unreachable ? "unavailable" : nameOf(e.code), info?.message || e.rawMessage, {
      code: info?.code,
      fix: info?.fix,
      objectId: info?.objectId,
      action: info?.action && { label: info.action.label, path: info.action.path, command: info.action.command },
      retryAfterMs: secondsOf(e.metadata.get("retry-after")),
      detailed: info !== undefined,
      cause: error,
    });
  }
}

function nameOf(code: Code): RpcCode {
  return Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase() as RpcCode;
}

// secondsOf reads Retry-After: seconds, or a date. It returns milliseconds.
function secondsOf(header: string | null): number | undefined {
  if (!header) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/**
 * isError reports whether an error is one of these: stable codes such as
 * ErrorCode.BudgetLimit, or codes of the RPC such as "not_found".
 */
export function isError(error: unknown, ...codes: (ErrorCode | RpcCode)[]): error is DeckhandError {
  return error instanceof DeckhandError && (codes.includes(error.rpcCode) || (error.code !== undefined && codes.includes(error.code)));
}
