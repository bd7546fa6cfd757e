import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { ChevronDown, ChevronRight, File, Folder } from "lucide-react";
import { useMemo, useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { FileService, type FileInfo } from "@/gen/deckhand/v1/file_pb";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { madeBy } from "./madeby";
import { DownloadFile, FileText, isImage, mostImage, Picture } from "./Preview";
import { Since } from "./Since";
import { Upload } from "./Upload";
import type { Workspace } from "./whose";

const shown = 256 * 1024;

type Node = { name: string; path: string; info?: FileInfo; children: Node[] };

// tree makes a tree of paths: folders first, then by name.
export function tree(infos: Pick<FileInfo, "path" | "type">[]): Node[] {
  const root: Node = { name: "", path: "", children: [] };
  const folders = new Map<string, Node>([["", root]]);
  const folder = (path: string): Node => {
    const known = folders.get(path);
    if (known) return known;
    const at = path.lastIndexOf("/");
    const made: Node = { name: path.slice(at + 1), path, children: [] };
    folders.set(path, made);
    folder(at < 0 ? "" : path.slice(0, at)).children.push(made);
    return made;
  };
  for (const info of infos) {
    if (info.type === "dir") {
      folder(info.path).info = info as FileInfo;
      continue;
    }
    const at = info.path.lastIndexOf("/");
    folder(at < 0 ? "" : info.path.slice(0, at)).children.push({
      name: info.path.slice(at + 1),
      path: info.path,
      info: info as FileInfo,
      children: [],
    });
  }
  const sort = (n: Node) => {
    n.children.sort((a, b) => Number(isFolder(b)) - Number(isFolder(a)) || a.name.localeCompare(b.name));
    n.children.forEach(sort);
  };
  sort(root);
  return root.children;
}

const isFolder = (n: Node) => n.children.length > 0 || n.info?.type === "dir";

// Files shows the tree of a workspace, live, and the content of one file: at first of that
// which it is given.
export function Files(props: { of: Workspace; live: boolean; file?: string }) {
  const taskId = props.of.case === "taskId" ? props.of.value : undefined;
  const [open, setOpen] = useState<string | undefined>(props.file);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const { data, error, isPending, refetch } = useQuery(
    FileService.method.listFiles,
    { workspace: props.of, recursive: true },
    // A command may write for long before its step ends, and a stream of its own
    // would take one of the browser's few connections.
    { retry: false, refetchInterval: props.live ? 3_000 : false },
  );
  const [filter, setFilter] = useState("");
  const nodes = useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    return tree((data?.files ?? []).filter((f) => !wanted || (f.type !== "dir" && f.path.toLowerCase().includes(wanted))));
  }, [data, filter]);
  if (isPending) return <Skeletons rows={5} className="h-6 w-full" />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  const upload = taskId !== undefined && <Upload taskId={taskId} existing={new Set(data.files.map((f) => f.path))} />;
  if (data.files.length === 0)
    return (
      <div className="space-y-3">
        {upload}
        <Empty title="The workspace is empty">Files appear here as the agent writes them.</Empty>
      </div>
    );
  const rows = (level: Node[], depth: number) =>
    level.map((n) => {
      const folder = isFolder(n);
      const shut = closed.has(n.path);
      return (
        <li key={n.path}>
          <button
            type="button"
            aria-expanded={folder ? !shut : undefined}
            aria-current={open === n.path ? "true" : undefined}
            onClick={() => {
              if (!folder) return setOpen(n.path);
              const next = new Set(closed);
              if (!next.delete(n.path)) next.add(n.path);
              setClosed(next);
            }}
            className={cx(
              "flex min-h-6 w-full items-center gap-1.5 rounded pr-2 text-left font-mono text-xs hover:bg-raised",
              open === n.path && "bg-raised",
            )}
            style={{ paddingLeft: 8 + depth * 14 }}
          >
            {folder ? (
              shut ? <ChevronRight aria-hidden className="size-3" /> : <ChevronDown aria-hidden className="size-3" />
            ) : (
              <span className="w-3" />
            )}
            {folder ? <Folder aria-hidden className="size-3.5 text-dim" /> : <File aria-hidden className="size-3.5 text-dim" />}
            <Literal className="min-w-0 flex-1 break-all" text={n.name} />
            {!folder && n.info && <span className="text-dim">{bytes(n.info.size)}</span>}
          </button>
          {folder && !shut && <ul>{rows(n.children, depth + 1)}</ul>}
        </li>
      );
    });
  return (
    <div className="space-y-3">
      {upload}
      {data.files.length > 10 && <Input aria-label="Filter files" placeholder="Filter by name" className="min-h-7 text-xs" value={filter} onChange={(e) => setFilter(e.target.value)} />}
      <ul aria-label="Files of the workspace">{rows(nodes, 0)}</ul>
      {nodes.length === 0 && <p className="text-xs text-dim">No file has that in its name.</p>}
      {data.truncated && <p className="text-xs text-dim">Only the first 10,000 entries are listed.</p>}
      {open && <Viewer key={open} of={props.of} path={open} />}
    </div>
  );
}

function Viewer(props: { of: Workspace; path: string }) {
  const taskId = props.of.case === "taskId" ? props.of.value : "";
  const { data, error, isPending } = useQuery(
    FileService.method.readFile,
    { workspace: props.of, path: props.path, limit: BigInt(isImage(props.path) ? mostImage : shown) },
    { retry: false },
  );
  // Those of the task's steps that changed it, in order.
  const changes = useInfiniteQuery(
    WorkspaceService.method.listChanges,
    { taskId, pageSize: 500, pageToken: "" },
    { ...byToken, retry: false, enabled: taskId !== "" },
  );
  useRest(changes);
  const steps = changes.data?.pages.flatMap((page) => page.steps).filter((s) => s.changes.some((c) => c.path === props.path)) ?? [];
  const [since, setSince] = useState("");
  const from = steps.findIndex((s) => madeBy(s) === since);
  const text = useMemo(() => (data ? new TextDecoder().decode(data.content) : ""), [data]);
  return (
    <section aria-label={line(props.path)} className="space-y-1 border-t pt-3">
      <div className="flex flex-wrap items-center gap-2">
        <h3 className="min-w-0 flex-1 font-mono text-xs break-all">
          <Literal text={props.path} />
        </h3>
        {data && <DownloadFile of={props.of} path={props.path} size={data.size} />}
        {steps.length > 0 && (
          <Select aria-label="Compare with" value={from < 0 ? "" : since} onChange={(e) => setSince(e.target.value)}>
            <option value="">Current</option>
            {steps.map((s) => (
              <option key={madeBy(s)} value={madeBy(s)}>
                Changes since {s.jobId ? "the job of step" : "step"} {s.number} ({line(s.tool)})
              </option>
            ))}
          </Select>
        )}
      </div>
      {isPending ? (
        <Skeletons rows={4} />
      ) : error ? (
        <Problem error={error} />
      ) : isImage(props.path) && Number(data.size) <= mostImage ? (
        <Picture path={props.path} content={data.content} />
      ) : text.includes("\u0000") ? (
        <p className="text-dim">Binary file, {bytes(data.size)}.</p>
      ) : from >= 0 ? (
        <Since taskId={taskId} path={props.path} stepIds={steps.slice(from).map(madeBy)} now={text} />
      ) : (
        <>
          <FileText path={props.path} text={text} />
          {Number(data.size) > shown && <p className="text-xs text-dim">Showing the first {bytes(shown)} of {bytes(data.size)}.</p>}
        </>
      )}
    </section>
  );
}
