import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Secret } from "@/components/Secret";
import { Section } from "@/components/Section";
import { useShortcut } from "@/components/shortcuts";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { DestinationService, DestinationState, NotificationState, type Destination } from "@/gen/deckhand/v1/destination_pb";
import { EditDestination } from "./EditDestination";
import { notificationLooks, notificationStates, whereOf, type NotificationWord } from "./words";

const destinations = createClient(DestinationService, transport);
const route = getRouteApi("/shell/notifications");

// DestinationsPage lists the notification destinations, and the notifications that
// were sent to them.
export function DestinationsPage() {
  const admin = may(useSession(), "admin");
  const [editing, setEditing] = useState<Destination | "new">();
  const [secret, setSecret] = useState("");
  useShortcut("n", "New destination", "Notifications", () => setEditing("new"), admin);
  return (
    <Page
      title="Notifications"
      actions={
        admin && (
          <Button look="primary" onClick={() => setEditing("new")}>
            <Plus aria-hidden className="size-4" /> New destination
          </Button>
        )
      }
    >
      {editing && <EditDestination of={editing === "new" ? undefined : editing} told={setSecret} onClose={() => setEditing(undefined)} />}
      {secret && !editing && (
        <Secret title="Signing secret" secret={secret} hint="Give it to the receiver, which verifies the signature of each message with it." onClose={() => setSecret("")} />
      )}
      {admin ? (
        <>
          <Destinations edit={setEditing} told={setSecret} />
          <Notifications />
        </>
      ) : (
        <Empty title="Only admins can manage notifications." />
      )}
    </Page>
  );
}

function Destinations(props: { edit: (d: Destination) => void; told: (secret: string) => void }) {
  const navigate = route.useNavigate();
  const [busy, setBusy] = useState("");
  const [leaving, setLeaving] = useState<Destination>();
  const [rotating, setRotating] = useState<Destination>();
  // What is sent has no events: it is asked for again.
  const list = useInfiniteQuery(DestinationService.method.listDestinations, { pageSize: 100, pageToken: "" }, { ...byToken, refetchInterval: 10_000 });
  const all = list.data?.pages.flatMap((page) => page.destinations) ?? [];
  const refresh = useRefresh(DestinationService);
  // act runs an action on one destination, and shows its result in a toast.
  const act = async (d: Destination, fn: () => Promise<string>) => {
    setBusy(d.id);
    try {
      toast.success(await fn());
    } catch (e) {
      showError(e);
    } finally {
      setBusy("");
      await refresh();
    }
  };
  const test = async (d: Destination) => {
    const { notification } = await destinations.testDestination({ destinationId: d.id });
    if (notification?.state !== NotificationState.DELIVERED) throw new Error(`Delivery failed: ${notification?.error || "no answer"}`);
    return "Test notification delivered.";
  };
  const redrive = async (d: Destination) => {
    const { redriven } = await destinations.redriveNotifications({ which: { case: "destinationId", value: d.id } });
    return `Resending ${redriven} ${redriven === 1n ? "notification" : "notifications"}.`;
  };
  if (list.isPending) return <Skeletons rows={3} />;
  if (list.error && all.length === 0) return <Problem error={list.error} retry={() => void list.refetch()} />;
  if (all.length === 0) {
    return (
      <Empty title="No notification destinations yet" command="deckhand destination create hooks --webhook https://hooks.example.com/deckhand">
        A destination is a webhook, a Slack channel, an email address or a NATS subject that receives approvals, questions, failures, budgets and escalations.
      </Empty>
    );
  }
  return (
    <>
      <Table label="Destinations" head={["Destination", "Address", "Events", "State", "Pending", "Dead-lettered", ""]}>
        {all.map((d) => (
          <Row key={d.id}>
            <Cell>
              <div className="font-medium">{d.name}</div>
              <div className="text-xs text-dim">
                {d.kind}
                {d.secretEndsIn && `, secret …${d.secretEndsIn}`}
              </div>
            </Cell>
            <Cell className="break-all">{whereOf(d)}</Cell>
            <Cell>
              {d.spec?.events.join(", ") || (d.kind === "nats" ? "all events" : "everything that needs a person")}
              {d.spec && d.spec.agents.length > 0 && <div className="text-xs text-dim">only agents {d.spec.agents.join(", ")}</div>}
            </Cell>
            <Cell>
              {d.state === DestinationState.ENABLED ? <Badge tone="good" dot>enabled</Badge> : <Badge title={d.reason}>disabled</Badge>}
              {d.reason && <div className="pt-1 text-xs text-dim"><Literal text={d.reason} /></div>}
            </Cell>
            <Cell>{String(d.pending)}</Cell>
            <Cell>{d.dead > 0n ? <span className="text-bad">{String(d.dead)}</span> : "0"}</Cell>
            <Cell>
              <div className="flex flex-wrap gap-1">
                <Button small busy={busy === d.id} onClick={() => void act(d, () => test(d))} aria-label={`Test ${d.name}`}>
                  Test
                </Button>
                {d.dead > 0n && (
                  <Button small busy={busy === d.id} onClick={() => void act(d, () => redrive(d))} aria-label={`Redrive ${d.name}`}>
                    Redrive
                  </Button>
                )}
                <Button small onClick={() => void navigate({ search: { of: d.id } })} aria-label={`History of ${d.name}`}>
                  History
                </Button>
                {d.state === DestinationState.ENABLED ? (
                  <Button
                    small
                    busy={busy === d.id}
                    aria-label={`Disable ${d.name}`}
                    onClick={() =>
                      void act(d, async () => {
                        await destinations.disableDestination({ destinationId: d.id });
                        return `Notifications to ${d.name} disabled.`;
                      })
                    }
                  >
                    Disable
                  </Button>
                ) : (
                  <Button
                    small
                    busy={busy === d.id}
                    aria-label={`Enable ${d.name}`}
                    onClick={() =>
                      void act(d, async () => {
                        await destinations.enableDestination({ destinationId: d.id });
                        return `Notifications to ${d.name} enabled.`;
                      })
                    }
                  >
                    Enable
                  </Button>
                )}
                <Button small onClick={() => props.edit(d)} aria-label={`Change ${d.name}`}>
                  Change
                </Button>
                {d.kind === "webhook" && (
                  <Button small onClick={() => setRotating(d)} aria-label={`Rotate the secret of ${d.name}`}>
                    Rotate
                  </Button>
                )}
                <Button small look="danger" onClick={() => setLeaving(d)} aria-label={`Delete ${d.name}`}>
                  Delete
                </Button>
              </div>
            </Cell>
          </Row>
        ))}
      </Table>
      <More pages={list}>More destinations</More>
      <Confirm
        open={rotating !== undefined}
        onClose={() => setRotating(undefined)}
        title={`Rotate the secret of ${rotating?.name}`}
        action="Rotate"
        run={async () => {
          const { secret } = await destinations.rotateDestinationSecret({ destinationId: rotating?.id });
          await refresh();
          props.told(secret);
        }}
      >
        <p>For 24 hours, messages are signed with both the old and the new secret.</p>
      </Confirm>
      <Confirm
        open={leaving !== undefined}
        onClose={() => setLeaving(undefined)}
        title={`Delete ${leaving?.name}`}
        action="Delete"
        typed={leaving?.name}
        danger
        run={async () => {
          await destinations.deleteDestination({ destinationId: leaving?.id });
          await refresh();
          toast.success(`${leaving?.name} deleted.`);
        }}
      >
        <p>It receives no further notifications. Pending ones are dropped.</p>
      </Confirm>
    </>
  );
}

