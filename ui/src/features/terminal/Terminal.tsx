import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { ServerCrash, X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { base } from "@/api/base";
import { useSession } from "@/app/session";
import { useDark } from "@/app/theme";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { may } from "@/features/session/queries";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { OpenTerminalRequestSchema, OpenTerminalResponseSchema } from "@/gen/deckhand/v1/terminal_pb";
import { Outbox } from "./outbox";

const mostInput = 32 << 10; // bytes

// Terminal is a shell in an agent's jail or, for admins, on the host, which its frame
// shows in red. Its output may be hostile: it cannot set the title, the clipboard or
// links.
export function Terminal(props: {
  nodeId: string;
  // Whose jail it is in; of the agent's own where unset.
  taskId?: string;
  // An agent's name; empty where there is only the machine.
  agent: string;
  host: boolean;
  // Changes between the jail and the machine; unset where that makes no sense.
  onHost?: (host: boolean) => void;
  onClose: () => void;
}) {
  const { nodeId, taskId, agent, host, onHost } = props;
  const session = useSession();
  const dark = useDark();
  const node = useQuery(NodeService.method.getNode, { nodeId }, { enabled: host });
  const box = useRef<HTMLDivElement>(null);
  const [ended, setEnded] = useState("");
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const el = box.current;
    if (!el) return undefined;
    setEnded("");
    const term = new Xterm({
      fontSize: 13,
      cursorBlink: true,
      screenReaderMode: true,
      scrollback: 10_000,
      linkHandler: { activate: () => {} },
      theme: dark ? { background: "#0d1014", foreground: "#e7ebef" } : { background: "#ffffff", foreground: "#14181d", cursor: "#14181d" },
    });
    // Titles, working folders, links, notifications, clipboard, and what else
    // there is by number: swallowed.
    for (const code of [0, 1, 2, 7, 8, 9, 50, 52, 99, 133, 777, 1337]) term.parser.registerOscHandler(code, () => true);
    const fit = new FitAddon();
    term.loadAddon(fit);
    term.open(el);
    fit.fit();
    const url = new URL("terminals", base);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const out = new Outbox<MessageInitShape<typeof OpenTerminalRequestSchema>>((message) => {
      if (socket.readyState === WebSocket.OPEN) {
        socket.send(toBinary(OpenTerminalRequestSchema, create(OpenTerminalRequestSchema, message)));
      }
    });
    const size = () => ({ rows: term.rows, cols: term.cols });
    socket.onopen = () =>
      out.open({
        message: {
          case: "open",
          value: {
            nodeId,
            target: host
              ? { case: "host", value: true }
              : taskId
                ? { case: "taskId", value: taskId }
                : { case: "agentId", value: agent },
            size: size(),
            term: "xterm-256color",
          },
        },
      });
    socket.onmessage = (e: MessageEvent<ArrayBuffer | string>) => {
      if (typeof e.data === "string") {
        const problem = JSON.parse(e.data) as { message: string; fix?: string };
        setEnded([problem.message, problem.fix].filter(Boolean).join(" · "));
        return;
      }
      const { message } = fromBinary(OpenTerminalResponseSchema, new Uint8Array(e.data));
      if (message.case === "output") term.write(message.value);
      else if (message.case === "ended") setEnded(`Ended: ${message.value.endReason || "exited"} ${message.value.exitCode}`);
    };
    socket.onclose = () => setEnded((said) => said || "Connection closed. The shell has ended.");
    const typed = term.onData((data) => {
      // What is pasted may be longer than a message may be.
      const all = new TextEncoder().encode(data);
      for (let at = 0; at < all.length; at += mostInput) out.push({ message: { case: "input", value: all.subarray(at, at + mostInput) } });
    });
    const resized = term.onResize(() => out.push({ message: { case: "resize", value: size() } }));
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(el);
    term.focus();
    return () => {
      observer.disconnect();
      typed.dispose();
      resized.dispose();
      socket.close();
      term.dispose();
    };
  }, [nodeId, taskId, agent, host, again]); // eslint-disable-line -- the theme of an open terminal stays
  return (
    <section
      aria-label={host ? "Host terminal" : `Terminal in the jail of ${props.agent}`}
      data-keys="own"
      className={cx("flex h-72 shrink-0 flex-col border-t-4", host ? "border-bad" : "border-accent")}
    >
      <div className={cx("flex items-center gap-3 px-4 py-1 text-xs", host ? "font-semibold text-bad" : "text-dim")}>
        {host ? (
          <>
            <ServerCrash aria-hidden className="size-4" /> Host shell on {node.data?.node?.name ?? nodeId} (root). Tasks are blocked while it is open. Session is recorded.
          </>
        ) : (
          <>In the jail of {props.agent}. Session is recorded.</>
        )}
        <span role="status" className="min-w-0 flex-1 truncate">
          {ended}
        </span>
        {ended && (
          <Button small onClick={() => setAgain(again + 1)}>
            Open new terminal
          </Button>
        )}
        {onHost && may(session, "admin") && (
          <Button small onClick={() => onHost(!host)}>
            {host ? "Switch to jail" : "Switch to host"}
          </Button>
        )}
        <Button small look="quiet" aria-label="Close terminal" onClick={props.onClose}>
          <X aria-hidden className="size-4" />
        </Button>
      </div>
      <div ref={box} className="min-h-0 flex-1 px-2" />
    </section>
  );
}
