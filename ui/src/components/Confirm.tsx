import { useState, type ReactNode } from "react";
import { Field, Input } from "./Field";
import { FormDialog } from "./FormDialog";

// Confirm asks before an action that cannot be undone. With typed, the person
// must type that word first.
export function Confirm(props: {
  open: boolean;
  onClose: () => void;
  title: string;
  action: string;
  typed?: string;
  danger?: boolean;
  // Asks for a reason, which is stored in the audit log.
  reason?: boolean;
  run: (reason: string) => Promise<unknown>;
  children?: ReactNode;
}) {
  return props.open ? <Open {...props} /> : null;
}

function Open(props: Parameters<typeof Confirm>[0]) {
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  return (
    <FormDialog
      title={props.title}
      action={props.action}
      danger={props.danger}
      ready={!props.typed || typed.trim() === props.typed}
      run={() => props.run(reason.trim())}
      onClose={props.onClose}
    >
      {props.children}
      {props.reason && (
        <Field label="Reason (stored in the audit log)">
          <Input value={reason} onChange={(e) => setReason(e.target.value)} maxLength={1000} />
        </Field>
      )}
      {props.typed && (
        <Field label={`Type ${props.typed} to confirm`}>
          <Input value={typed} onChange={(e) => setTyped(e.target.value)} autoComplete="off" autoFocus />
        </Field>
      )}
    </FormDialog>
  );
}
