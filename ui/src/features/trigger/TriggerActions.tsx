import { createClient } from "@connectrpc/connect";
import { newIdempotencyKey } from "@deckhand/sdk";
import { useNavigate } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Field, Select, TextArea } from "@/components/Field";
import { Secret } from "@/components/Secret";
import { showError } from "@/components/showError";
import { Likely } from "@/features/history/Likely";
import { TriggerKind, TriggerService, TriggerState, type Trigger } from "@/gen/deckhand/v1/trigger_pb";
import { EditTrigger } from "./EditTrigger";

const triggers = createClient(TriggerService, transport);

type Act = "fire" | "edit" | "disable" | "rotate" | "delete";

const keeps: [seconds: number, words: string][] = [
  [86_400, "24 hours"],
  [604_800, "7 days"],
  [0, "not at all"],
];

// TriggerActions are the buttons of a trigger.
export function TriggerActions({ trigger }: { trigger: Trigger }) {
  const navigate = useNavigate();
  const [act, setAct] = useState<Act>();
  const [goal, setGoal] = useState("");
  const [keep, setKeep] = useState(86_400);
  const [secret, setSecret] = useState("");
  // One press of the button is one run, however often it is sent.
  const [once, setOnce] = useState("");
  const triggerId = trigger.id;
  const close = () => setAct(undefined);
  const refresh = useRefresh(TriggerService);
  const enable = async () => {
    try {
      await triggers.enableTrigger({ triggerId });
      toast.success(`${trigger.name} enabled.`, {
        action: { label: "Undo", onClick: () => void triggers.disableTrigger({ triggerId }).then(refresh) },
      });
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  return (
    <>
      <Button
        look="primary"
        onClick={() => {
          setOnce(newIdempotencyKey());
          setAct("fire");
        }}
      >
        <Play aria-hidden className="size-4" /> Fire
      </Button>
      {trigger.state === TriggerState.ENABLED ? (
        <Button onClick={() => setAct("disable")}>Disable</Button>
      ) : (
        <Button onClick={() => void enable()}>Enable</Button>
      )}
      <Button onClick={() => setAct("edit")}>Change</Button>
      {act === "edit" && <EditTrigger trigger={trigger} onClose={close} />}
      {trigger.kind === TriggerKind.WEBHOOK && <Button onClick={() => setAct("rotate")}>Rotate secret</Button>}
      <Button look="danger" onClick={() => setAct("delete")}>
        Delete
      </Button>
      <Confirm
        open={act === "fire"}
        onClose={close}
        title={`Fire ${trigger.name}`}
        action="Fire"
        run={async () => {
          const { delivery } = await triggers.fireTrigger({ triggerId, goal: goal.trim(), idempotencyKey: once });
          setGoal("");
          await refresh();
          const taskId = delivery?.taskId;
          toast.success(`${trigger.name} fired.`, {
            action: taskId ? { label: "Open task", onClick: () => void navigate({ to: "/tasks/$task", params: { task: taskId } }) } : undefined,
          });
        }}
      >
        <p>{trigger.agentName} starts a run now.</p>
        <Field label="Goal" hint="Optional: leave empty for the trigger's own goal.">
          <TextArea rows={3} value={goal} onChange={(e) => setGoal(e.target.value)} maxLength={8000} />
        </Field>
        <Likely agentId={trigger.agentId} />
      </Confirm>
      <Confirm
        open={act === "disable"}
        onClose={close}
        title={`Disable ${trigger.name}`}
        action="Disable"
        reason
        run={async (reason) => {
          await triggers.disableTrigger({ triggerId, reason });
          await refresh();
          toast.success(`${trigger.name} disabled.`, { action: { label: "Undo", onClick: () => void enable() } });
        }}
      >
        <p>It does not fire until somebody enables it. Running tasks continue.</p>
      </Confirm>
      <Confirm
        open={act === "rotate"}
        onClose={close}
        title={`Rotate the secret of ${trigger.name}`}
        action="Rotate"
        run={async () => {
          const answer = await triggers.rotateTriggerSecret({ triggerId, keep: { seconds: BigInt(keep) } });
          setSecret(answer.secret);
          await refresh();
        }}
      >
        <p>Give the new secret to the sender.</p>
        <Field label="Accept the current secret for another">
          <Select value={keep} onChange={(e) => setKeep(Number(e.target.value))}>
            {keeps.map(([n, words]) => (
              <option key={n} value={n}>
                {words}
              </option>
            ))}
          </Select>
        </Field>
      </Confirm>
      <Confirm
        open={act === "delete"}
        onClose={close}
        title={`Delete ${trigger.name}`}
        action="Delete"
        typed={trigger.name}
        danger
        run={async () => {
          await triggers.deleteTrigger({ triggerId });
          await navigate({ to: "/triggers" });
          await refresh();
          toast.success(`${trigger.name} deleted.`);
        }}
      >
        <p>It never fires again, and its URL returns 404. Its deliveries stay until their retention ends.</p>
      </Confirm>
      {secret && (
        <Secret title={`New secret of ${trigger.name}`} secret={secret} hint="Give it to the sender." onClose={() => setSecret("")} />
      )}
    </>
  );
}
