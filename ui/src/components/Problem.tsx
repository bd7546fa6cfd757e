import { Link } from "@tanstack/react-router";
import { CircleAlert, RotateCw } from "lucide-react";
import { problemOf } from "@/api/error";
import { Button } from "./Button";
import { Id } from "./Id";
import { Literal } from "./Literal";
import { Place } from "./Place";

// unconnected returns the provider that an error asks to connect.
const unconnected = (error: unknown) => /\bprovider ([a-z0-9._-]{1,60}) is not connected\b/.exec(problemOf(error).message)?.[1];

// Problem shows an error: what happened, its stable code, and what to do.
export function Problem(props: { error: unknown; retry?: () => void; compact?: boolean }) {
  const { code, message, fix, action } = problemOf(props.error);
  const remedy = unconnected(props.error);
  return (
    <div role="alert" className="flex items-start gap-3 rounded-md border border-bad bg-panel p-3 text-sm">
      <CircleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-bad" />
      <div className="min-w-0 flex-1 space-y-1">
        <p className="font-medium break-words"><Literal text={message} /></p>
        {fix && <p className="break-words text-dim"><Literal text={fix} /></p>}
        {remedy && (
          <Link to="/providers" search={{ connect: remedy }} className="inline-flex min-h-7 items-center rounded-md border px-2 text-xs font-medium hover:bg-raised">
            Connect {remedy}
          </Link>
        )}
        {!remedy && action && (
          <Place path={action.path} className="inline-flex min-h-7 items-center rounded-md border px-2 text-xs font-medium hover:bg-raised">
            {action.label}
          </Place>
        )}
        <p className="text-xs text-dim">
          Code <Id value={code} whole />
        </p>
      </div>
      {props.retry && (
        <Button small onClick={props.retry}>
          <RotateCw aria-hidden className="size-3.5" /> Try again
        </Button>
      )}
    </div>
  );
}
