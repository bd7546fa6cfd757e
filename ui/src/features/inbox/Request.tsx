import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { toast } from "sonner";
import { Button } from "@/components/Button";
import { Code } from "@/components/Code";
import { Literal, LiteralBlock } from "@/components/Literal";
import type { ActObject } from "@/components/marks";
import { Time } from "@/components/Time";
import { actText, Arguments } from "@/features/task/Arguments";
import type { CallDecision, InboxContext } from "@/gen/deckhand/v1/inbox_pb";
import { StepState } from "@/gen/deckhand/v1/step_pb";

// Request shows the request that a call sends: first to whom.
export function Request(props: { args: ActObject; of: CallDecision | undefined }) {
  const { args } = props;
  const url = actText(args.url) ?? "";
  const request = props.of?.request;
  const body = actText(args.body);
  const query = queryOf(url);
  const host = request?.host || hostOf(url);
  return (
    <div className="space-y-2">
      <p className="text-lg font-semibold break-all" data-testid="host">
        {request?.method && <span className="text-sm font-normal text-dim">{request.method} </span>}
        <Literal className="font-mono" text={host} />
      </p>
      {request?.asciiHost && (
        <p role="alert" className="text-bad">
          This name is not plain ASCII. It is looked up as <span className="font-mono">{request.asciiHost}</span>.
          {request.mixedLabels.length > 0 && (
            <>
              {" "}
              <Literal className="font-mono" text={request.mixedLabels.join(", ")} /> mixes letters of different scripts, so that it may pass for another name.
            </>
          )}
        </p>
      )}
      {request &&
        (request.refused ? (
          <p role="alert" className="rounded-md border border-warn p-2 text-warn">
            This call will fail: the agent&apos;s egress refuses it (<Literal text={request.refused} />
            ).
            {request.allow && (
              <>
                {" "}
                The persona would allow it with <Literal className="font-mono text-xs" text={request.allow} />
              </>
            )}
          </p>
        ) : (
          <p className="text-xs text-good">The agent&apos;s egress allows this request.</p>
        ))}
      {request && request.credentials.length > 0 && (
        <p>
          The proxy adds {request.credentials.length === 1 ? "the credential" : "the credentials"}{" "}
          {request.credentials.map((name, i) => (
            <span key={name}>
              {i > 0 && ", "}
              <Literal className="font-mono font-semibold" text={name} />
            </span>
          ))}{" "}
          <span className="text-dim">to its headers. The agent does not see the secret.</span>
        </p>
      )}
      <p className="text-xs break-all">
        <Literal className="font-mono" text={url} />
      </p>
      {query.length > 0 && (
        <table aria-label="Query" className="w-full text-left text-xs">
          <thead className="text-dim">
            <tr>
              <th scope="col" className="w-1/3 font-normal">
                Query parameter
              </th>
              <th scope="col" className="font-normal">
                Value
              </th>
            </tr>
          </thead>
          <tbody className="font-mono">
            {query.map(([name, value], i) => (
              <tr key={i} className="align-top">
                <td className="pr-3 break-all">
                  <Literal text={name} />
                </td>
                <td className="break-all">
                  <Literal text={value} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <Arguments of={args} without={["url", "body"]} />
      {body !== undefined && <Body text={body} />}
      <Button small onClick={() => void navigator.clipboard.writeText(curlOf(request?.method ?? "GET", url, args)).then(() => toast("Copied"))}>
        Copy as curl
      </Button>
    </div>
  );
}

// Earlier lists the last requests of the agent to the same host, with what came of them.
export function Earlier({ of, host }: { of: InboxContext; host: string }) {
  if (of.earlierRequests.length === 0) {
    return (
      <p className="break-words">
        First request of this agent to <Literal className="font-mono" text={host} /> in its last 50 tasks.
      </p>
    );
  }
  const more = of.earlierRequestsCount - of.earlierRequests.length;
  return (
    <div className="space-y-1">
      <p className="break-words">
        {of.earlierRequestsCount === 1 ? "1 request" : `${of.earlierRequestsCount} requests`} of this agent to <Literal className="font-mono" text={host} /> in its
        last 50 tasks{more > 0 ? `; the newest ${of.earlierRequests.length}:` : ":"}
      </p>
      <ul aria-label="Earlier requests" className="space-y-0.5 text-xs">
        {of.earlierRequests.map((r) => (
          <li key={r.stepId} className="flex flex-wrap items-baseline gap-x-2">
            <Link
              to="/tasks/$task"
              params={{ task: r.taskId }}
              search={{ tab: "steps", step: r.number }}
              className="min-w-0 break-all text-accent hover:underline"
            >
              <Literal className="font-mono" text={`${r.method} ${r.url}`} />
            </Link>
            <span className={r.state === StepState.SUCCEEDED && r.status < 400 ? "text-good" : r.state === StepState.STARTED ? "text-dim" : "text-warn"}>
              {r.status > 0 ? `HTTP ${r.status}` : r.errorCode || StepState[r.state].toLowerCase()}
            </span>
            <span className="text-dim"><Time at={r.at} /></span>
          </li>
        ))}
      </ul>
    </div>
  );
}

// Body shows a body as it is sent, and JSON in a readable form on request.
function Body({ text }: { text: string }) {
  const [pretty, setPretty] = useState(false);
  const formatted = prettyOf(text);
  return (
    <div className="space-y-1">
      <div className="flex items-center gap-2">
        <span className="text-xs text-dim">Body ({new TextEncoder().encode(text).length} bytes)</span>
        {formatted !== undefined && formatted !== text && (
          <button type="button" aria-pressed={pretty} className="min-h-6 text-xs text-accent hover:underline" onClick={() => setPretty(!pretty)}>
            {pretty ? "Hide formatted JSON" : "Show formatted JSON"}
          </button>
        )}
      </div>
      {pretty && formatted !== undefined && <Code text={formatted} label="Formatted body" language="json" />}
      <LiteralBlock text={text} label="Body" />
    </div>
  );
}

// prettyOf returns JSON with line breaks; undefined for what is no object or list.
export function prettyOf(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : undefined;
  } catch {
    return undefined;
  }
}

// hostOf is the host of a URL as it is written.
const hostOf = (url: string) => /^[a-z]+:\/\/(?:[^/?#@]*@)?([^/?#]*)/i.exec(url)?.[1] ?? url;

// queryOf returns the parameters of a URL's query, decoded.
export function queryOf(url: string): [string, string][] {
  const query = /\?([^#]*)/.exec(url)?.[1];
  return query ? [...new URLSearchParams(query)] : [];
}

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

// curlOf is the request as a command for a shell.
export function curlOf(method: string, url: string, args: ActObject): string {
  const headers = args.headers;
  const parts = ["curl", ...(method === "GET" ? [] : ["-X", method]), quote(url)];
  if (typeof headers === "object" && headers !== null && !Array.isArray(headers)) {
    for (const [name, value] of Object.entries(headers)) parts.push("-H", quote(`${name}: ${actText(value) ?? ""}`));
  }
  const body = actText(args.body);
  if (body !== undefined) parts.push("--data-binary", quote(body));
  return parts.join(" ");
}
