import { newIdempotencyKey } from "@deckhand/sdk";
import { SendHorizontal } from "lucide-react";
import { useRef, useState } from "react";
import { Button } from "@/components/Button";
import { TextArea } from "@/components/Field";
import { Problem } from "@/components/Problem";

// Say sends a message. Enter sends, Shift+Enter inserts a line break. A message that
// could not be sent stays, with the error.
export function Say(props: {
  label: string;
  placeholder: string;
  action: string;
  disabled?: boolean;
  send: (text: string, key: string) => Promise<unknown>;
}) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  // A retry sends the same key, so that the hub takes the message once.
  const key = useRef(newIdempotencyKey());
  const ready = text.trim() !== "" && !busy && !props.disabled;
  const send = async () => {
    if (!ready) return;
    setBusy(true);
    setError(undefined);
    try {
      await props.send(text.trim(), key.current);
      setText("");
      key.current = newIdempotencyKey();
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className="space-y-2 border-t bg-panel p-3"
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
    >
      {error !== undefined && <Problem error={error} />}
      <div className="flex items-end gap-2">
        <TextArea
          aria-label={props.label}
          rows={2}
          maxLength={10_000}
          value={text}
          placeholder={props.placeholder}
          onChange={(e) => {
            // An edited message is a new one.
            if (error !== undefined) key.current = newIdempotencyKey();
            setText(e.target.value);
          }}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) {
              e.preventDefault();
              void send();
            }
          }}
        />
        <Button type="submit" look="primary" busy={busy} disabled={!ready}>
          <SendHorizontal aria-hidden className="size-4" /> {props.action}
        </Button>
      </div>
    </form>
  );
}
