import type { JsonObject } from "@bufbuild/protobuf";
import { Code as RpcCode, ConnectError } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { lazy, Suspense, type ReactNode } from "react";
import { inert } from "@/components/inert";
import { Skeletons } from "@/components/Skeleton";
import { Code } from "@/features/task/tools";
import { FileService } from "@/gen/deckhand/v1/file_pb";
import { InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { after, changing } from "./change";

const Merge = lazy(() => import("@/features/workspace/Merge").then((m) => ({ default: m.Merge })));

// readable is the largest file that is compared, in bytes.
const readable = 512 * 1024;

const methods: Record<string, string> = { http_get: "GET", http_post: "POST", http_put: "PUT", http_delete: "DELETE", http_download: "GET" };

const string = (v: unknown) => (typeof v === "string" ? v : "");

// Preview shows what a call would do: the file as it is and as it would be, the
// command, or the request. All of it is text.
export function Preview({ item }: { item: InboxItem }) {
  const args = item.arguments ?? {};
  const plain = <Code text={item.preview} label="What would happen" />;
  if ((changing as readonly string[]).includes(item.tool) && item.state === InboxState.OPEN && string(args.path)) {
    return <FileChange item={item} args={args} otherwise={plain} />;
  }
  if (item.tool === "shell_exec" && string(args.command)) {
    return (
      <div className="space-y-1">
        <p className="text-xs text-dim">
          Runs in <span className="font-mono">{inert(string(args.cwd)) || "the workspace"}</span>
        </p>
        <Code text={string(args.command)} label="Command" />
      </div>
    );
  }
  const method = methods[item.tool];
  if (method && string(args.url)) return <Request method={method} args={args} />;
  return plain;
}

// FileChange compares a file with what would become of it.
function FileChange(props: { item: InboxItem; args: JsonObject; otherwise: ReactNode }) {
  const { item, args } = props;
  const path = string(args.path);
  const { data, error, isPending } = useQuery(
    FileService.method.readFile,
    { workspace: { case: "taskId", value: item.taskId }, path, limit: BigInt(readable) },
    { retry: false },
  );
  if (isPending) return <Skeletons rows={3} />;
  const fresh = error instanceof ConnectError && error.code === RpcCode.NotFound;
  const before = fresh ? "" : data && Number(data.size) <= readable ? new TextDecoder().decode(data.content) : undefined;
  const made = before === undefined || before.includes("\u0000") ? undefined : after(item.tool, args, before);
  // A preview that was cut is not what would be written, and neither is a file
  // that cannot be read.
  if (made === undefined) return props.otherwise;
  return (
    <div className="space-y-1">
      <p className="text-xs text-dim">
        {fresh ? "Makes" : "Changes"} <span className="font-mono">{inert(path)}</span>
      </p>
      <Suspense fallback={<Skeletons rows={3} />}>
        <Merge before={before ?? ""} after={made} label={`What would become of ${path}`} />
      </Suspense>
    </div>
  );
}

function Request(props: { method: string; args: JsonObject }) {
  const { args } = props;
  const headers = typeof args.headers === "object" && args.headers !== null && !Array.isArray(args.headers) ? Object.entries(args.headers) : [];
  return (
    <div className="space-y-1">
      <p className="font-mono text-xs break-all">
        <strong>{props.method}</strong> {inert(string(args.url))}
        {string(args.path) && <> → {inert(string(args.path))}</>}
      </p>
      {headers.length > 0 && <Code text={headers.map(([name, value]) => `${name}: ${string(value)}`).join("\n")} label="Headers" />}
      {string(args.body) && <Code text={string(args.body)} label="Body" />}
    </div>
  );
}
