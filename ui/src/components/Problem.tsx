import { CircleAlert, RotateCw } from "lucide-react";
import { problemOf } from "@/api/error";
import { Button } from "./Button";
import { Id } from "./Id";
import { Literal } from "./Literal";

// Problem shows an error: what happened, its stable code, and what to do.
export function Problem(props: { error: unknown; retry?: () => void; compact?: boolean }) {
  const { code, message, fix } = problemOf(props.error);
  return (
    <div role="alert" className="flex items-start gap-3 rounded-md border border-bad bg-panel p-3 text-sm">
      <CircleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-bad" />
      <div className="min-w-0 flex-1 space-y-1">
        <p className="font-medium break-words"><Literal text={message} /></p>
        {fix && <p className="break-words text-dim"><Literal text={fix} /></p>}
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
