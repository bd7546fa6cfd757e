import { useInfiniteQuery, useMutation, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { RotateCcw } from "lucide-react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useSession } from "@/app/session";
import { More } from "@/components/More";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { Id } from "@/components/Id";
import { Literal, LiteralBlock } from "@/components/Literal";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Facts } from "@/components/Section";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { TriggerKind, TriggerService, type Delivery, type Trigger } from "@/gen/deckhand/v1/trigger_pb";
import { DeliveryBadge, urlOf } from "./parts";
import { bodyText, outcomes, outcomeStates, type Outcome } from "./words";

const route = getRouteApi("/shell/triggers/$trigger");

// Deliveries are the firings of a trigger, newest first. Which of them are shown
// is in the address, and so is the one that is open.
export function Deliveries({ trigger }: { trigger: Trigger }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const session = useSession();
  const advanced = may(session, "advanced");
  // Deliveries have no events: they are asked for again.
  const pages = useInfiniteQuery(
    TriggerService.method.listDeliveries,
    { triggerId: trigger.id, states: search.outcome ? [outcomeStates[search.outcome]] : [], pageSize: 25, pageToken: "", withTotal: true },
    { ...byToken, refetchInterval: 5_000 },
  );
  const deliveries = pages.data?.pages.flatMap((page) => page.deliveries) ?? [];
  const show = (delivery?: string) => void navigate({ search: (s) => ({ ...s, delivery }) });
  return (
    <>
      <div role="search" aria-label="Filter deliveries" className="flex flex-wrap gap-2 pb-3">
        <Select
          aria-label="Outcome"
          value={search.outcome ?? ""}
          onChange={(e) => void navigate({ search: (s) => ({ ...s, outcome: (e.target.value as Outcome) || undefined }) })}
        >
          <option value="">Any outcome</option>
          {outcomes.map((o) => (
            <option key={o} value={o}>
              {o}
            </option>
          ))}
        </Select>
      </div>
      {pages.isPending ? (
        <Skeletons rows={5} />
      ) : pages.error && deliveries.length === 0 ? (
        <Problem error={pages.error} retry={() => void pages.refetch()} />
      ) : deliveries.length === 0 ? (
        search.outcome ? (
          <Empty title="No deliveries match">Choose another outcome.</Empty>
        ) : trigger.createdBy !== session.userName && !may(session, "admin") ? (
          <Empty title="No deliveries to show">
            Only {trigger.createdBy}, who created the trigger, the owner of its agent, and admins can see its deliveries.
          </Empty>
        ) : (
          <Empty
            title="No deliveries yet"
            command={trigger.kind === TriggerKind.WEBHOOK ? `curl -d '{"hello":"there"}' '${urlOf(trigger.path)}?token=SECRET'` : `deckhand trigger fire ${trigger.name}`}
          >
            Each delivery is recorded here with its request, its prompt and its task.
          </Empty>
        )
      ) : (
        <Table label="Deliveries" head={["Received", "Source", "Outcome", "Task", "Size", ""]}>
          {deliveries.map((d) => (
            <Row key={d.id} selected={d.id === search.delivery}>
              <Cell>
                <Time at={d.receivedAt} />
                <div>
                  <Id value={d.id} />
                </div>
              </Cell>
              <Cell>
                <Literal text={d.event || d.source} /> {d.replayOf && <Badge tone="info">replay</Badge>}
                <div className="text-xs text-dim">{d.sentBy || d.address}</div>
              </Cell>
              <Cell>
                <DeliveryBadge of={d} />
                {d.reason && <div className="pt-1 text-xs text-dim"><Literal text={d.reason} /></div>}
              </Cell>
              <Cell>
                <TaskLink of={d} />
              </Cell>
              <Cell className="whitespace-nowrap">{bytes(d.size)}</Cell>
              <Cell>
                {advanced && (
                  <Button small onClick={() => show(d.id)}>
                    Open
                  </Button>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={pages} shown={deliveries.length}>Older deliveries</More>
      {search.delivery && advanced && <Detail id={search.delivery} show={show} again={() => void pages.refetch()} />}
    </>
  );
}

function TaskLink({ of }: { of: Delivery }) {
  if (!of.taskId) return null;
  return (
    <Link to="/tasks/$task" params={{ task: of.taskId }} className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline">
      {of.taskId}
    </Link>
  );
}

// Detail shows one delivery: its request, its outcome and its prompt.
function Detail({ id, show, again }: { id: string; show: (id?: string) => void; again: () => void }) {
  const query = useQuery(TriggerService.method.getDelivery, { deliveryId: id });
  const replay = useMutation(TriggerService.method.replayDelivery, {
    onSuccess: ({ delivery }) => {
      again();
      toast.success("Delivery replayed.");
      show(delivery?.id);
    },
    onError: showError,
  });
  const d = query.data?.delivery;
  const headers = Object.entries(d?.headers ?? {}).sort(([a], [b]) => a.localeCompare(b));
  return (
    <Dialog open wide onClose={() => show()} title="Delivery">
      {query.isPending ? (
        <Skeletons rows={6} />
      ) : !d ? (
        <Problem error={query.error} retry={() => void query.refetch()} />
      ) : (
        <div className="space-y-4">
          <Facts
            of={[
              ["Outcome", <DeliveryBadge key="b" of={d} />],
              ["Reason", d.reason && <Literal text={d.reason} />],
              ["Task", d.taskId && <TaskLink of={d} />],
              ["Received", <Time key="r" at={d.receivedAt} />],
              ["Handled", d.handledAt && <Time at={d.handledAt} />],
              ["Scheduled for", d.slot && <Time at={d.slot} />],
              ["Source", d.source],
              ["Event", d.event && <Literal text={d.event} />],
              ["Sent by", d.sentBy],
              ["Address", d.address],
              ["Deduplication key", d.key && <Id value={d.key} whole />],
              ["Duplicate of", d.duplicateOf && <OtherDelivery id={d.duplicateOf} show={show} />],
              ["Replay of", d.replayOf && <OtherDelivery id={d.replayOf} show={show} />],
              ["Id", <Id key="i" value={d.id} whole />],
            ]}
          />
          {d.prompt && (
            <section aria-label="Mapped prompt">
              <h3 className="pb-1 text-sm font-semibold">Mapped prompt</h3>
              <LiteralBlock text={d.prompt} label="Mapped prompt" />
            </section>
          )}
          {headers.length > 0 && (
            <section aria-label="Headers">
              <h3 className="pb-1 text-sm font-semibold">Headers</h3>
              <Table label="Headers" head={["Header", "Value"]}>
                {headers.map(([name, value]) => (
                  <Row key={name}>
                    <Cell className="font-mono text-xs"><Literal text={name} /></Cell>
                    <Cell className="font-mono text-xs break-all"><Literal text={value} /></Cell>
                  </Row>
                ))}
              </Table>
            </section>
          )}
          <section aria-label="Body">
            <h3 className="pb-1 text-sm font-semibold">Body, {bytes(d.size)}</h3>
            {d.body.length > 0 ? <LiteralBlock text={bodyText(d.body)} label="Body" /> : <p className="text-dim">Empty.</p>}
          </section>
          <div className="flex justify-end">
            <Button busy={replay.isPending} onClick={() => replay.mutate({ deliveryId: d.id })}>
              <RotateCcw aria-hidden className="size-4" /> Replay
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  );
}

function OtherDelivery({ id, show }: { id: string; show: (id: string) => void }) {
  return (
    <button type="button" className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline" onClick={() => show(id)}>
      {id}
    </button>
  );
}
