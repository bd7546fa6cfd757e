import { useQuery } from "@connectrpc/connect-query";
import { useMemo, useState, type ReactNode } from "react";
import { safeLink } from "@/components/link";
import { Literal } from "@/components/Literal";
import { argumentsOf, type ActObject, type ActValue } from "@/components/marks";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { useProgress } from "@/components/reading";
import { Skeletons } from "@/components/Skeleton";
import { LogView } from "@/features/log/LogView";
import { logOf } from "@/features/log/source";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { actText, Arguments } from "./Arguments";
import type { Call } from "./thread";

// A Title says in a line what a call is about. The arguments that it reads are in
// fields.json, which the tools' schemas are compared with.
type Title = (args: ActObject) => ReactNode;

const mono = (text: string) => <Literal className="font-mono break-all" text={text} />;

const path: Title = (args) => mono(actText(args.path) ?? "");
const url: Title = (args) => {
  const raw = actText(args.url) ?? "";
  const link = safeLink(raw);
  return link ? (
    <a href={link} target="_blank" rel="noopener noreferrer" className="underline">
      {mono(raw)}
    </a>
  ) : (
    mono(raw)
  );
};

const longest = 200;

const command: Title = (args) => {
  const text = actText(args.command) ?? "";
  const first = text.split("\n", 1)[0]!.slice(0, longest);
  return (
    <code className="font-mono">
      $ {mono(first)}
      {first.length < text.length && " …"}
    </code>
  );
};

// given says to whom work goes, and what for.
const given = (to: ActValue, goal: ActValue) => (
  <>
    {actText(to) && <>to {mono(actText(to)!)}: </>}
    <Literal text={(actText(goal) ?? "").slice(0, longest)} />
  </>
);

// onPage says what is done on a page, and to what of it.
const onPage = (what: string, where: ActValue) => (
  <>
    {what}
    {actText(where) && <>: {mono(actText(where)!.slice(0, longest))}</>}
  </>
);

export const titles: Record<string, Title> = {
  shell_exec: command,
  host_exec: command,
  host_read: path,
  host_write: path,
  node_exec_many: command,
  node_lock: (args) => (
    <>
      {mono(actText(args.node) ?? "")}: <Literal text={(actText(args.reason) ?? "").slice(0, longest)} />
    </>
  ),
  node_unlock: () => "Release the lock",
  node_list: () => "List the nodes",
  service_status: (args) => mono(actText(args.unit) ?? ""),
  journal_read: (args) => mono(actText(args.unit) ?? ""),
  terminal_open: command,
  terminal_write: (args) => mono([actText(args.text) ?? "", ...(Array.isArray(args.keys) ? args.keys.map((k) => `[${actText(k) ?? ""}]`) : [])].join("").slice(0, longest)),
  file_write: path,
  file_append: path,
  file_edit: path,
  file_read: path,
  file_list: path,
  file_delete: path,
  apply_patch: (args) => mono([...(actText(args.input) ?? "").matchAll(/^\*\*\* (?:Add|Update|Delete) File: (.*)$/gm)].map((m) => m[1]!).join(", ").slice(0, longest)),
  glob: (args) => mono(actText(args.pattern) ?? ""),
  file_search: (args) => mono(actText(args.pattern) ?? ""),
  file_move: (args) => (
    <>
      {mono(actText(args.from) ?? "")} → {mono(actText(args.to) ?? "")}
    </>
  ),
  http_get: url,
  http_post: url,
  http_put: url,
  http_delete: url,
  http_download: (args) => (
    <>
      {url(args)} → {path(args)}
    </>
  ),
  browser_navigate: (args) => (args.url === undefined ? <>Go: {actText(args.history) ?? ""}</> : url(args)),
  browser_snapshot: (args) => onPage("The page", args.target),
  browser_click: (args) => onPage("Click", args.target),
  browser_type: (args) => onPage("Type into", args.target),
  browser_select: (args) => onPage("Choose in", args.target),
  browser_press: (args) => mono(actText(args.key) ?? ""),
  browser_scroll: (args) => onPage("Scroll", args.target ?? args.direction),
  browser_extract: (args) => onPage("Read", args.target ?? args.selector),
  browser_screenshot: (args) => onPage("Picture", args.target),
  browser_wait: (args) => onPage("Wait", args.text ?? args.text_gone ?? args.selector ?? args.url_contains),
  browser_execute_js: (args) => mono((actText(args.expression) ?? "").slice(0, longest)),
  browser_dialog: (args) => <>{actText(args.action) ?? ""}</>,
  browser_hover: (args) => onPage("Hover", args.target),
  browser_tabs: (args) => onPage(actText(args.action) ?? "list", args.tab ?? args.url),
  browser_console: () => "Console messages",
  browser_network: () => "Network requests",
  browser_upload: (args) => onPage("Upload to", args.target),
  git_push: (args) => (
    <>
      {mono(actText(args.ref) ?? "")} → {mono(actText(args.remote) ?? "origin")}
    </>
  ),
  pull_request_open: (args) => (
    <>
      {mono(actText(args.repository) ?? "")}: {mono(actText(args.head) ?? "")} → {mono(actText(args.base) ?? "")}
    </>
  ),
  pull_request_comment: (args) => mono(`${actText(args.repository) ?? ""} #${typeof args.number === "number" ? args.number : ""}`),
  send_email: (args) => <Literal text={actText(args.subject) ?? ""} />,
  send_notification: (args) => <Literal text={actText(args.title) ?? ""} />,
  webhook_trigger: (args) => (
    <>
      {mono(actText(args.event) ?? "")} → {mono(actText(args.destination) ?? "")}
    </>
  ),
  memory_forget: (args) => <Literal text={(actText(args.key) ?? "").slice(0, longest)} />,
  memory_retrieve: (args) => <Literal text={(actText(args.query) ?? "").slice(0, longest)} />,
  memory_store: (args) => (
    <>
      <Literal text={(actText(args.key) ?? "").slice(0, longest)} />
      {actText(args.scope) && <> for the {actText(args.scope)}</>}
    </>
  ),
  rag_index: path,
  rag_query: (args) => <Literal text={(actText(args.query) ?? "").slice(0, longest)} />,
  request_input: (args) => <Literal text={actText(args.question) ?? ""} />,
  delegate: (args) => given(args.agent, args.goal),
  create_subtask: (args) => given(undefined, args.goal),
  handoff_to_agent: (args) => given(args.target_agent, args.summary_for_target),
  complete_task: () => "Done",
  update_plan: () => "Plan",
  manage_scratchpad: (args) => (args.append === undefined ? "Read the scratchpad" : "Add to the scratchpad"),
};

