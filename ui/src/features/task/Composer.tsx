import { newIdempotencyKey } from "@deckhand/sdk";
import { useRef, useState } from "react";
import { OctagonPause, Paperclip, SendHorizontal, X } from "lucide-react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { TextArea } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { bytes } from "@/components/money";
import { showError } from "@/components/showError";
import { may } from "@/features/session/queries";
import { mostUpload, withAttachments } from "@/features/workspace/upload";

// Composer sends an agent a message. Enter sends, Shift+Enter inserts a line break.
// With interrupt a second button stops what the agent does and sends the message;
// Ctrl+Enter is its key. With attach files can be attached: each is in the workspace before
// the message says where.
export function Composer(props: {
  placeholder: string;
  send: (text: string, key: string) => Promise<unknown>;
  interrupt?: { send: (text: string, key: string) => Promise<unknown>; refused?: string };
  // Puts a file into the workspace and returns its path there.
  attach?: (file: File) => Promise<string>;
}) {
  const session = useSession();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  // A retry sends the same key, so that the hub takes the message once.
  const [key, setKey] = useState(newIdempotencyKey);
  const [attached, setAttached] = useState<{ path: string; size: number }[]>([]);
  const picker = useRef<HTMLInputElement>(null);
  const empty = !text.trim() && attached.length === 0;
  if (!may(session, "basic")) return null;
  const { interrupt, attach } = props;
  const send = async (by: (text: string, key: string) => Promise<unknown> = props.send, done = "Sent") => {
    if (empty || busy) return;
    setBusy(true);
    try {
      await by(withAttachments(text.trim(), attached), key);
      setText("");
      setAttached([]);
      setKey(newIdempotencyKey());
      toast(done);
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  const add = async (list: FileList | null) => {
    const all = [...(list ?? [])];
    if (picker.current) picker.current.value = "";
    if (!attach || all.length === 0) return;
    setBusy(true);
    try {
      for (const file of all) {
        const path = await attach(file);
        setAttached((now) => [...now, { path, size: file.size }]);
      }
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  const stop = () => interrupt && !interrupt.refused && void send(interrupt.send, "Stopped. The agent reads your message next.");
  return (
    <form
      className="flex flex-wrap items-end gap-2 border-t bg-panel p-3"
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
    >
      {attached.length > 0 && (
        <ul aria-label="Attached files" className="flex w-full flex-wrap gap-2">
          {attached.map((a) => (
            <li key={a.path} className="flex items-center gap-1 rounded-full border bg-raised py-0.5 pr-1 pl-3 text-xs">
              <Literal text={a.path.slice(a.path.lastIndexOf("/") + 1)} />
              <span className="text-dim">{bytes(a.size)}</span>
              <button
                type="button"
                aria-label={line(`Do not mention ${a.path}`)}
                title="Leave it out of the message. The file stays in the workspace."
                className="grid size-6 place-items-center rounded-full hover:bg-panel"
                onClick={() => setAttached((now) => now.filter((x) => x !== a))}
              >
                <X aria-hidden className="size-3.5" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {attach && may(session, "advanced") && (
        <>
          <input ref={picker} type="file" multiple className="hidden" aria-label="Files to attach" onChange={(e) => void add(e.target.files)} />
          <Button type="button" look="quiet" busy={busy} aria-label="Attach files" title={`Puts files into the workspace, at most ${bytes(mostUpload)} each`} onClick={() => picker.current?.click()}>
            <Paperclip aria-hidden className="size-4" />
          </Button>
        </>
      )}
      <div className="min-w-0 flex-1">
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
      </div>
      {interrupt && (
        <Button
          type="button"
          busy={busy}
          disabled={empty || !!interrupt.refused}
          title={interrupt.refused ?? "Kills the running command, skips the calls that have not begun, and has the agent read this next (Ctrl+Enter)"}
          onClick={stop}
        >
          <OctagonPause aria-hidden className="size-4" />
          <span className="max-sm:sr-only">Stop and do this now</span>
        </Button>
      )}
      <Button type="submit" look="primary" aria-label="Send" busy={busy} disabled={empty}>
        <SendHorizontal aria-hidden className="size-4" />
      </Button>
    </form>
  );
}
