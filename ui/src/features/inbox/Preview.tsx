import { Code as RpcCode, ConnectError } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { lazy, Suspense, useMemo } from "react";
import { Literal } from "@/components/Literal";
import { argumentsOf, line, type ActObject } from "@/components/marks";
import { Skeletons } from "@/components/Skeleton";
import { useProgress } from "@/components/reading";
import { actText, Arguments } from "@/features/task/Arguments";
import { FileService } from "@/gen/deckhand/v1/file_pb";
import { InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { after, changing } from "./change";
import { dangersByLine } from "./Decision";

const Comparison = lazy(() => import("@/components/Comparison").then((m) => ({ default: m.Comparison })));

// readable is the largest file that is compared, in bytes.
const readable = 512 * 1024;

// inspected are the tools of which the hub looks up what a call would do: their arguments
// do not say it.
const inspected = new Set(["git_push"]);

// Preview shows what a call would do: all of its arguments, of a change of a file
// also the file as it is compared with what would become of it, and of a push the
// commits and their diff.
export function Preview(props: { item: InboxItem; args: ActObject }) {
  const { item, args } = props;
  const dangers = useMemo(() => dangersByLine(item.decision), [item.decision]);
  const path = actText(args.path);
  if (changing.has(item.tool) && item.state === InboxState.OPEN && path) return <FileChange item={item} args={args} path={path} />;
  if (inspected.has(item.tool))
    return (
      <>
        <Arguments of={args} />
        <Arguments of={argumentsOf({ commits_and_diff: item.preview })} />
      </>
    );
  return <Arguments of={args} dangers={dangers} />;
}

// FileChange compares a file with what would become of it. What cannot be
// compared, such as a binary file or an edit that does not fit, is shown as it
// was asked.
function FileChange(props: { item: InboxItem; args: ActObject; path: string }) {
  const { item, args, path } = props;
  const { data, error, isPending } = useQuery(
    FileService.method.readFile,
    { workspace: { case: "taskId", value: item.taskId }, path, limit: BigInt(readable) },
    // It is read once: what is compared does not change under the reader.
    { retry: false, gcTime: 0, enabled: (q) => q.state.data === undefined && !q.state.error },
  );
  const made = useMemo(() => {
    const fresh = error instanceof ConnectError && error.code === RpcCode.NotFound;
    const before = fresh ? "" : data && Number(data.size) <= readable ? decode(data.content) : undefined;
    const content = before === undefined ? undefined : after(item.tool, args, before);
    return before === undefined || content === undefined ? undefined : { fresh, before, content };
  }, [data, error, item.tool, args]);
  useProgress("the file", isPending ? 0 : 1, 1);
  if (isPending) return <Skeletons rows={3} />;
  if (!made) return <Arguments of={args} />;
  return (
    <div className="space-y-2">
      <p className="text-xs text-dim">
        {made.fresh ? "Creates" : "Changes"} <Literal className="font-mono break-all" text={path} />
      </p>
      <Suspense fallback={<Loading />}>
        <Comparison before={made.before} after={made.content} label={line(`Proposed change to ${path}`)} />
      </Suspense>
      <Arguments of={args} without={["path", "content", "old_string", "new_string"]} />
    </div>
  );
}

function Loading() {
  useProgress("the comparison", 0, 1);
  return <Skeletons rows={3} />;
}

// decode returns the text of a file; undefined where it is none, so that what is
// compared is the file itself.
function decode(content: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
    return text.includes("\u0000") ? undefined : text;
  } catch {
    return undefined;
  }
}
