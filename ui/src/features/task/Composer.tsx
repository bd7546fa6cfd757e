import { useState } from "react";
import { SendHorizontal } from "lucide-react";
import { toast } from "sonner";
import { newKey } from "@/api/newKey";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { TextArea } from "@/components/Field";
import { showError } from "@/components/showError";
import { may } from "@/features/session/queries";

// Composer sends an agent a message. Enter sends, Shift+Enter inserts a line break.
export function Composer(props: { placeholder: string; send: (text: string, key: string) => Promise<unknown> }) {
  const session = useSession();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  // A retry sends the same key, so that the hub takes the message once.
  const [key, setKey] = useState(newKey);
  if (!may(session, "basic")) return null;
  const send = async () => {
    if (!text.trim() || busy) return;
    setBusy(true);
    try {
      await props.send(text.trim(), key);
      setText("");
      setKey(newKey());
      toast("Sent");
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
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
            void send();
          }
        }}
      />
      <Button type="submit" look="primary" aria-label="Send" busy={busy} disabled={!text.trim()}>
        <SendHorizontal aria-hidden className="size-4" />
      </Button>
    </form>
  );
}
