import { createClient } from "@connectrpc/connect";
import { useRef } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { FormDialog } from "@/components/FormDialog";
import { CredentialService, type Credential } from "@/gen/deckhand/v1/credential_pb";
import { kinds, valueOf } from "./draft";
import { missing, readTyped, ValueFields, type Typed } from "./ValueFields";

const credentials = createClient(CredentialService, transport);

// RotateCredential replaces the value of a credential.
export function RotateCredential(props: { of: Credential; onClose: () => void }) {
  const refresh = useRefresh(CredentialService);
  const typed: Typed = useRef({});
  const kind = kinds.find((k) => k === props.of.kind) ?? "bearer";
  return (
    <FormDialog
      title={`Rotate ${props.of.name}`}
      action="Replace value"
      onClose={props.onClose}
      run={async () => {
        const value = readTyped(kind, typed);
        const empty = missing(kind, value);
        if (empty) throw new Error(`${empty} is empty.`);
        await credentials.rotateCredential({ name: props.of.name, value: valueOf(value) });
        await refresh();
        toast.success(`Value of ${props.of.name} replaced.`);
      }}
    >
      <p className="text-sm">New requests use the new value at once. Revoke the previous one at its server.</p>
      <ValueFields kind={kind} typed={typed} />
    </FormDialog>
  );
}
