import { useState, type ReactNode } from "react";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { Problem } from "./Problem";

// FormDialog shows a form and runs its action. It stays open and shows the error
// when the action fails.
export function FormDialog(props: {
  title: string;
  action: string;
  danger?: boolean;
  ready?: boolean;
  // check is called before run. If it returns false, the form stays open: its fields
  // show what is wrong.
  check?: () => boolean;
  run: () => Promise<unknown>;
  onClose: () => void;
  children: ReactNode;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const ready = props.ready !== false && !busy;
  const run = async () => {
    if (props.check && !props.check()) return;
    setBusy(true);
    setError(undefined);
    try {
      await props.run();
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
          if (ready) void run();
        }}
      >
        {props.children}
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
