import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo } from "react";
import { byToken } from "@/api/pages";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { TriggerService, type Delivery, type Trigger } from "@/gen/deckhand/v1/trigger_pb";
import { DeliveryBadge, NextRuns, TriggerBadge } from "./parts";
import { kinds, whenOf } from "./words";

const route = getRouteApi("/shell/triggers");

// TriggersPage lists the triggers, with their next runs and last deliveries.
export function TriggersPage() {
  const { agent } = route.useSearch();
  const navigate = route.useNavigate();
  const anywhere = useNavigate();
  const session = useSession();
  const advanced = may(session, "advanced");
  // Others' deliveries may be there, and are not shown.
  const none = (t: Trigger) => (t.createdBy === session.userName || may(session, "admin") ? "none yet" : "not visible to you");
  const create = () => void anywhere({ to: "/triggers/new", search: { agent } });
  useShortcut("n", "New trigger", "Triggers", create, advanced);
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  // Deliveries have no events: the list is asked for again.
  const pages = useInfiniteQuery(
    TriggerService.method.listTriggers,
    { agentId: agent ?? "", pageSize: 100, pageToken: "", withTotal: true },
    { ...byToken, refetchInterval: 10_000 },
  );
  const triggers = pages.data?.pages.flatMap((page) => page.triggers) ?? [];
  // One question for the last delivery of all of them.
  const recent = useQuery(TriggerService.method.listDeliveries, { pageSize: 200 }, { refetchInterval: 10_000 });
  const last = useMemo(() => {
    const of = new Map<string, Delivery>();
    for (const d of recent.data?.deliveries ?? []) if (!of.has(d.triggerId)) of.set(d.triggerId, d);
    return of;
  }, [recent.data]);
  return (
    <Page
      title="Triggers"
      actions={
        advanced && (
          <Button look="primary" onClick={create}>
            <Plus aria-hidden className="size-4" /> New trigger
          </Button>
        )
      }
    >
      <div role="search" aria-label="Filter triggers" className="flex flex-wrap gap-2 pb-3">
        <Select aria-label="Agent" value={agent ?? ""} onChange={(e) => void navigate({ search: { agent: e.target.value || undefined } })}>
          <option value="">Any agent</option>
          {agents.data?.agents.map((a) => (
            <option key={a.id} value={a.name}>
              {a.name}
            </option>
          ))}
        </Select>
        {agent && <Button onClick={() => void navigate({ search: {} })}>Clear</Button>}
      </div>
      {pages.isPending ? (
        <Skeletons rows={6} className="h-14 w-full" />
      ) : pages.error && triggers.length === 0 ? (
        <Problem error={pages.error} retry={() => void pages.refetch()} />
      ) : triggers.length === 0 ? (
        agent ? (
          <Empty title={`${agent} has no triggers`}>Clear the filter, or create a trigger.</Empty>
        ) : (
          <Empty title="No triggers yet" command="deckhand trigger create nightly --agent log-triage --cron '0 6 * * *'">
            A trigger starts an agent automatically: on a webhook, on a schedule, or continuously.
          </Empty>
        )
      ) : (
        <Table label="Triggers" head={["Trigger", "Agent", "Fires on", "State", "Next runs", "Last delivery"]}>
          {triggers.map((t) => (
            <Row key={t.id}>
              <Cell>
                <Link to="/triggers/$trigger" params={{ trigger: t.name }} className="inline-flex min-h-6 items-center font-medium hover:text-accent hover:underline">
                  {t.name}
                </Link>
                <div className="text-xs text-dim">{kinds[t.kind]}</div>
              </Cell>
              <Cell>
                <Link to="/agents/$agent" params={{ agent: t.agentName }} className="inline-flex min-h-6 items-center hover:underline">
                  {t.agentName}
                </Link>
              </Cell>
              <Cell>{whenOf(t)}</Cell>
              <Cell>
                <TriggerBadge of={t} />
                {t.reason && <div className="pt-1 text-xs text-dim"><Literal text={t.reason} /></div>}
              </Cell>
              <Cell>
                <NextRuns of={t} />
              </Cell>
              <Cell>
                {last.has(t.id) || recent.isPending || !recent.data?.nextPageToken ? (
                  <Last delivery={last.get(t.id)} pending={recent.isPending} none={none(t)} />
                ) : (
                  <LongAgo triggerId={t.id} none={none(t)} />
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={pages} shown={triggers.length}>More triggers</More>
    </Page>
  );
}

// LongAgo is the last delivery of a trigger that had none lately. It is asked for
// once: a new one is among the recent ones.
function LongAgo({ triggerId, none }: { triggerId: string; none: string }) {
  const { data, isPending } = useQuery(TriggerService.method.listDeliveries, { triggerId, pageSize: 1 });
  return <Last delivery={data?.deliveries[0]} pending={isPending} none={none} />;
}

function Last({ delivery, pending, none }: { delivery: Delivery | undefined; pending: boolean; none: string }) {
  if (pending) return <span className="text-dim">…</span>;
  if (!delivery) return <span className="text-dim">{none}</span>;
  return (
    <span className="inline-flex flex-wrap items-center gap-1.5">
      <DeliveryBadge of={delivery} />
      {delivery.replayOf && <Badge>replay</Badge>}
      <Time at={delivery.receivedAt} />
    </span>
  );
}
