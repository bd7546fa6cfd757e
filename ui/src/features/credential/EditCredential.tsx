import { createClient } from "@connectrpc/connect";
import { useRef, useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { FormDialog } from "@/components/FormDialog";
import { CredentialService, type Credential } from "@/gen/deckhand/v1/credential_pb";
import { CredentialFields } from "./CredentialFields";
import { draftOf, problemsOf, requestOf, valueOf, type Draft } from "./draft";
import { missing, readTyped, ValueFields, type Typed } from "./ValueFields";

const credentials = createClient(CredentialService, transport);

// EditCredential changes what a credential is for. Its value stays unless one is entered.
export function EditCredential(props: { of: Credential; onClose: () => void }) {
  const refresh = useRefresh(CredentialService);
  const [draft, setDraft] = useState(() => draftOf(props.of));
  const typed: Typed = useRef({});
  const problems = problemsOf(draft);
  return (
    <FormDialog
      title={`Edit ${props.of.name}`}
      action="Save"
      onClose={props.onClose}
      check={() => Object.keys(problems).length === 0}
      run={async () => {
        const value = readTyped(draft.kind, typed);
        const entered = Object.keys(value).length > 0;
        const empty = entered ? missing(draft.kind, value) : undefined;
        if (empty) throw new Error(`${empty} is empty.`);
        const { hosts, ports, methods, paths, agents, variable, roots, settings, ...rest } = requestOf(draft, valueOf(value));
        await credentials.updateCredential({
          name: props.of.name,
          version: props.of.version,
          hosts,
          ports,
          methods,
          paths,
          agents,
          variable,
          roots,
          settings,
          private: rest.private,
          ...(entered ? { value: rest.value } : {}),
        });
        await refresh();
        toast.success(`Credential ${props.of.name} changed.`);
      }}
    >
      <CredentialFields draft={draft} problems={problems} set={(change: Partial<Draft>) => setDraft((d) => ({ ...d, ...change }))}>
        <details>
          <summary className="cursor-pointer text-sm">New value</summary>
          <div className="space-y-3 pt-3">
            <p className="text-xs text-dim">The value stays if this is empty. It is needed for new hosts, ports, URLs and certificates.</p>
            <ValueFields kind={draft.kind} typed={typed} />
          </div>
        </details>
      </CredentialFields>
    </FormDialog>
  );
}
