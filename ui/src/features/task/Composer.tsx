import { useState } from "react";
import { OctagonPause, SendHorizontal } from "lucide-react";
import { toast } from "sonner";
import { newKey } from "@/api/newKey";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { TextArea } from "@/components/Field";
import { showError } from "@/components/showError";
import { may } from "@/features/session/queries";

// Composer sends an agent a message. Enter sends, Shift+Enter inserts a line break.
// With interrupt a second button stops what the agent does and sends the message;
// Ctrl+Enter is its key.
export function Composer(props: {
  placeholder: string;
  send: (text: string, key: string) => Promise<unknown>;
  interrupt?: { send: (text: string, key: string) => Promise<unknown>; refused?: string };
}) {
  const session = useSession();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  // A retry sends the same key, so that the hub takes the message once.
  const [key, setKey] = useState(newKey);
  if (!may(session, "basic")) return null;
  const { interrupt } = props;
  const send = async (by: (text: string, key: string) => Promise<unknown> = props.send, done = "Sent") => {
    if (!text.trim() || busy) return;
    setBusy(true);
    try {
      await by(text.trim(), key);
      setText("");
      setKey(newKey());
      toast(done);
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  const stop = () => interrupt && !interrupt.refused && void send(interrupt.send, "Stopped. The agent reads your message next.");
  return (
    <form
      className="flex items-end gap-2 border-t bg-panel p-3"
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
    >
      <TextArea
        aria-label="Message the agent"
        rows={2}
        maxLength={10_000}
        value={text}
        placeholder={props.placeholder}
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) {
            e.preventDefault();
            if ((e.ctrlKey || e.metaKey) && interrupt) stop();
            else void send();
          }
        }}
      />
      {interrupt && (
        <Button
          type="button"
          busy={busy}
          disabled={!text.trim() || !!interrupt.refused}
          title={interrupt.refused ?? "Kills the running command, skips the calls that have not begun, and has the agent read this next (Ctrl+Enter)"}
          onClick={stop}
        >
          <OctagonPause aria-hidden className="size-4" />
          <span className="max-sm:sr-only">Stop and do this now</span>
        </Button>
      )}
      <Button type="submit" look="primary" aria-label="Send" busy={busy} disabled={!text.trim()}>
        <SendHorizontal aria-hidden className="size-4" />
      </Button>
    </form>
  );
}
