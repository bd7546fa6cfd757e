import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { useMemo } from "react";
import { Button } from "@/components/Button";
import { download } from "@/components/download";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { count, dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { duration } from "@/components/Time";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { HistoryService, type StatisticsRow } from "@/gen/deckhand/v1/history_pb";
import type { TaskSearch } from "@/features/task/search";
import { statisticsCsv } from "./csv";
import { bys, periods, since, type By } from "./search";
import { tasksOf } from "./drill";
import { Trend } from "./Trend";
import { spanMillis } from "./words";

const route = getRouteApi("/shell/statistics");
const labels: Record<By, string> = {
  agent: "Agent",
  version: "Version",
  task_type: "Task type",
  tool: "Tool",
  outcome: "Outcome",
  day: "Day",
  week: "Week",
  month: "Month",
};

// StatisticsPage shows totals of tasks by agent, tool, outcome or time.
export function StatisticsPage() {
  const { by = "agent", days = 30, agent = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const from = useMemo(() => since(days, new Date()), [days]);
  const agents = useQuery(AgentService.method.listAgents, {});
  const { data, error, isPending, refetch } = useQuery(HistoryService.method.getStatistics, { by, since: from, agentId: agent });
  return (
    <Page
      title="Statistics"
      actions={
        <>
          <Select aria-label="Group by" value={by} onChange={(e) => void navigate({ search: (s) => ({ ...s, by: e.target.value as By }) })}>
            {bys.map((b) => (
              <option key={b} value={b}>
                By {labels[b].toLowerCase()}
              </option>
            ))}
          </Select>
          <Select aria-label="Period" value={days} onChange={(e) => void navigate({ search: (s) => ({ ...s, days: Number(e.target.value) }) })}>
            {periods.map((d) => (
              <option key={d} value={d}>
                Last {d} days
              </option>
            ))}
          </Select>
          <Select aria-label="Agent" value={agent} onChange={(e) => void navigate({ search: (s) => ({ ...s, agent: e.target.value || undefined }) })}>
            <option value="">Any agent</option>
            {agents.data?.agents.map((a) => (
              <option key={a.id} value={a.name}>
                {a.name}
              </option>
            ))}
          </Select>
          <Button
            disabled={!data || data.rows.length === 0}
            onClick={() => data && download(`statistics-by-${by}.csv`, new Blob([statisticsCsv(by, data.rows)], { type: "text/csv" }))}
          >
            <Download aria-hidden className="size-4" /> CSV
          </Button>
        </>
      }
    >
      {data?.userName && <p className="pb-3 text-dim">Showing your own tasks only.</p>}
      {isPending ? (
        <Skeletons rows={5} />
      ) : error ? (
        <Problem error={error} retry={() => void refetch()} />
      ) : data.rows.length === 0 ? (
        <Empty title="No tasks in this period" command="deckhand task stats">
          Outcomes, durations and costs of tasks appear here.
        </Empty>
      ) : (by === "day" || by === "week") && data.rows.length > 1 ? (
        <>
          <Trend rows={data.rows} />
          <Rows rows={data.rows} by={by} agent={agent} from={from} />
        </>
      ) : by === "tool" ? (
        <Table label="Statistics" head={["Tool", "Calls", "Failed", "Denied", "Run again", "Tasks", "Median", "p90"]}>
          {data.rows.map((r) => (
            <Row key={r.key}>
              <Cell className="font-mono text-xs">{r.key}</Cell>
              <Cell>{count(r.calls)}</Cell>
              <Cell>
                {count(r.callsFailed)} <Share of={r.callsFailed} all={r.calls} />
              </Cell>
              <Cell>{count(r.denied)}</Cell>
              <Cell>{count(r.retries)}</Cell>
              <Cell>{count(r.tasks)}</Cell>
              <Took of={r} />
            </Row>
          ))}
        </Table>
      ) : (
        <Rows rows={data.rows} by={by} agent={agent} from={from} />
      )}
    </Page>
  );
}

function Rows({ rows, by, agent, from }: { rows: StatisticsRow[]; by: By; agent: string; from: { seconds: bigint } }) {
  return (
    <>
    <Table
      label="Statistics"
      head={[labels[by], "Tasks", "Succeeded", "First time", "Failed", "Timed out", "Cancelled", "Not ended", "Retries", "Denied calls", "Iterations", "Median", "p90", "Tokens", "Cost"]}
    >
      {rows.map((r) => (
        <Row key={r.key}>
          <Cell>
            <Key of={r} by={by} />
          </Cell>
          <Cell>
            <Tasks n={r.tasks} word="tasks" of={r} search={tasksOf(r, by, agent, from)} />
          </Cell>
          <Cell>
            <Tasks n={r.succeeded} word="succeeded" of={r} search={tasksOf(r, by, agent, from, "succeeded")} /> <Share of={r.succeeded} all={r.tasks - r.live} />
          </Cell>
          <Cell>
            {count(r.firstTime)} <Share of={r.firstTime} all={r.tasks - r.live} />
          </Cell>
          <Cell>
            <Tasks n={r.failed} word="failed" of={r} search={tasksOf(r, by, agent, from, "failed")} />
          </Cell>
          <Cell>
            <Tasks n={r.timedOut} word="timed out" of={r} search={tasksOf(r, by, agent, from, "timed_out")} />
          </Cell>
          <Cell>
            <Tasks n={r.cancelled} word="cancelled" of={r} search={tasksOf(r, by, agent, from, "cancelled")} />
          </Cell>
          <Cell>{count(r.live)}</Cell>
          <Cell>{count(r.retries)}</Cell>
          <Cell>{count(r.denied)}</Cell>
          <Cell>{r.meanIterations ? r.meanIterations.toFixed(1) : "–"}</Cell>
          <Took of={r} />
          <Cell>{count((r.usage?.inputTokens ?? 0n) + (r.usage?.outputTokens ?? 0n))}</Cell>
          <Cell>{dollars(r.usage?.costMicros ?? 0n)}</Cell>
        </Row>
      ))}
    </Table>
    <Phases rows={rows} by={by} />
    </>
  );
}

// Phases shows the share of each phase in the time of the tasks' iterations.
function Phases({ rows, by }: { rows: StatisticsRow[]; by: By }) {
  const timed = rows.filter((r) => r.timed > 0n && r.phases.some((p) => (spanMillis(p.total) ?? 0) > 0));
  if (timed.length === 0) return null;
  const names = timed[0]!.phases.map((p) => p.phase);
  return (
    <section className="space-y-2 pt-6">
      <h2 className="font-semibold">Time in each phase</h2>
      <Table label="Time in each phase" head={[labels[by], ...names.map((n) => n.replaceAll("_", " "))]}>
        {timed.map((r) => {
          const all = r.phases.reduce((sum, p) => sum + (spanMillis(p.total) ?? 0), 0);
          return (
            <Row key={r.key}>
              <Cell>
                <Key of={r} by={by} />
              </Cell>
              {r.phases.map((p) => {
                const ms = spanMillis(p.total) ?? 0;
                return (
                  <Cell key={p.phase} className="whitespace-nowrap">
                    {duration(ms)} <span className="text-xs text-dim">({Math.round((ms / all) * 100)} %)</span>
                  </Cell>
                );
              })}
            </Row>
          );
        })}
      </Table>
    </section>
  );
}

// Tasks is a number of tasks that leads to them; search is undefined where no list has
// those tasks alone.
function Tasks(props: { n: bigint; word: string; of: StatisticsRow; search: TaskSearch | undefined }) {
  if (!props.search || props.n === 0n) return <>{count(props.n)}</>;
  return (
    <Link to="/tasks" search={props.search} aria-label={`${count(props.n)} ${props.word}: ${props.of.key}`} className="inline-flex min-h-6 items-center text-accent hover:underline">
      {count(props.n)}
    </Link>
  );
}

function Key({ of: r, by }: { of: StatisticsRow; by: By }) {
  if (by === "version" || by === "task_type") return <>{r.key || <span className="text-dim">(no agent)</span>}</>;
  if (by !== "agent") return <>{r.key.replaceAll("_", " ")}</>;
  if (!r.key) return <span className="text-dim">(no agent)</span>;
  return (
    <Link to="/agents/$agent" params={{ agent: r.key }} className="inline-flex min-h-6 items-center text-accent hover:underline">
      {r.key}
    </Link>
  );
}

function Share({ of, all }: { of: bigint; all: bigint }) {
  if (all <= 0n) return null;
  return <span className="text-xs text-dim">({Math.round((Number(of) / Number(all)) * 100)} %)</span>;
}

function Took({ of: r }: { of: StatisticsRow }) {
  const [middle, high] = [spanMillis(r.durationP50), spanMillis(r.durationP90)];
  return (
    <>
      <Cell className="whitespace-nowrap">{middle === undefined ? "–" : duration(middle)}</Cell>
      <Cell className="whitespace-nowrap">{high === undefined ? "–" : duration(high)}</Cell>
    </>
  );
}
