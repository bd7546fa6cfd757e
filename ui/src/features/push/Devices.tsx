import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useEffect, useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { whatIsMissing } from "@/features/passkey/Passkeys";
import { browserOf } from "@/features/setting/browser";
import { PushService, type PushDevice } from "@/gen/deckhand/v1/push_pb";
import { SessionService } from "@/gen/deckhand/v1/session_pb";
import { pushSupported, subscribe, subscribed, unsubscribe } from "./subscription";

const push = createClient(PushService, transport);

const groups: [string, string][] = [
  ["approvals", "Approvals and reviews"],
  ["questions", "Questions"],
  ["failures", "Failed tasks"],
  ["budgets", "Budgets and limits"],
  ["escalations", "Escalations"],
];

// Devices is the part of the settings about the devices that get notifications.
export function Devices() {
  const methods = useQuery(SessionService.method.getLoginMethods, {});
  const list = useQuery(PushService.method.listPushDevices, {});
  const refresh = useRefresh(PushService);
  const [adding, setAdding] = useState(false);
  const [editing, setEditing] = useState<PushDevice>();
  const [here, setHere] = useState<string>();
  useEffect(() => void subscribed().then(setHere), [list.data]);
  const devices = list.data?.devices ?? [];
  const missing = whatIsMissing(methods.data) ?? (methods.data && !pushSupported() ? "This browser shows no notifications. On an iPhone, add the console to the home screen first." : undefined);
  const test = async (d: PushDevice) => {
    try {
      const { accepted, error } = await push.testPushDevice({ deviceId: d.id });
      if (accepted) toast(`Sent to ${d.name}`);
      else showError(new Error(`The push service of ${d.name} rejected the notification: ${error}`));
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  const remove = async (d: PushDevice) => {
    try {
      await push.deletePushDevice({ deviceId: d.id });
      if (d.id === here) await unsubscribe();
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  return (
    <Section
      title="Notifications on your devices"
      actions={
        <Button disabled={missing !== undefined} onClick={() => setAdding(true)}>
          Add this device
        </Button>
      }
    >
      {missing !== undefined && (
        <p role="note" className="mb-2 rounded-lg border border-warn bg-panel p-3 break-words">
          {missing}
        </p>
      )}
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : devices.length === 0 ? (
        <p className="rounded-lg border bg-panel p-3 text-dim">No devices. A phone or browser that you add is told when an agent waits for you.</p>
      ) : (
        <Table label="Devices" head={["Device", "Notifies about", "Added", ""]}>
          {devices.map((d) => (
            <Row key={d.id}>
              <Cell className="break-words">
                {d.name} {d.id === here && <Badge tone="good">this device</Badge>}
              </Cell>
              <Cell>
                {groups
                  .filter(([g]) => d.events.includes(g))
                  .map(([, label]) => label)
                  .join(", ")}
              </Cell>
              <Cell>
                <Time at={d.createdAt} />
              </Cell>
              <Cell className="text-right">
                <span className="inline-flex flex-wrap justify-end gap-2">
                  <Button small aria-label={`Send a test to ${d.name}`} onClick={() => void test(d)}>
                    Send test
                  </Button>
                  <Button small aria-label={`Edit ${d.name}`} onClick={() => setEditing(d)}>
                    Edit
                  </Button>
                  <Button small look="danger" aria-label={`Remove ${d.name}`} onClick={() => void remove(d)}>
                    Remove
                  </Button>
                </span>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {adding && (
        <Edit
          title="Notify this device"
          action="Add device"
          name={browserOf(navigator.userAgent)}
          events={groups.map(([g]) => g)}
          onClose={() => setAdding(false)}
          run={async (name, events) => {
            const { publicKey } = await push.getPushKey({});
            const s = await subscribe(publicKey);
            const { device } = await push.createPushDevice({ name, events, ...s });
            if (device) setHere(await subscribed(device.id));
            toast("Device added");
            await refresh();
          }}
        />
      )}
      {editing && (
        <Edit
          title="Edit device"
          action="Save"
          name={editing.name}
          events={editing.events}
          onClose={() => setEditing(undefined)}
          run={async (name, events) => {
            await push.updatePushDevice({ deviceId: editing.id, name, events });
            await refresh();
          }}
        />
      )}
    </Section>
  );
}

function Edit(props: {
  title: string;
  action: string;
  name: string;
  events: string[];
  onClose: () => void;
  run: (name: string, events: string[]) => Promise<unknown>;
}) {
  const [name, setName] = useState(props.name);
  const [events, setEvents] = useState(props.events);
  return (
    <FormDialog
      title={props.title}
      action={props.action}
      ready={name.trim() !== "" && events.length > 0}
      onClose={props.onClose}
      run={() => props.run(name.trim(), events)}
    >
      <Field label="Name" hint="To tell your devices apart.">
        <Input value={name} maxLength={100} onChange={(e) => setName(e.target.value)} autoFocus />
      </Field>
      <fieldset>
        <legend className="text-sm font-medium">Notify about</legend>
        {groups.map(([group, label]) => (
          <label key={group} className="flex min-h-7 items-center gap-2">
            <input
              type="checkbox"
              className="size-4 accent-accent"
              checked={events.includes(group)}
              onChange={(e) => setEvents(e.target.checked ? [...events, group] : events.filter((g) => g !== group))}
            />
            {label}
          </label>
        ))}
      </fieldset>
      <p className="text-xs text-dim">A notification names the agent, the task and the tool. It never has arguments or output.</p>
    </FormDialog>
  );
}
