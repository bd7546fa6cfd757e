import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { lazy, Suspense, useMemo } from "react";
import { Button } from "@/components/Button";
import { Command } from "@/components/Command";
import { download } from "@/components/download";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { count, dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { duration } from "@/components/Time";
import { periods, since } from "@/features/history/search";
import { dayOf } from "@/features/history/Trend";
import { spanMillis } from "@/features/history/words";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { InsightService, type InsightRow } from "@/gen/deckhand/v1/insight_pb";

const Chart = lazy(() => import("@/components/Chart").then((m) => ({ default: m.Chart })));
const route = getRouteApi("/shell/insights");

const share = (n: bigint, of: bigint) => (of > 0n ? `${Math.round((100 * Number(n)) / Number(of))} %` : "–");
const endedOf = (r: InsightRow) => (r.figures?.tasks ?? 0n) - (r.figures?.live ?? 0n);

// InsightsPage reports how agents and tools do over time.
export function InsightsPage() {
  const { days = 30, agent = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const from = useMemo(() => since(days, new Date()), [days]);
  const agents = useQuery(AgentService.method.listAgents, {});
  const { data, error, isPending, refetch } = useQuery(InsightService.method.getInsights, { since: from, agentId: agent });
  return (
    <Page
      title="Insights"
      actions={
        <>
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
          <Button disabled={!data} onClick={() => data && download("insights.md", new Blob([data.markdown], { type: "text/markdown" }))}>
            <Download aria-hidden className="size-4" /> Markdown
          </Button>
        </>
      }
    >
      {data?.userName && <p className="pb-3 text-dim">Showing your own tasks only.</p>}
      {isPending ? (
        <Skeletons rows={5} />
      ) : error ? (
        <Problem error={error} retry={() => void refetch()} />
      ) : data.agents.length === 0 ? (
        <Empty title="No tasks in this period" command="deckhand insight report">
          Success, first-time success, iterations, cost and interventions of your agents appear here, with the tools that take most time and the calls that were denied.
        </Empty>
      ) : (
        <>
          {data.weeks.length > 1 && <Weeks rows={data.weeks} />}
          <Table label="Agents" head={["Agent", "Tasks", "Success", "First time", "Iterations", "Cost", "Interventions", "Denied calls"]}>
            {data.agents.map((r) => (
              <Row key={r.figures?.key}>
                <Cell>
                  {r.figures?.key ? (
                    <Link to="/agents/$agent" params={{ agent: r.figures.key }} className="inline-flex min-h-6 items-center text-accent hover:underline">
                      {r.figures.key}
                    </Link>
                  ) : (
                    <span className="text-dim">(no agent)</span>
                  )}
                </Cell>
                <Cell>{count(r.figures?.tasks ?? 0n)}</Cell>
                <Cell>{share(r.figures?.succeeded ?? 0n, endedOf(r))}</Cell>
                <Cell>{share(r.figures?.firstTime ?? 0n, endedOf(r))}</Cell>
                <Cell>{r.figures?.meanIterations ? r.figures.meanIterations.toFixed(1) : "–"}</Cell>
                <Cell>{dollars(r.figures?.usage?.costMicros ?? 0n)}</Cell>
                <Cell>{count(r.interventions)}</Cell>
                <Cell>{count(r.figures?.denied ?? 0n)}</Cell>
              </Row>
            ))}
          </Table>
          {data.slowTools.length > 0 && (
            <Section title="Tools by time">
              <Table label="Tools by time" head={["Tool", "All calls together", "Calls", "Failed", "Median", "p90"]}>
                {data.slowTools.map((t) => (
                  <Row key={t.tool}>
                    <Cell className="font-mono text-xs">{t.tool}</Cell>
                    <Cell>{duration(spanMillis(t.total) ?? 0)}</Cell>
                    <Cell>{count(t.calls)}</Cell>
                    <Cell>{count(t.callsFailed)}</Cell>
                    <Cell>{spanMillis(t.durationP50) === undefined ? "–" : duration(spanMillis(t.durationP50)!)}</Cell>
                    <Cell>{spanMillis(t.durationP90) === undefined ? "–" : duration(spanMillis(t.durationP90)!)}</Cell>
                  </Row>
                ))}
              </Table>
            </Section>
          )}
          {data.denied.length > 0 && (
            <Section title="Denied calls">
              <Table label="Denied calls" head={["Agent", "Tool", "Calls", "Reason", "A rule that asks instead"]}>
                {data.denied.map((d, i) => (
                  <Row key={i}>
                    <Cell>{d.agentName}</Cell>
                    <Cell className="font-mono text-xs">
                      <Link to="/tasks/$task" params={{ task: d.taskId }} search={{ tab: "steps" }} className="inline-flex min-h-6 items-center text-accent hover:underline">
                        {d.tool}
                      </Link>
                    </Cell>
                    <Cell>{count(d.calls)}</Cell>
                    <Cell>
                      <Literal text={d.reason} className="break-words whitespace-pre-wrap" />
                    </Cell>
                    <Cell>{d.ruleYaml ? <Command text={d.ruleYaml} /> : <span className="text-dim">–</span>}</Cell>
                  </Row>
                ))}
              </Table>
            </Section>
          )}
        </>
      )}
    </Page>
  );
}

// weeksOf returns the figures of weeks for charts, the oldest first.
export function weeksOf(rows: readonly InsightRow[]) {
  const weeks = rows.filter((r) => r.figures);
  const rate = (n: (r: InsightRow) => bigint) => weeks.map((r) => (endedOf(r) > 0n ? (100 * Number(n(r))) / Number(endedOf(r)) : null));
  return {
    times: weeks.map((r) => dayOf(r.figures!.key)),
    success: rate((r) => r.figures!.succeeded),
    first: rate((r) => r.figures!.firstTime),
    iterations: weeks.map((r) => r.figures!.meanIterations || null),
    cost: weeks.map((r) => Number(r.figures!.usage?.costMicros ?? 0n)),
    interventions: weeks.map((r) => Number(r.interventions)),
  };
}

function Weeks({ rows }: { rows: InsightRow[] }) {
  const w = useMemo(() => weeksOf(rows), [rows]);
  const percent = (v: number) => `${Math.round(v)} %`;
  return (
    <div className="grid gap-3 pb-4 lg:grid-cols-5">
      <Suspense fallback={<Skeletons rows={3} className="h-10 w-full" />}>
        <Chart days label="Success rate" times={w.times} values={w.success} format={percent} />
        <Chart days label="First-time success" times={w.times} values={w.first} format={percent} />
        <Chart days label="Iterations" times={w.times} values={w.iterations} format={(v) => v.toFixed(1)} />
        <Chart days label="Cost" times={w.times} values={w.cost} format={dollars} />
        <Chart days label="Interventions" times={w.times} values={w.interventions} format={(v) => String(Math.round(v))} />
      </Suspense>
    </div>
  );
}
