import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { Button } from "./Button";
import { cx } from "./cx";

// Dialog is a window above the page. Escape and a click beside it close it.
export function Dialog(props: {
  open: boolean;
  onClose: () => void;
  title: string;
  description?: ReactNode;
  wide?: boolean;
  children?: ReactNode;
  footer?: ReactNode;
}) {
  return (
    <Radix.Root open={props.open} onOpenChange={(open) => !open && props.onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/50" />
        <Radix.Content
          aria-describedby={undefined}
          className={cx(
            "fixed top-1/2 left-1/2 z-50 flex max-h-[85vh] w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col rounded-lg border bg-panel shadow-xl",
            props.wide ? "max-w-4xl" : "max-w-lg",
          )}
        >
          <div className="flex items-center gap-2 border-b px-4 py-2.5">
            <Radix.Title className="flex-1 font-semibold">{props.title}</Radix.Title>
            <Radix.Close asChild>
              <Button look="quiet" small aria-label="Close">
                <X aria-hidden className="size-4" />
              </Button>
            </Radix.Close>
          </div>
          <div className="min-h-0 flex-1 space-y-3 overflow-y-auto p-4" tabIndex={0} role="group" aria-label={props.title}>
            {props.description && <div className="text-dim">{props.description}</div>}
            {props.children}
          </div>
          {props.footer && <div className="flex justify-end gap-2 border-t px-4 py-3">{props.footer}</div>}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
