import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { Id } from "./Id";

// Secret shows what the hub tells only once.
export function Secret(props: { title: string; secret: string; hint: string; onClose: () => void }) {
  return (
    <Dialog
      open
      onClose={props.onClose}
      title={props.title}
      footer={
        <Button look="primary" onClick={props.onClose}>
          I have kept it
        </Button>
      }
    >
      <p>This is shown only this once. {props.hint}</p>
      <p className="rounded-md border bg-raised p-2 break-all" data-testid="secret">
        <Id value={props.secret} whole />
      </p>
    </Dialog>
  );
}
