import { useMemo } from "react";
import { Code } from "@/components/Code";
import { Literal } from "@/components/Literal";
import { argumentsOf, type ActObject } from "@/components/marks";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { useProgress } from "@/components/reading";
import { actText, Arguments } from "@/features/task/Arguments";
import type { CallDecision, InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import type { WholeArguments } from "./arguments";
import { FileCall, fileTools } from "./FileCall";
import { dangersByLine } from "./Parts";
import { Request } from "./Request";

// Thing shows the call itself, whole and literal, as soon as its arguments are loaded.
export function Thing(props: { item: InboxItem; whole: WholeArguments }) {
  const { item, whole } = props;
  useProgress("Arguments", whole.args ? 1 : 0, 1);
  if (whole.args) return <Call item={item} args={whole.args} of={whole.decision} />;
  if (whole.error !== undefined) return <Problem error={whole.error} retry={whole.retry} />;
  return (
    <p role="status" className="text-dim">
      Reading the arguments: {bytes(whole.readBytes)} of {bytes(whole.sizeBytes)}
    </p>
  );
}

// inspected are the tools of which the hub looks up what a call would do: their
// arguments do not say it.
const inspected: Record<string, string> = { git_push: "commits_and_diff", send_email: "as_it_is_sent", node_exec_many: "on_these_nodes" };

// Call shows what a call would do: all of its arguments, in the form that fits its
// tool.
export function Call(props: { item: InboxItem; args: ActObject; of: CallDecision | undefined }) {
  const { item, args, of } = props;
  const dangers = useMemo(() => dangersByLine(of), [of]);
  const command = actText(args.command);
  if (command !== undefined && (item.tool === "shell_exec" || item.tool === "terminal_open" || item.tool === "host_exec"))
    return (
      <>
        <Code text={command} label="Command" language="shell" dangers={dangers} />
        <Arguments of={args} without={["command"]} />
      </>
    );
  if (fileTools.has(item.tool)) return <FileCall item={item} args={args} />;
  if (actText(args.url) !== undefined && item.tool.startsWith("http_")) return <Request args={args} of={of} />;
  const looked = inspected[item.tool];
  if (looked !== undefined)
    return (
      <>
        <Arguments of={args} />
        <Arguments of={argumentsOf({ [looked]: item.preview })} />
      </>
    );
  if (Object.keys(args).length === 0)
    return (
      <p className="text-dim">
        The call has no arguments. <Literal text={item.tool} /> decides by itself what it does.
      </p>
    );
  return <Arguments of={args} dangers={dangers} />;
}
