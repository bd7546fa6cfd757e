import { useState } from "react";
import { toast } from "sonner";
import { Button } from "@/components/Button";
import { Code } from "@/components/Code";
import { Literal, LiteralBlock } from "@/components/Literal";
import type { ActObject } from "@/components/marks";
import { actText, Arguments } from "@/features/task/Arguments";
import type { CallDecision } from "@/gen/deckhand/v1/inbox_pb";

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
