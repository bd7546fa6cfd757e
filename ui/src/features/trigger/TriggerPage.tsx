import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Tabs } from "radix-ui";
import { useSession } from "@/app/session";
import { Id } from "@/components/Id";
import { Prose } from "@/components/Literal";
import { dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Facts } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { TriggerService, type Trigger } from "@/gen/deckhand/v1/trigger_pb";
import { Deliveries } from "./Deliveries";
import { NextRuns, TriggerBadge, urlOf } from "./parts";
import { Tester } from "./Tester";
import { TriggerActions } from "./TriggerActions";
import { whenOf } from "./words";

const route = getRouteApi("/shell/triggers/$trigger");

const tab =
  "-mb-px min-h-8 border-b-2 border-transparent px-3 text-dim data-[state=active]:border-accent data-[state=active]:text-ink";

// TriggerPage shows one trigger: its settings, its deliveries, and a test of its
// expressions.
export function TriggerPage() {
  const { trigger: id } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const advanced = may(useSession(), "advanced");
  // Deliveries have no events: it is asked for again.
  const query = useQuery(TriggerService.method.getTrigger, { triggerId: id }, { refetchInterval: 10_000 });
  const trigger = query.data?.trigger;
  return (
    <Page
      title={trigger?.name ?? id}
      heading={
        <>
          <Link to="/triggers" className="font-normal text-dim hover:underline">
            Triggers
          </Link>{" "}
          <span aria-hidden className="text-dim">
            /
          </span>{" "}
          {trigger?.name ?? id}
        </>
      }
      actions={trigger && advanced && <TriggerActions trigger={trigger} />}
    >
      {query.isPending ? (
        <Skeletons rows={8} />
      ) : !trigger ? (
        <Problem error={query.error} retry={() => void query.refetch()} />
      ) : (
        <>
          <About trigger={trigger} />
          <Tabs.Root
            value={advanced ? (search.tab ?? "deliveries") : "deliveries"}
            onValueChange={(t) => void navigate({ search: (s) => ({ ...s, tab: t === "try" ? "try" : undefined }) })}
            className="pt-6"
          >
            <Tabs.List aria-label="Trigger views" className="mb-3 flex gap-1 border-b">
              <Tabs.Trigger value="deliveries" className={tab}>
                Deliveries
              </Tabs.Trigger>
              {advanced && (
                <Tabs.Trigger value="try" className={tab}>
                  Test expressions
                </Tabs.Trigger>
              )}
            </Tabs.List>
            <Tabs.Content value="deliveries" tabIndex={-1}>
              <Deliveries trigger={trigger} />
            </Tabs.Content>
            {advanced && (
              <Tabs.Content value="try" tabIndex={-1}>
                <Tester key={trigger.id} trigger={trigger} />
              </Tabs.Content>
            )}
          </Tabs.Root>
        </>
      )}
    </Page>
  );
}

function About({ trigger: t }: { trigger: Trigger }) {
  const spec = t.spec;
  return (
    <Facts
      of={[
        ["State", <TriggerBadge key="s" of={t} />],
        ["Reason", t.reason],
        ["Held by", t.held],
        [
          "Agent",
          <Link key="a" to="/agents/$agent" params={{ agent: t.agentName }} className="text-accent hover:underline">
            {t.agentName}
          </Link>,
        ],
        ["Starts on", whenOf(t)],
        ["URL", t.path && <Id value={urlOf(t.path)} whole />],
        ["Secret ends in", t.secretEndsIn && <code>{t.secretEndsIn}</code>],
        ["Previous secret valid until", t.oldSecretUntil && <Time at={t.oldSecretUntil} />],
        ["Next runs", t.nextRuns.length > 0 && <NextRuns of={t} />],
        ["If a run is still active", spec?.overlap || `default (${spec?.cron ? "skip" : "allow"})`],
        ["Missed runs", spec?.cron && (spec.cron.missed || "once")],
        ["Goal", <Prose key="g" text={spec?.goal || "(no goal given: follows its persona)"} />],
        ["Filter", spec?.filter && <Prose className="font-mono text-xs break-all" text={spec.filter} />],
        ["Runs since enabled", String(t.runs)],
        ["Maximum runs", spec?.loop?.maxRuns ? `${spec.loop.maxRuns}` : ""],
        ["Budget", spec?.loop && dollars(spec.loop.budgetMicros ?? 10_000_000n)],
        [
          "Last task",
          t.lastTaskId && (
            <Link to="/tasks/$task" params={{ task: t.lastTaskId }} className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline">
              {t.lastTaskId}
            </Link>
          ),
        ],
        ["Created", <span key="c">by {t.createdBy}, <Time at={t.createdAt} /></span>],
        ["Id", <Id key="i" value={t.id} />],
      ]}
    />
  );
}
