import { createClient } from "@connectrpc/connect";
import { useRef, useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Field, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { CredentialService } from "@/gen/deckhand/v1/credential_pb";
import { CredentialFields, TextOf } from "./CredentialFields";
import { emptyDraft, kindLabels, kinds, problemsOf, requestOf, valueOf, type Draft, type Kind } from "./draft";
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
      <TextOf field={{ name: "name", label: "Name" }} draft={draft} problems={problems} set={set} />
      <Field label="Kind">
        <Select className="w-full" value={draft.kind} onChange={(e) => set({ kind: e.target.value as Kind })}>
          {kinds.map((k) => (
            <option key={k} value={k}>
              {kindLabels[k]}
            </option>
          ))}
        </Select>
      </Field>
      <CredentialFields draft={draft} problems={problems} set={set}>
        <ValueFields kind={draft.kind} typed={typed} />
      </CredentialFields>
    </FormDialog>
  );
}
