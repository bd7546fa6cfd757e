import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { Id } from "./Id";

// Secret shows a secret that the hub returns only once.
export function Secret(props: { title: string; secret: string; hint: string; onClose: () => void }) {
  return (
    <Dialog
      open
      onClose={props.onClose}
      title={props.title}
      footer={
        <Button look="primary" onClick={props.onClose}>
          I have saved it
        </Button>
      }
    >
      <p>You will not see this again. {props.hint}</p>
      <p className="rounded-md border bg-raised p-2 break-all" data-testid="secret">
        <Id value={props.secret} whole />
      </p>
    </Dialog>
  );
}
