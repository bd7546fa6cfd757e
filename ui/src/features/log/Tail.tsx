import { createClient } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { transport } from "@/api/transport";
import { cx } from "@/components/cx";
import { NodeExecService } from "@/gen/deckhand/v1/node_exec_pb";
import { runsOf } from "./ansi";

const execs = createClient(NodeExecService, transport);

// Tail shows the last lines that a command wrote, in its colours. Nothing is shown of
// one that wrote nothing, or whose log is gone. With live it is read again and again: the
// command may still run.
export function Tail(props: { execId: string; lines: number; label: string; className?: string; live?: boolean }) {
  const box = useRef<HTMLPreElement>(null);
  const { data } = useQuery({
    queryKey: ["tail", props.execId, props.lines],
    queryFn: async ({ signal }) => {
      let text = "";
      const decoder = new TextDecoder();
      for await (const p of execs.readNodeLog({ execId: props.execId, tailLines: BigInt(props.lines) }, { signal })) {
        text = (text + decoder.decode(p.data, { stream: true })).slice(-32_000);
      }
      return text.replace(/\n$/, "").split("\n").slice(-props.lines);
    },
    retry: false,
    staleTime: Infinity,
    refetchInterval: props.live ? 2_000 : false,
  });
  // The end says most.
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [data]);
  if (!data || (data.length === 1 && data[0] === "")) return null;
  return (
    <pre
      ref={box}
      tabIndex={0}
      role="group"
      aria-label={props.label}
      className={cx("overflow-auto rounded border bg-page p-2 font-mono text-xs break-words whitespace-pre-wrap", props.className ?? "max-h-80")}
    >
      {data.map((line, i) => (
        <div key={i} className="min-h-[1lh]">
          {runsOf(line).map((run, j) => (
            <span key={j} className={run.className || undefined} style={run.colour ? { color: run.colour } : undefined}>
              {run.text}
            </span>
          ))}
        </div>
      ))}
    </pre>
  );
}
