import { SendHorizontal } from "lucide-react";
import { useRef, useState } from "react";
import { Button } from "@/components/Button";
import { TextArea } from "@/components/Field";
import { Problem } from "@/components/Problem";

// Say is where a person speaks. Enter sends, Shift+Enter makes a line. What
// could not be sent stays, with why.
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
  // What is sent again, since nobody knows whether it came, is one.
  const key = useRef(crypto.randomUUID());
  const ready = text.trim() !== "" && !busy && !props.disabled;
  const send = async () => {
    if (!ready) return;
    setBusy(true);
    setError(undefined);
    try {
      await props.send(text.trim(), key.current);
      setText("");
      key.current = crypto.randomUUID();
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
            // Other words are another message.
            if (error !== undefined) key.current = crypto.randomUUID();
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