// titleOf returns the title of a call, shown beside its tool's name.
export const titleOf = (call: Call): ReactNode => titleFor(call.tool, call.args);

// titleFor returns what a call of a tool with some arguments is about. For a tool
// that is not known it is the first text among them.
export function titleFor(tool: string, args: ActObject): ReactNode {
  const known = titles[tool];
  if (known) return known(args);
  const text = Object.values(args).map(actText).find((t) => t !== undefined && t !== "");
  return text === undefined ? "" : mono(text.split("\n", 1)[0]!.slice(0, longest));
}

// Events have the beginnings of long arguments only.
const brief = / \[\.\.\. \d+ bytes in all\]$/;

// CallArguments shows all arguments of a call on request.
export function CallArguments(props: { call: Call; taskId: string }) {
  const { call } = props;
  const [open, setOpen] = useState(false);
  if (Object.keys(call.args).length === 0) return null;
  const cut = Object.values(call.args).some((v) => typeof v === "string" && brief.test(v));
  return (
    <>
      <button type="button" aria-expanded={open} className="min-h-6 text-xs text-accent hover:underline" onClick={() => setOpen(!open)}>
        {`${open ? "Hide" : "Show"} ${call.tool === "shell_exec" || call.tool === "host_exec" ? "command" : "arguments"}`}
      </button>
      {open && (cut ? <StepArguments taskId={props.taskId} stepId={call.stepId} /> : <Arguments of={call.args} />)}
    </>
  );
}

// StepArguments shows all arguments of a step as the hub has them: those that a
// person changed, where one did.
export function StepArguments(props: { taskId: string; stepId: string }) {
  const { data, error, isPending, refetch } = useQuery(TaskService.method.listSteps, { taskId: props.taskId, stepId: props.stepId });
  const step = data?.steps.find((s) => s.id === props.stepId);
  const args = useMemo(() => argumentsOf(step?.changedArguments ?? step?.arguments), [step]);
  useProgress("Arguments", step ? 1 : 0, 1);
  if (isPending) return <Skeletons rows={3} />;
  if (!step) return <Problem error={error ?? new Error("Step not found.")} retry={() => void refetch()} />;
  return <Arguments of={args} />;
}

// Output shows the output of a call's command on request.
export function Output(props: { call: Call }) {
  const { call } = props;
  const [open, setOpen] = useState(call.state === "started");
  const source = useMemo(() => logOf(call.stepId), [call.stepId]);
  if ((call.tool !== "shell_exec" && call.tool !== "host_exec") || (!call.startedAt && call.logBytes === 0)) return null;
  return (
    <div className="space-y-1">
      <button type="button" aria-expanded={open} className="min-h-6 text-xs text-accent hover:underline" onClick={() => setOpen(!open)}>
        {open ? "Hide output" : `Show output${call.logBytes > 0 ? ` (${bytes(call.logBytes)})` : ""}`}
      </button>
      {open && <LogView source={source} name={`${call.stepId}.log`} label={`Output of step ${call.number}`} className="h-56" />}
    </div>
  );
}
