import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData, useQuery as usePlainQuery } from "@tanstack/react-query";
import { File, Folder } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import { transport } from "@/api/transport";
import { cx } from "@/components/cx";
import { Diff } from "@/components/Diff";
import { Empty } from "@/components/Empty";
import { Literal, LiteralBlock } from "@/components/Literal";
import { line } from "@/components/marks";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { FileService } from "@/gen/deckhand/v1/file_pb";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";

const shown = 256 * 1024;
const mostRows = 500;
const workspaces = createClient(WorkspaceService, transport);

// FilesThen shows the workspace as a step left it, from the node's snapshots, and what
// that step changed.
export function FilesThen(props: { taskId: string; stepId: string; number: number }) {
  const { taskId, stepId, number } = props;
  const [open, setOpen] = useState<string>();
  const list = useQuery(
    FileService.method.listFiles,
    { workspace: { case: "taskId", value: taskId }, recursive: true, stepId },
    { enabled: stepId !== "", retry: false, staleTime: Infinity, placeholderData: keepPreviousData },
  );
  const of = useShown(number, list.data !== undefined && !list.isPlaceholderData);
  if (!stepId) return <Empty title="No step had ended yet">The files are shown from the end of the first step on.</Empty>;
  if (list.isPending) return <Skeletons rows={5} className="h-6 w-full" />;
  if (list.error) return <Problem error={list.error} retry={() => void list.refetch()} />;
  const files = list.data.files;
  return (
    <div className="space-y-3" aria-busy={list.isPlaceholderData}>
      <p className="text-xs text-dim">
        The workspace after step {of}
        {of !== number && `, loading step ${number}`}
      </p>
      <StepDiff taskId={taskId} stepId={stepId} onOpen={setOpen} />
      {files.length === 0 ? (
        <Empty title="The workspace was empty">No file was in it at this moment.</Empty>
      ) : (
        <ul aria-label={`Files after step ${of}`}>
          {files.slice(0, mostRows).map((f) => (
            <li key={f.path}>
              <button
                type="button"
                disabled={f.type !== "file"}
                aria-current={open === f.path ? "true" : undefined}
                onClick={() => setOpen(f.path)}
                className={cx("flex min-h-6 w-full items-center gap-1.5 rounded px-2 text-left font-mono text-xs enabled:hover:bg-raised", open === f.path && "bg-raised")}
                style={{ paddingLeft: 8 + 14 * (f.path.split("/").length - 1) }}
              >
                {f.type === "dir" ? <Folder aria-hidden className="size-3.5 text-dim" /> : <File aria-hidden className="size-3.5 text-dim" />}
                <Literal className="min-w-0 flex-1 break-all" text={f.path.slice(f.path.lastIndexOf("/") + 1)} />
                {f.type === "file" && <span className="text-dim">{bytes(f.size)}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
      {files.length > mostRows && <p className="text-xs text-dim">The first {mostRows} of {files.length} entries are listed.</p>}
      {open && <FileThen taskId={taskId} stepId={stepId} number={number} path={open} />}
    </div>
  );
}

// useShown returns the step that what is on screen is of: until that of another step has
// come, it is the one before.
function useShown(number: number, loaded: boolean): number {
  const shown = useRef(number);
  if (loaded) shown.current = number;
  return shown.current;
}

function FileThen(props: { taskId: string; stepId: string; number: number; path: string }) {
  const { taskId, stepId, number, path } = props;
  const { data, error, isPending, isPlaceholderData } = useQuery(
    FileService.method.readFile,
    { workspace: { case: "taskId", value: taskId }, path, limit: BigInt(shown), stepId },
    { retry: false, staleTime: Infinity, placeholderData: keepPreviousData },
  );
  const of = useShown(number, data !== undefined && !isPlaceholderData);
  const text = useMemo(() => (data ? new TextDecoder().decode(data.content) : ""), [data]);
  return (
    <section aria-label={line(path)} aria-busy={isPlaceholderData} className="space-y-1 border-t pt-3">
      <h3 className="font-mono text-xs break-all">
        <Literal text={path} /> <span className="font-sans text-dim">after step {of}{of !== number && `, loading step ${number}`}</span>
      </h3>
      {isPending ? (
        <Skeletons rows={4} />
      ) : error ? (
        <Problem error={error} />
      ) : text.includes("\u0000") ? (
        <p className="text-dim">Binary file, {bytes(data.size)}.</p>
      ) : (
        <>
          <LiteralBlock text={text} label={`${line(path)} after step ${of}`} />
          {Number(data.size) > shown && <p className="text-xs text-dim">Showing the first {bytes(shown)} of {bytes(data.size)}.</p>}
        </>
      )}
    </section>
  );
}

// StepDiff is what the step itself changed; nothing for a step that changed no file.
function StepDiff(props: { taskId: string; stepId: string; onOpen: (path: string) => void }) {
  const { taskId, stepId } = props;
  const { data } = usePlainQuery({
    queryKey: ["diff", taskId, stepId],
    staleTime: Infinity,
    retry: false,
    queryFn: async ({ signal }) => {
      const files: { path: string; unified: string; summary: string }[] = [];
      for await (const d of workspaces.diffChanges({ taskId, stepIds: [stepId] }, { signal })) {
        files.push({ path: d.change?.path ?? "", unified: new TextDecoder().decode(d.unified), summary: d.summary });
        if (files.length === 50) break;
      }
      return files;
    },
  });
  if (!data || data.length === 0) return null;
  return (
    <details className="rounded-md border bg-panel p-2">
      <summary className="cursor-pointer text-xs">
        This step changed {data.length === 50 ? "50 or more files" : data.length === 1 ? "1 file" : `${data.length} files`}
      </summary>
      {data.map((f) => (
        <div key={f.path} className="space-y-1 pt-2">
          <button type="button" className="min-h-6 font-mono text-xs break-all text-accent hover:underline" onClick={() => props.onOpen(f.path)}>
            <Literal text={f.path} />
          </button>
          {f.unified ? <Diff text={f.unified} label={line(`Changes of ${f.path}`)} /> : <p className="text-xs text-dim">{f.summary}</p>}
        </div>
      ))}
    </details>
  );
}
