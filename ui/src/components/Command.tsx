import { Id } from "./Id";

// Command shows a command line to be copied.
export function Command(props: { text: string }) {
  return (
    <code className="inline-flex max-w-full items-center gap-2 overflow-x-auto rounded-md border bg-raised px-3 py-1.5 text-left">
      <span aria-hidden className="text-dim select-none">
        $
      </span>
      <Id value={props.text} whole />
    </code>
  );
}
