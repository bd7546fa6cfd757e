import { useMemo, useState, type ReactNode } from "react";
import { inert, safeLink } from "@/components/inert";
import { LogView, stepLog } from "@/features/log/LogView";
import type { Call } from "./thread";

const string = (v: unknown) => (typeof v === "string" ? v : undefined);

// Code is text as an agent wrote it, in a box of bounded height.
export function Code(props: { text: string; label?: string }) {
  const most = 20_000;
  const text = inert(props.text);
  return (
    <pre
      tabIndex={0}
      aria-label={props.label ?? "Content"}
      className="max-h-72 overflow-auto rounded border bg-raised p-2 font-mono text-xs break-words whitespace-pre-wrap"
    >
      {text.length > most ? `${text.slice(0, most)}\n[… ${text.length - most} more characters]` : text}
    </pre>
  );
}

// A Renderer shows what one tool was asked, in the place of its arguments.
type Renderer = (call: Call) => { title: ReactNode; body?: ReactNode };

const path: Renderer = (c) => ({ title: <span className="font-mono">{inert(string(c.args.path) ?? "")}</span> });
const url: Renderer = (c) => {
  const raw = string(c.args.url) ?? "";
  const link = safeLink(raw);
  const body = c.args.body ?? c.args.json;
  return {
    title: link ? (
      <a href={link} target="_blank" rel="noopener noreferrer" className="font-mono break-all underline">
        {inert(raw)}
      </a>
    ) : (
      <span className="font-mono">{inert(raw)}</span>
    ),
    body: body !== undefined && <Code text={typeof body === "string" ? body : JSON.stringify(body, null, 2)} label="Body" />,
  };
};

const renderers: Record<string, Renderer> = {
  shell_exec: (c) => {
    const commands = Array.isArray(c.args.commands) ? c.args.commands.map(String) : [];
    const command = string(c.args.command) ?? commands.join("\n");
    const first = command.split("\n")[0] ?? "";
    return {
      title: <code className="font-mono">$ {inert(first).slice(0, 200)}</code>,
      body: (command.includes("\n") || first.length > 200) && <Code text={command} label="Command" />,
    };
  },
  file_write: (c) => ({ ...path(c), body: <Code text={string(c.args.content) ?? ""} label="New content" /> }),
  file_append: (c) => ({ ...path(c), body: <Code text={string(c.args.content) ?? ""} label="Added content" /> }),
  file_edit: (c) => ({
    ...path(c),
    body: (
      <div className="grid gap-1">
        {(Array.isArray(c.args.edits) ? c.args.edits : []).map((edit: Record<string, unknown>, i) => (
          <div key={i}>
            <Change sign="-" text={string(edit.old) ?? ""} />
            <Change sign="+" text={string(edit.new) ?? ""} />
          </div>
        ))}
      </div>
    ),
  }),
  file_read: path,
  file_list: path,
  file_delete: path,
  file_move: (c) => ({
    title: (
      <span className="font-mono">
        {inert(string(c.args.from) ?? string(c.args.path) ?? "")} → {inert(string(c.args.to) ?? "")}
      </span>
    ),
  }),
  http_get: url,
  http_post: url,
  http_put: url,
  http_delete: url,
  http_download: url,
  browser_navigate: url,
  complete_task: (c) => ({ title: "Done", body: <Code text={string(c.args.summary) ?? ""} label="Summary" /> }),
  request_input: (c) => ({ title: inert(string(c.args.question) ?? "") }),
  update_plan: () => ({ title: "Its plan" }),
  manage_scratchpad: (c) => ({ title: "Scratchpad", body: c.args.text ? <Code text={String(c.args.text)} /> : undefined }),
};

const generic: Renderer = (c) => ({
  title: "",
  body: Object.keys(c.args).length > 0 && <Code text={JSON.stringify(c.args, null, 2)} label="Arguments" />,
});

function Change(props: { sign: "-" | "+"; text: string }) {
  return (
    <pre
      className={`overflow-x-auto rounded border px-2 py-1 font-mono text-xs ${props.sign === "+" ? "text-good" : "text-bad"}`}
    >
      {inert(props.text)
        .split("\n")
        .slice(0, 200)
        .map((l) => `${props.sign} ${l}`)
        .join("\n")}
    </pre>
  );
}

// describe answers how a call is shown: by its tool's own renderer, or as JSON.
export function describe(call: Call): { title: ReactNode; body?: ReactNode } {
  return (renderers[call.tool] ?? generic)(call);
}

const printing = new Set(["shell_exec", "terminal_open", "node_exec_many", "journal_read"]);

// Output is what a call's command printed, read when somebody wants it.
export function Output(props: { call: Call }) {
  const { call } = props;
  const [open, setOpen] = useState(call.state === "started");
  const chunks = useMemo(() => stepLog(call.stepId), [call.stepId]);
  if (!printing.has(call.tool) || (!call.startedAt && call.logBytes === 0)) return null;
  return (
    <div className="space-y-1">
      <button type="button" aria-expanded={open} className="min-h-6 text-xs text-accent hover:underline" onClick={() => setOpen(!open)}>
        {open ? "Hide output" : `Output${call.logBytes > 0 ? ` (${call.logBytes} bytes)` : ""}`}
      </button>
      {open && <LogView chunks={chunks} name={`${call.stepId}.log`} label={`Output of step ${call.number}`} className="h-56" />}
    </div>
  );
}
