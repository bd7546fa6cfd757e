import { useEffect, useRef, useState } from "react";
import { Button } from "@/components/Button";
import { useShortcut } from "@/components/shortcuts";
import { millis } from "@/components/Time";
import type { InboxItem } from "@/gen/deckhand/v1/inbox_pb";

// held is how long an answer can be taken back, in milliseconds.
const held = 5_000;

// mayHold reports whether an answer may be kept for a moment: one to an item that is about to
// expire is sent at once.
export const mayHold = (item: InboxItem) => !item.expiresAt || (millis(item.expiresAt) ?? 0) - Date.now() > 4 * held;

// Held keeps an answer before it is sent, so that it can be taken back. Nothing has happened
// at the hub until then: what is closed before it is sent was never decided, and the page
// asks before it closes. If the person goes on to something else, it is sent at once.
export function Held(props: { said: string; keys: boolean; send: () => void; undo: () => void }) {
  const [left, setLeft] = useState(held);
  const latest = useRef(props);
  const done = useRef(false);
  useEffect(() => {
    latest.current = props;
  });
  const end = (how: "send" | "undo") => {
    if (done.current) return;
    done.current = true;
    latest.current[how]();
  };
  useEffect(() => {
    const until = performance.now() + held;
    const tick = setInterval(() => {
      const rest = until - performance.now();
      if (rest <= 0) end("send");
      else setLeft(rest);
    }, 200);
    const hidden = () => document.visibilityState === "hidden" && end("send");
    const closing = (e: BeforeUnloadEvent) => e.preventDefault();
    // It comes before the page is hidden, if that is because it closes.
    const closed = () => end("undo");
    document.addEventListener("visibilitychange", hidden);
    addEventListener("beforeunload", closing);
    addEventListener("pagehide", closed);
    return () => {
      clearInterval(tick);
      document.removeEventListener("visibilitychange", hidden);
      removeEventListener("beforeunload", closing);
      removeEventListener("pagehide", closed);
    };
  }, []);
  // Gone from the page and not taken back: it is sent. A component that React mounts again at
  // once, as it does while developing, is not gone.
  const here = useRef(false);
  useEffect(() => {
    here.current = true;
    return () => {
      here.current = false;
      queueMicrotask(() => !here.current && end("send"));
    };
  }, []);
  useShortcut("u", "Undo the answer", "Inbox", () => end("undo"), props.keys);
  // The second click of a double click is for neither.
  const still = left > held - 600;
  return (
    <div role="status" className="flex flex-wrap items-center gap-3">
      <p className="min-w-0 flex-1">
        <span className="font-medium">{props.said}.</span>{" "}
        <span className="text-dim">Not sent yet: it is sent in {Math.max(1, Math.ceil(left / 1000))} s.</span>
      </p>
      <Button disabled={still} onClick={() => end("undo")}>
        Undo
      </Button>
      <Button look="quiet" disabled={still} onClick={() => end("send")}>
        Send now
      </Button>
    </div>
  );
}
