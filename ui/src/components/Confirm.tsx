import { useState, type ReactNode } from "react";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { Field, Input } from "./Field";
import { Problem } from "./Problem";

// Confirm asks before something that cannot be taken back. With typed, the
// person types that word first.
export function Confirm(props: {
  open: boolean;
  onClose: () => void;
  title: string;
  action: string;
  typed?: string;
  danger?: boolean;
  // A reason goes into the record.
  reason?: boolean;
  run: (reason: string) => Promise<unknown>;
  children?: ReactNode;
}) {
  return props.open ? <Open {...props} /> : null;
}

function Open(props: Parameters<typeof Confirm>[0]) {
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const ready = !props.typed || typed.trim() === props.typed;
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await props.run(reason.trim());
      props.onClose();
    } catch (e) {
      setError(e);
      setBusy(false);
    }
  };
  return (
    <Dialog open onClose={props.onClose} title={props.title}>
      <form
        className="space-y-3"
        onSubmit={(e) => {
          e.preventDefault();
          if (ready && !busy) void run();
        }}
      >
        {props.children}
        {props.reason && (
          <Field label="Reason (for the record)">
            <Input value={reason} onChange={(e) => setReason(e.target.value)} maxLength={1000} />
          </Field>
        )}
        {props.typed && (
          <Field label={`Type ${props.typed} to confirm`}>
            <Input value={typed} onChange={(e) => setTyped(e.target.value)} autoComplete="off" autoFocus />
          </Field>
        )}
        {error !== undefined && <Problem error={error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" look={props.danger ? "danger" : "primary"} disabled={!ready} busy={busy}>
            {props.action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
