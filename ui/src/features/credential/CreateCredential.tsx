import { createClient } from "@connectrpc/connect";
import { useRef, useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { CredentialService } from "@/gen/deckhand/v1/credential_pb";
import { emptyDraft, kindLabels, kinds, problemsOf, requestOf, settingsOf, valueOf, type Draft, type FormField, type Kind } from "./draft";
import { missing, readTyped, ValueFields, type Typed } from "./ValueFields";

const credentials = createClient(CredentialService, transport);

// CreateCredential is the form of a new credential. Its fields depend on the kind.
export function CreateCredential(props: { onClose: () => void }) {
  const refresh = useRefresh(CredentialService);
  const [draft, setDraft] = useState(emptyDraft);
  const [tried, setTried] = useState(false);
  const typed: Typed = useRef({});
  const set = (change: Partial<Draft>) => setDraft((d) => ({ ...d, ...change }));
  const all = problemsOf(draft);
  const problems = tried ? all : {};
  const text = ({ name, label, hint }: FormField) => (
    <Field key={name} label={label} hint={hint} problem={problems[name]}>
      <Input value={draft[name]} onChange={(e) => set({ [name]: e.target.value })} autoComplete="off" maxLength={4000} />
    </Field>
  );
  const ownHosts = draft.kind === "github_app" || draft.kind === "gitlab";
  return (
    <FormDialog
      title="New credential"
      action="Create credential"
      onClose={props.onClose}
      check={() => {
        setTried(true);
        return Object.keys(all).length === 0;
      }}
      run={async () => {
        const value = readTyped(draft.kind, typed);
        const empty = missing(draft.kind, value);
        if (empty) throw new Error(`${empty} is empty.`);
        await credentials.createCredential(requestOf(draft, valueOf(value)));
        await refresh();
        toast.success(`Credential ${draft.name} created.`);
      }}
    >
      {text({ name: "name", label: "Name" })}
      <Field label="Kind">
        <Select className="w-full" value={draft.kind} onChange={(e) => set({ kind: e.target.value as Kind })}>
          {kinds.map((k) => (
            <option key={k} value={k}>
              {kindLabels[k]}
            </option>
          ))}
        </Select>
      </Field>
      {settingsOf[draft.kind].map(text)}
      <ValueFields kind={draft.kind} typed={typed} />
      {text({ name: "hosts", label: "Hosts", hint: ownHosts ? "Leave empty for those of the service." : "Names or addresses, separated by commas." })}
      {text({ name: "agents", label: "Agents", hint: "Names, separated by commas, or * for all. Empty: no agent." })}
      <details>
        <summary className="cursor-pointer text-sm">More</summary>
        <div className="space-y-3 pt-3">
          {text({ name: "ports", label: "Ports", hint: "Default: 443" })}
          {text({ name: "methods", label: "Methods", hint: "Such as GET, POST. Empty: all." })}
          {text({ name: "paths", label: "Paths", hint: "Such as /repos/{owner}/{repo}/**. Empty: all." })}
          {text({ name: "variable", label: "Variable with a placeholder", hint: "For programs that need a token to start, such as GITHUB_TOKEN." })}
          <label className="flex min-h-7 items-center gap-2 text-sm">
            <input type="checkbox" checked={draft.private} onChange={(e) => set({ private: e.target.checked })} />
            Hosts may be in private networks
          </label>
          <Field label="Certificates of private authorities (PEM)">
            <TextArea value={draft.roots} onChange={(e) => set({ roots: e.target.value })} rows={3} spellCheck={false} className="font-mono text-xs" />
          </Field>
        </div>
      </details>
    </FormDialog>
  );
}
