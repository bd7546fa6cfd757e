import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { Hand, Undo2 } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { base } from "@/api/base";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Empty } from "@/components/Empty";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import {
  BrowserMouse_Action,
  WatchBrowserRequestSchema,
  WatchBrowserResponseSchema,
  type BrowserAct,
  type BrowserFrame,
  type BrowserInputSchema,
  type BrowserStatus,
} from "@/gen/deckhand/v1/browser_pb";
import { composed, heldOf, keyOf, pointOf } from "./input";

type Said = MessageInitShape<typeof WatchBrowserRequestSchema>["message"];
type Input = MessageInitShape<typeof BrowserInputSchema>["act"];

const again = 3_000; // ms until a view that broke off is opened again
const refused = 1008; // of a WebSocket: it would be the same again
const mostPasted = 16 << 10; // characters
const moveEvery = 100; // ms, of the mouse and of its wheel

// Browser shows what the browser of a task shows while it is open, and lets a person take it
// over. Only frames and texts come from the page: nothing of it runs here.
export function Browser({ taskId }: { taskId: string }) {
  const session = useSession();
  const [status, setStatus] = useState<BrowserStatus>();
  const [frame, setFrame] = useState<BrowserFrame>();
  const [picture, setPicture] = useState<string>();
  const [act, setAct] = useState<BrowserAct>();
  const [problem, setProblem] = useState("");
  const say = useRef<(message: Said) => void>(() => {});
  useEffect(() => {
    let socket: WebSocket | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    let shown: string | undefined;
    const show = (jpeg: Uint8Array) => {
      const url = URL.createObjectURL(new Blob([jpeg as Uint8Array<ArrayBuffer>], { type: "image/jpeg" }));
      if (shown) URL.revokeObjectURL(shown);
      setPicture((shown = url));
    };
    const open = () => {
      const url = new URL("browsers", base);
      url.protocol = url.protocol.replace("http", "ws");
      const opened = new WebSocket(url);
      socket = opened;
      opened.binaryType = "arraybuffer";
      say.current = (message) => {
        if (opened.readyState === WebSocket.OPEN) opened.send(toBinary(WatchBrowserRequestSchema, create(WatchBrowserRequestSchema, { message })));
      };
      opened.onopen = () => {
        setProblem("");
        say.current({ case: "open", value: { taskId } });
      };
      opened.onmessage = (e: MessageEvent<ArrayBuffer | string>) => {
        if (typeof e.data === "string") {
          const info = JSON.parse(e.data) as { message: string; fix?: string };
          setProblem([info.message, info.fix].filter(Boolean).join(" · "));
          return;
        }
        const { message } = fromBinary(WatchBrowserResponseSchema, new Uint8Array(e.data));
        if (message.case === "status") {
          setStatus(message.value);
          over = message.value.ended;
        } else if (message.case === "frame") {
          setFrame(message.value);
          if (message.value.jpeg.length > 0) show(message.value.jpeg);
        } else if (message.case === "act") setAct(message.value);
      };
      opened.onclose = (e) => {
        over ||= e.code === refused;
        setStatus((s) => s && { ...s, yours: false, running: false });
        if (!over) timer = setTimeout(open, again);
      };
    };
    open();
    return () => {
      over = true;
      clearTimeout(timer);
      socket?.close();
      if (shown) URL.revokeObjectURL(shown);
    };
  }, [taskId]);
  const yours = status?.yours ?? false;
  const running = status?.running ?? false;
  const input = (value: Input) => say.current({ case: "input", value: { act: value } });
  const taken = status?.takenBy ?? "";
  return (
    <section aria-label="Browser" data-keys={yours ? "own" : undefined} className="flex h-full min-h-0 flex-col gap-2">
      <div className="flex flex-wrap items-center gap-2">
        <p role="status" className={cx("min-w-0 flex-1", taken ? "text-warn" : "text-dim")}>
          {yours ? (
            "The browser is yours. The agent's next call of it waits, and what you do is recorded, but not what you type into fields for passwords and other secrets. Shift+Escape takes your keys back."
          ) : status?.waiting ? (
            "It is yours as soon as the agent's call has ended."
          ) : taken ? (
            <>
              <Literal text={taken} /> has taken over the browser{status?.takenAt && <> <Time at={status.takenAt} /></>}. The agent's next call of it waits.
            </>
          ) : running ? (
            "Live. The agent uses the browser."
          ) : status?.ended ? (
            "The task has ended, and its browser with it."
          ) : (
            "No browser runs now."
          )}
        </p>
        {may(session, "basic") && running && !yours && !taken && (
          <Button small onClick={() => say.current({ case: "takeOver", value: {} })}>
            <Hand aria-hidden className="size-3.5" /> Take over
          </Button>
        )}
        {(yours || status?.waiting) && (
          <Button small look="primary" onClick={() => say.current({ case: "giveBack", value: {} })}>
            <Undo2 aria-hidden className="size-3.5" /> Give back
          </Button>
        )}
      </div>
      {(problem || status?.problem) && (
        <p role="alert" className="text-warn">
          <Literal text={problem || status!.problem} />
        </p>
      )}
      {frame && running && (
        <p className="min-w-0 truncate font-mono text-xs text-dim" data-testid="address">
          <Literal text={frame.problem || `${frame.url} ${frame.title}`} />
        </p>
      )}
      {frame?.dialog && running && <Dialog key={frame.message} frame={frame} yours={yours} answer={(accept, text) => input({ case: "dialog", value: { accept, text } })} />}
      {picture && frame && running ? (
        <Screen picture={picture} frame={frame} yours={yours} input={input} />
      ) : (
        <Empty title={running ? "Waiting for the page" : "Nothing to see"}>What the browser shows appears here while it runs. Pictures of the agent's actions are with its steps.</Empty>
      )}
      {yours && act && (
        <p className={cx("text-xs", act.problem ? "text-warn" : "text-dim")} data-testid="act">
          <Literal text={act.problem || `${act.what} ${act.on}`} />
        </p>
      )}
    </section>
  );
}

