import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Tabs } from "radix-ui";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { count, dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { final } from "@/components/state";
import { may } from "@/features/session/queries";
import { EventService } from "@/gen/deckhand/v1/event_pb";
import { TaskService, type Task } from "@/gen/deckhand/v1/task_pb";
import { BrowserThen } from "./BrowserThen";
import { ContinueFrom } from "./ContinueFrom";
import { Controls } from "./Controls";
import { Details } from "./Details";
import { FilesThen } from "./FilesThen";
import { History, type Totals } from "./history";
import { PlanThen } from "./PlanThen";
import { useRecording } from "./recording";
import { momentsOf, newestOf, replayTabs, type ReplayTab } from "./search";
import { Thread } from "./Thread";
import { UndoTo } from "./UndoTo";
import { useSettled } from "./useSettled";

const OutputThen = lazy(() => import("./OutputThen").then((m) => ({ default: m.OutputThen })));
const route = getRouteApi("/shell/tasks/$task/replay");
const labels: Record<ReplayTab, string> = { files: "Files", terminal: "Output", browser: "Browser", plan: "Plan", details: "Details" };

// ReplayPage shows a run at any moment of it: the thread until then, the files, the
// output, the plan and the counters as they were.
export function ReplayPage() {
  const { task: id } = route.useParams();
  const search = route.useSearch();
  const opened = useRef(search.at);
  const task = useQuery(TaskService.method.getTask, { taskId: id });
  const ended = task.data?.task && final(task.data.task.state);
  // The end of the run is drawn before the whole of it is read, which takes a browser longer.
  const newest = useQuery(EventService.method.listMoments, newestOf(id), { enabled: opened.current === undefined, retry: false, staleTime: Infinity });
  const [begun, setBegun] = useState(opened.current !== undefined);
  const drawn = !begun && !newest.isPending && task.data !== undefined;
  useEffect(() => {
    if (!drawn) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const frame = requestAnimationFrame(() => (timer = setTimeout(() => setBegun(true))));
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, [drawn]);
  const pages = useInfiniteQuery(
    EventService.method.listMoments,
    momentsOf(id),
    { ...byToken, enabled: begun, refetchInterval: task.data?.task && !ended ? 5_000 : false },
  );
  useRest(pages);
  const whole = pages.data !== undefined && !pages.hasNextPage;
  const end = whole ? undefined : newest.data;
  const history = useMemo(() => new History(end?.moments ?? pages.data?.pages.flatMap((p) => p.moments) ?? [], end !== undefined), [end, pages.data]);
  const error = task.error ?? (history.length === 0 ? pages.error : undefined);
  if (error) {
    return (
      <Page title="Replay">
        <Problem error={error} retry={() => void Promise.all([task.refetch(), pages.refetch()])} />
      </Page>
    );
  }
  // What a link names may be on a later page of the index.
  const waits = pages.hasNextPage && opened.current !== undefined;
  if (!task.data?.task || (pages.isPending && !end) || (waits && !pages.error)) return <Page title="Replay"><Skeletons rows={6} /></Page>;
  if (history.length === 0) {
    return (
      <Page title="Replay">
        <Empty title="Nothing to replay">The task has no events yet, or they were deleted by retention.</Empty>
      </Page>
    );
  }
  return <Replay task={task.data.task} history={history} loading={!whole && !pages.error} />;
}

function Replay({ task, history, loading }: { task: Task; history: History; loading: boolean }) {
  const session = useSession();
  const navigate = route.useNavigate();
  const search = route.useSearch();
  const asked = search.at === undefined ? undefined : history.find(search.at);
  // The position and the clock of the run. A link may name what a later page has.
  const [place, setPlace] = useState(() => placeAt(history, asked ?? history.length - 1));
  const moved = useRef(false);
  // More of the run is there: the position stays at the moment that it was at, or at the end.
  const [shown, setShown] = useState(history);
  if (shown !== history) {
    setShown(history);
    const seq = shown.moments[place.at]?.seq;
    const same = seq === undefined ? undefined : history.find(String(seq));
    setPlace(placeAt(history, (moved.current ? same : asked) ?? history.length - 1));
  }
  const at = Math.min(place.at, history.length - 1);
  const seek = useCallback(
    (to: number) => {
      moved.current = true;
      setPlace(placeAt(history, to));
    },
    [history],
  );
  const play = useCallback((to: { at: number; clock: number }) => {
    moved.current = true;
    setPlace(to);
  }, []);
  // What is asked of the hub, and the address, follow when the position rests.
  const settled = useSettled(at, 250);
  const name = history.name(settled);
  useEffect(() => {
    if (moved.current && name !== search.at) void navigate({ search: (s) => ({ ...s, at: name }), replace: true });
  }, [name]); // eslint-disable-line -- an address that another link has changed is read below
  useEffect(() => {
    if (asked !== undefined && search.at !== history.name(settled)) setPlace(placeAt(history, asked));
  }, [search.at]); // eslint-disable-line
  const totals = history.at(at);
  const then = history.at(settled);
  const iteration = history.iterationAt(settled);
  const [dialog, setDialog] = useState<"continue" | "undo">();
  const show = search.show ?? "files";
  const [browsed, setBrowsed] = useState(false);
  if (show === "browser" && !browsed) setBrowsed(true);
  const recording = useRecording(task.id, browsed, final(task.state));
  const title = task.title || task.goal || task.agentName;
  return (
    <Page
      full
      title={`Replay: ${line(title)}`}
      heading={
        <span className="flex min-w-0 items-center gap-2">
          <Link to="/tasks/$task" params={{ task: task.id }} className="min-w-0 truncate hover:underline">
            <Literal text={title} />
          </Link>
          <Badge tone="info">replay</Badge>
        </span>
      }
      actions={
        may(session, "basic") && (
          <>
            <Button disabled={iteration === 0} title={iteration === 0 ? "No iteration had ended yet" : undefined} onClick={() => setDialog("continue")}>
              Continue from here
            </Button>
            <Button disabled={!then.stepId} onClick={() => setDialog("undo")}>
              Undo back to here
            </Button>
          </>
        )
      }
    >
      <div className="flex h-full min-h-0 flex-col">
        <Controls history={history} place={{ ...place, at }} onSeek={seek} onPlay={play} loading={loading} />
        <Counters totals={totals} known={!history.partial} loading={loading} />
        {search.at !== undefined && asked === undefined && !loading && !moved.current && (
          <p role="alert" className="px-5 pb-1 text-xs text-warn">
            This run has no moment <Literal text={search.at} />. The end is shown.
          </p>
        )}
        <div className="grid min-h-0 flex-1 grid-cols-[minmax(0,5fr)_minmax(0,6fr)] border-t max-lg:grid-cols-1 max-lg:grid-rows-2">
          <Thread history={history} at={at} onSeek={seek} />
          <Tabs.Root
            value={show}
            onValueChange={(v) => void navigate({ search: (s) => ({ ...s, show: v === "files" ? undefined : (v as ReplayTab) }), replace: true })}
            className="flex min-h-0 flex-col border-l max-lg:border-t max-lg:border-l-0"
          >
            <Tabs.List aria-label="What is shown at this moment" className="flex gap-1 overflow-x-auto border-b px-4">
              {replayTabs.filter((t) => t !== "browser" || show === t || history.browsed).map((t) => (
                <Tabs.Trigger
                  key={t}
                  value={t}
                  className="-mb-px min-h-8 border-b-2 border-transparent px-3 whitespace-nowrap text-dim data-[state=active]:border-accent data-[state=active]:text-ink"
                >
                  {labels[t]}
                </Tabs.Trigger>
              ))}
            </Tabs.List>
            <Part value="files"><FilesThen taskId={task.id} stepId={then.stepId} number={then.stepNumber} /></Part>
            <Part value="terminal">
              <Suspense fallback={<Skeletons rows={4} />}>
                <OutputThen stepId={totals.ranId} tool={totals.ranTool} clock={totals.ranId === totals.stepId ? Infinity : place.clock} />
              </Suspense>
            </Part>
            <Part value="browser"><BrowserThen taskId={task.id} stepId={then.seenId} number={then.seenNumber} clock={place.clock} recording={recording} /></Part>
            <Part value="plan"><PlanThen taskId={task.id} seq={then.planSeq} /></Part>
            <Part value="details"><Details taskId={task.id} row={history.rows[history.rowOf(settled)]} at={settled} /></Part>
          </Tabs.Root>
        </div>
      </div>
      {dialog === "continue" && <ContinueFrom task={task} iteration={iteration} onClose={() => setDialog(undefined)} />}
      {dialog === "undo" && <UndoTo taskId={task.id} number={then.stepNumber} onClose={() => setDialog(undefined)} />}
    </Page>
  );
}

function placeAt(history: History, to: number) {
  const at = Math.min(Math.max(0, to), history.length - 1);
  return { at, clock: history.times[at] ?? 0 };
}

function Part(props: { value: ReplayTab; children: React.ReactNode }) {
  return (
    <Tabs.Content value={props.value} tabIndex={-1} className="min-h-0 flex-1 overflow-y-auto p-4">
      {props.children}
    </Tabs.Content>
  );
}

// Counters are the figures of the run at the position.
function Counters({ totals, known, loading }: { totals: Totals; known: boolean; loading: boolean }) {
  if (!known) return <p className="px-5 pb-2 text-xs text-dim">{loading ? "The end of the run. Loading the rest…" : "Only the end of the run could be read. Reload the page to try again."}</p>;
  return (
    <p data-testid="counters" className="flex flex-wrap gap-x-4 gap-y-1 px-5 pb-2 text-xs text-dim">
      <span>{totals.state.replaceAll("_", " ") || "not started"}</span>
      <span>turn {totals.turn}</span>
      <span>{totals.iterations} {totals.iterations === 1 ? "iteration" : "iterations"}</span>
      <span>{totals.steps} {totals.steps === 1 ? "step" : "steps"} ended</span>
      <span>{count(totals.tokens)} tokens</span>
      <span>{dollars(totals.costMicros)}</span>
    </p>
  );
}
