import { createClient } from "@connectrpc/connect";
import { useRef, useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { DestinationService, type Destination } from "@/gen/deckhand/v1/destination_pb";
import { draftOf, groups, kinds, problemsOf, specOf, type Draft, type Kind } from "./draft";

const destinations = createClient(DestinationService, transport);
const labels: Record<Kind, string> = { webhook: "Webhook", slack: "Slack (or compatible)", email: "Email", nats: "NATS" };
const secrets: Partial<Record<Kind, [label: string, hint: string]>> = {
  webhook: ["Secret", "whsec_ and base64, if the receiver issued one. Leave empty to generate one."],
  slack: ["Incoming webhook URL", "Stored as a secret: anybody who has it can post to the channel."],
  email: ["Password", "Leave empty if the server needs no login."],
};

// EditDestination creates a destination, or changes one. A new signing secret, which
// the hub returns only once, goes to told.
export function EditDestination(props: { of?: Destination; told: (secret: string) => void; onClose: () => void }) {
  const { of } = props;
  const refresh = useRefresh(DestinationService);
  const [draft, setDraft] = useState(() => draftOf(of));
  const [tried, setTried] = useState(false);
  // Secrets are in no state and no cache: one that is typed is read from its box
  // when it is sent.
  const secret = useRef<HTMLInputElement>(null);
  const set = (change: Partial<Draft>) => setDraft((d) => ({ ...d, ...change }));
  const all = problemsOf(draft);
  const problems = tried ? all : {};
  const [label, hint] = secrets[draft.kind] ?? [];
  const text = (name: keyof Draft & ("url" | "host" | "port" | "username" | "from" | "to" | "agents"), title: string, about?: string) => (
    <Field label={title} hint={about} problem={problems[name]}>
      <Input value={draft[name]} onChange={(e) => set({ [name]: e.target.value })} autoComplete="off" maxLength={2000} />
    </Field>
  );
  return (
    <FormDialog
      title={of ? `Change ${of.name}` : "New destination"}
      action={of ? "Save" : "Create destination"}
      onClose={props.onClose}
      run={async () => {
        setTried(true);
        const wrong = Object.entries(all)[0];
        if (wrong) throw new Error(`${wrong[0]}: ${wrong[1]}`);
        const sent = { spec: specOf(draft, of?.spec), secret: secret.current?.value.trim() ?? "" };
        if (of) await destinations.updateDestination({ destinationId: of.id, ...sent });
        else {
          const made = await destinations.createDestination({ name: draft.name, ...sent });
          if (made.secret) props.told(made.secret);
        }
        await refresh();
        toast.success(of ? "Saved." : `Destination ${draft.name} created.`);
      }}
    >
      <Field label="Name" problem={problems.name}>
        <Input value={draft.name} onChange={(e) => set({ name: e.target.value })} autoComplete="off" maxLength={64} disabled={of !== undefined} />
      </Field>
      <Field label="Kind">
        <Select className="w-full" value={draft.kind} onChange={(e) => set({ kind: e.target.value as Kind })} disabled={of !== undefined}>
          {kinds.map((k) => (
            <option key={k} value={k}>
              {labels[k]}
            </option>
          ))}
        </Select>
      </Field>
      {draft.kind === "webhook" && text("url", "URL")}
      {draft.kind === "email" && (
        <div className="grid gap-3 sm:grid-cols-2">
          {text("host", "Server")}
          {text("port", "Port", "Defaults to 587, or 465 with TLS.")}
          <Field label="Security">
            <Select className="w-full" value={draft.security} onChange={(e) => set({ security: e.target.value })}>
              <option value="">STARTTLS</option>
              <option value="tls">TLS</option>
              <option value="none">None</option>
            </Select>
          </Field>
          {text("username", "User name")}
          {text("from", "From")}
          {text("to", "To", "Email addresses, separated by commas.")}
        </div>
      )}
      {label && (
        <Field label={label} hint={of ? "Leave empty to keep the current one." : hint}>
          <Input ref={secret} type="password" autoComplete="off" maxLength={2000} />
        </Field>
      )}
      <fieldset>
        <legend className="text-sm font-medium">Events</legend>
        <div className="grid grid-cols-2 gap-x-4">
          {groups.map((g) => (
            <label key={g} className="flex min-h-7 items-center gap-2">
              <input
                type="checkbox"
                checked={draft.events.includes(g)}
                onChange={(e) => set({ events: e.target.checked ? [...draft.events, g] : draft.events.filter((x) => x !== g) })}
              />
              {g}
            </label>
          ))}
        </div>
        <p className="text-xs text-dim">None selected: everything that needs a person (NATS: all events).</p>
      </fieldset>
      {text("agents", "Agents", "Names, separated by commas. Leave empty for all agents.")}
    </FormDialog>
  );
}