// Dialog is one that the page shows: it is in no picture.
function Dialog(props: { frame: BrowserFrame; yours: boolean; answer: (accept: boolean, text: string) => void }) {
  const [text, setText] = useState("");
  return (
    <div className="flex flex-wrap items-center gap-2 rounded-md border border-warn p-2">
      <p className="min-w-0 flex-1">
        The page asks ({props.frame.dialog}): <Literal text={props.frame.message} />
      </p>
      {props.yours && (
        <>
          {props.frame.dialog === "prompt" && <input aria-label="Answer" className="rounded border bg-panel px-2 py-1" value={text} onChange={(e) => setText(e.target.value)} />}
          <Button small onClick={() => props.answer(true, text)}>OK</Button>
          <Button small onClick={() => props.answer(false, "")}>Cancel</Button>
        </>
      )}
    </div>
  );
}

const buttons = ["left", "middle", "right"]; // others go back and forward in the person's own browser

// Screen is the picture of the page. While the browser is the person's, their mouse and keys go
// to the page.
function Screen(props: { picture: string; frame: BrowserFrame; yours: boolean; input: (value: Input) => void }) {
  const { frame, yours, input } = props;
  const moved = useRef(0);
  const wheel = useRef<{ x: number; y: number; timer: ReturnType<typeof setTimeout> }>(undefined);
  const [notice, setNotice] = useState("");
  const page = useRef<HTMLDivElement>(null);
  useEffect(() => page.current?.focus(), [yours]);
  useEffect(() => () => clearTimeout(wheel.current?.timer), []);
  const mouse = (e: React.MouseEvent<HTMLElement>, action: BrowserMouse_Action, more: object = {}) => {
    const button = buttons[e.button];
    if (!button) return;
    const at = pointOf(e, e.currentTarget.getBoundingClientRect(), frame);
    input({ case: "mouse", value: { action, ...at, button, clicks: Math.min(Math.max(e.detail, 1), 3), held: heldOf(e), ...more } });
  };
  const label = line(`What the browser shows: ${frame.title || frame.url}`);
  const image = <img src={props.picture} alt={label} draggable={false} className="block h-auto w-full select-none" />;
  const look = "max-h-full w-full max-w-[80rem] self-start overflow-hidden rounded border bg-raised";
  if (!yours) return <div className={look}>{image}</div>;
  // What is released outside of the picture is released, too: the mouse is the picture's until then.
  return (
    <>
      {notice && <p role="alert" className="text-warn">{notice}</p>}
      <div
        role="application"
        aria-label="The agent's browser: your mouse and keys go to the page"
        tabIndex={0}
        ref={page}
        className={cx(look, "border-warn ring-2 ring-warn")}
        onPointerDown={(e) => e.currentTarget.setPointerCapture?.(e.pointerId)}
        onMouseDown={(e) => {
          e.currentTarget.focus();
          e.preventDefault();
          mouse(e, BrowserMouse_Action.PRESSED);
        }}
        onMouseUp={(e) => mouse(e, BrowserMouse_Action.RELEASED)}
        onMouseMove={(e) => {
          if (e.timeStamp - moved.current < moveEvery) return;
          moved.current = e.timeStamp;
          mouse(e, BrowserMouse_Action.MOVED);
        }}
        onWheel={(e) => {
          if (wheel.current) {
            wheel.current.x += e.deltaX;
            wheel.current.y += e.deltaY;
            return;
          }
          const at = pointOf(e, e.currentTarget.getBoundingClientRect(), frame);
          const held = heldOf(e);
          const timer = setTimeout(() => {
            const by = wheel.current!;
            wheel.current = undefined;
            input({ case: "mouse", value: { action: BrowserMouse_Action.WHEEL, ...at, held, deltaX: clamp(by.x), deltaY: clamp(by.y) } });
          }, moveEvery);
          wheel.current = { x: e.deltaX, y: e.deltaY, timer };
        }}
        onContextMenu={(e) => e.preventDefault()}
        onPaste={(e) => {
          e.preventDefault();
          const text = e.clipboardData.getData("text/plain");
          if (text.length > mostPasted) setNotice(`The text has more than ${mostPasted} characters: nothing was pasted. Paste it in parts.`);
          else if (text) input({ case: "text", value: text });
        }}
        onKeyDown={(e) => {
          if (e.key === "Escape" && e.shiftKey) e.currentTarget.blur();
          const key = keyOf(e);
          setNotice(composed(e.key) ? "Characters that are composed of several keys do not reach the page: paste them." : "");
          if (key === undefined) return;
          e.preventDefault();
          e.stopPropagation();
          input({ case: "key", value: key });
        }}
      >
        {image}
      </div>
    </>
  );
}

const clamp = (n: number) => Math.min(Math.max(n, -10_000), 10_000);