function Notifications() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const refresh = useRefresh(DestinationService);
  const pages = useInfiniteQuery(
    DestinationService.method.listNotifications,
    { destinationId: search.of ?? "", states: search.state ? [notificationStates[search.state]] : [], pageSize: 25, pageToken: "", withTotal: true },
    // What is sent has no events: it is asked for again.
    { ...byToken, refetchInterval: 10_000 },
  );
  const notifications = pages.data?.pages.flatMap((page) => page.notifications) ?? [];
  const again = async (notificationId: string) => {
    try {
      await destinations.redriveNotifications({ which: { case: "notificationId", value: notificationId } });
      toast.success("Resending the notification.");
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  return (
    <Section
      title="Sent notifications"
      actions={
        <>
          <Select
            aria-label="State"
            value={search.state ?? ""}
            onChange={(e) => void navigate({ search: (s) => ({ ...s, state: (e.target.value as NotificationWord) || undefined }) })}
          >
            <option value="">Any state</option>
            {Object.keys(notificationStates).map((s) => (
              <option key={s} value={s}>
                {s}
              </option>
            ))}
          </Select>
          {(search.of || search.state) && <Button onClick={() => void navigate({ search: {} })}>Clear</Button>}
        </>
      }
    >
      {pages.isPending ? (
        <Skeletons rows={3} />
      ) : pages.error && notifications.length === 0 ? (
        <Problem error={pages.error} retry={() => void pages.refetch()} />
      ) : notifications.length === 0 ? (
        <p className="text-dim">{search.of || search.state ? "No notifications match these filters." : "No notifications sent yet."}</p>
      ) : (
        <Table label="Sent notifications" head={["Event", "Destination", "State", "Attempts", "Time", ""]}>
          {notifications.map((n) => {
            const look = notificationLooks[n.state] ?? notificationLooks[0];
            return (
              <Row key={n.id}>
                <Cell>
                  {n.type}
                  <div>
                    {n.taskId ? (
                      <Link to="/tasks/$task" params={{ task: n.taskId }} className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline">
                        {n.taskId}
                      </Link>
                    ) : (
                      <Id value={n.id} />
                    )}
                  </div>
                </Cell>
                <Cell>{n.destinationName}</Cell>
                <Cell>
                  <Badge tone={look.tone} dot>
                    {look.word}
                  </Badge>
                  {n.error && <div className="pt-1 text-xs text-bad"><Literal text={n.error} /></div>}
                </Cell>
                <Cell>{n.attempts}</Cell>
                <Cell>
                  <Time at={n.createdAt} />
                  {n.state === NotificationState.PENDING && n.nextAt && n.attempts > 0 && (
                    <div className="text-xs text-dim">
                      next attempt <Time at={n.nextAt} />
                    </div>
                  )}
                </Cell>
                <Cell>
                  {n.state === NotificationState.DEAD && (
                    <Button small onClick={() => void again(n.id)}>
                      Redrive
                    </Button>
                  )}
                </Cell>
              </Row>
            );
          })}
        </Table>
      )}
      <More pages={pages} shown={notifications.length}>Load older</More>
    </Section>
  );
}
