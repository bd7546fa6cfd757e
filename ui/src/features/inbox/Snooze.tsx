import { createClient } from "@connectrpc/connect";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useQueryClient } from "@tanstack/react-query";
import { Clock } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { showError } from "@/components/showError";
import { useShortcut } from "@/components/shortcuts";
import { absolute, millis, Time } from "@/components/Time";
import { InboxService, InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { choicesUntil, localTime } from "./snoozes";

const inbox = createClient(InboxService, transport);
const entry = "flex min-h-8 cursor-pointer items-center gap-4 rounded px-2 outline-none data-[highlighted]:bg-raised max-sm:min-h-11";

// Snooze leaves an open item out of one's own list until a time, and puts it back.
export function Snooze(props: { item: InboxItem; onSnoozed: () => void }) {
  const { item } = props;
  const queries = useQueryClient();
  const [open, setOpen] = useState(false);
  const [picking, setPicking] = useState(false);
  const [busy, setBusy] = useState(false);
  const expires = millis(item.expiresAt);
  const [now, setNow] = useState(() => Date.now());
  const choices = choicesUntil(now, expires);
  const waits = item.state === InboxState.OPEN;
  const show = (to: boolean) => {
    setNow(Date.now());
    setOpen(to);
  };
  useShortcut("z", "Snooze the item", "Inbox", () => show(true), waits && !item.snoozedUntil);
  if (!waits) return null;
  const send = async (until: number | undefined) => {
    await inbox.snoozeInboxItem({ itemId: item.id, until: until === undefined ? undefined : timestampFromMs(until) });
    if (until !== undefined) toast("Snoozed", { description: `It comes back ${absolute(until)}.`, action: { label: "Undo", onClick: () => void set(undefined) } });
    await queries.invalidateQueries();
    if (until !== undefined) props.onSnoozed();
  };
  const set = async (until: number | undefined) => {
    setBusy(true);
    try {
      await send(until);
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  if (item.snoozedUntil)
    return (
      <p className="flex flex-wrap items-center gap-2 text-xs text-dim">
        <span>
          Snoozed, back <Time at={item.snoozedUntil} />
        </span>
        <Button small busy={busy} onClick={() => void set(undefined)}>
          Put back now
        </Button>
      </p>
    );
  return (
    <>
      <DropdownMenu.Root open={open} onOpenChange={show}>
        <DropdownMenu.Trigger asChild>
          <Button small look="quiet" busy={busy} title="Leave it out of your list for a while (z)" className="max-sm:min-h-11">
            <Clock aria-hidden className="size-3.5" /> Snooze
          </Button>
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal>
          <DropdownMenu.Content align="end" className="z-50 w-72 rounded-md border bg-panel p-1 text-sm shadow-lg">
            {choices.map((c) => (
              <DropdownMenu.Item key={c.label} className={entry} onSelect={() => void set(c.at)}>
                <span className="flex-1">{c.label}</span>
                <span className="text-xs text-dim">{c.when}</span>
              </DropdownMenu.Item>
            ))}
            <DropdownMenu.Item className={entry} onSelect={() => setPicking(true)}>
              Choose a time…
            </DropdownMenu.Item>
            {expires !== undefined && (
              <p className="border-t px-2 py-1.5 text-xs text-dim">
                It expires <Time at={expires} />, and comes back before.
              </p>
            )}
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      {picking && <PickTime now={now} expires={expires} onPick={send} onClose={() => setPicking(false)} />}
    </>
  );
}

function PickTime(props: { now: number; expires: number | undefined; onPick: (at: number) => Promise<void>; onClose: () => void }) {
  const [text, setText] = useState(() => localTime(props.now + 3_600_000));
  const at = new Date(text).getTime();
  const problem = Number.isNaN(at)
    ? "Enter a date and a time."
    : at <= Date.now()
      ? "This time has passed."
      : props.expires !== undefined && at >= props.expires
        ? `The item expires before, ${absolute(props.expires)}.`
        : undefined;
  return (
    <FormDialog title="Snooze until" action="Snooze" ready={problem === undefined} run={() => props.onPick(at)} onClose={props.onClose}>
      <Field label="Comes back" problem={problem}>
        <Input type="datetime-local" value={text} onChange={(e) => setText(e.target.value)} />
      </Field>
    </FormDialog>
  );
}
