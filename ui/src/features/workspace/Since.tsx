import { createClient } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { transport } from "@/api/transport";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import { Diff } from "@/components/Diff";
import { line } from "@/components/marks";
import { reverse } from "./reverse";

const Comparison = lazy(() => import("@/components/Comparison").then((m) => ({ default: m.Comparison })));
const workspaces = createClient(WorkspaceService, transport);

// Since compares a file with its content before some steps of a task.
export function Since(props: { taskId: string; path: string; stepIds: string[]; now: string }) {
  const { taskId, path, stepIds, now } = props;
  const { data, error, isPending } = useQuery({
    queryKey: ["diff", taskId, path, stepIds],
    queryFn: async ({ signal }) => {
      const found: { unified: string; summary: string }[] = [];
      for await (const d of workspaces.diffChanges({ taskId, stepIds, path }, { signal })) {
        if (d.change?.path === path) found.push({ unified: new TextDecoder().decode(d.unified), summary: d.summary });
      }
      return found;
    },
  });
  if (isPending) return <Skeletons rows={4} />;
  if (error) return <Problem error={error} />;
  if (data.length === 0) return <p className="text-dim">Unchanged.</p>;
  const only = data.length === 1 ? data[0] : undefined;
  const before = only?.unified ? reverse(only.unified, now) : undefined;
  if (before !== undefined) {
    return (
      <Suspense fallback={<Skeletons rows={4} />}>
        <Comparison before={before} after={now} label={line(`What changed in ${path}`)} />
      </Suspense>
    );
  }
  return (
    <>
      {data.map((d, i) => (d.unified ? <Diff key={i} text={d.unified} label={line(`Changes of ${path}`)} /> : <p key={i} className="text-dim">{d.summary}</p>))}
    </>
  );
}
