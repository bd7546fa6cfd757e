import { createClient } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { Terminal as Xterm } from "@xterm/xterm";
import { FitAddon } from "@xterm/addon-fit";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useMemo, useRef } from "react";
import { transport } from "@/api/transport";
import { useDark } from "@/app/theme";
import { Empty } from "@/components/Empty";
import { Literal } from "@/components/Literal";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { millis } from "@/components/Time";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { countUntil } from "./play";
import { useSettled } from "./useSettled";

const tasks = createClient(TaskService, transport);
const mostBytes = 1 << 20;

type Piece = { time: number; data: Uint8Array; pty: boolean };

// OutputThen shows what the newest command had printed by a time, as a terminal would;
// Infinity is for one that had ended, whose node may have another clock than the hub.
// The output may be hostile: it sets neither title nor clipboard nor links, and the
// terminal answers nothing.
export function OutputThen(props: { stepId: string; tool: string; clock: number }) {
  const stepId = useSettled(props.stepId, 150);
  const { data, error, isPending } = useQuery({
    queryKey: ["output then", stepId],
    enabled: stepId !== "",
    staleTime: Infinity,
    retry: false,
    queryFn: async ({ signal }) => {
      const pieces: Piece[] = [];
      let total = 0;
      for await (const r of tasks.readLog({ stepId, follow: false }, { signal })) {
        pieces.push({ time: millis(r.time) ?? 0, data: r.data, pty: r.stream === "pty" });
        total += r.data.length;
        if (total >= mostBytes) break;
      }
      return { pieces, cut: total >= mostBytes };
    },
  });
  if (!props.stepId) return <Empty title="No command had run yet">Output appears here once a step has been started.</Empty>;
  if (isPending) return <Skeletons rows={4} />;
  if (error) return <Problem error={error} />;
  return (
    <div className="flex h-full min-h-48 flex-col gap-1">
      <p className="text-xs text-dim">
        Output of <Literal className="font-mono" text={props.tool} />
        {data.pieces.length === 0 ? ": it printed nothing." : data.cut ? `, its first ${bytes(mostBytes)}` : ""}
      </p>
      {data.pieces.length > 0 && <Screen pieces={data.pieces} clock={props.clock} />}
    </div>
  );
}

function Screen({ pieces, clock }: { pieces: Piece[]; clock: number }) {
  const dark = useDark();
  const box = useRef<HTMLDivElement>(null);
  const term = useRef<Xterm>(undefined);
  const written = useRef(0);
  const pty = useMemo(() => pieces.some((p) => p.pty), [pieces]);
  useEffect(() => {
    const el = box.current;
    if (!el) return undefined;
    const made = new Xterm({
      fontSize: 12,
      disableStdin: true,
      convertEol: !pty,
      screenReaderMode: true,
      scrollback: 10_000,
      linkHandler: { activate: () => {} },
      theme: dark ? { background: "#0d1014", foreground: "#e7ebef" } : { background: "#ffffff", foreground: "#14181d", cursor: "#14181d" },
    });
    for (const code of [0, 1, 2, 7, 8, 9, 50, 52, 99, 133, 777, 1337]) made.parser.registerOscHandler(code, () => true);
    const fit = new FitAddon();
    made.loadAddon(fit);
    made.open(el);
    fit.fit();
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(el);
    term.current = made;
    written.current = 0;
    return () => {
      observer.disconnect();
      term.current = undefined;
      made.dispose();
    };
  }, [pieces, pty, dark]);
  const shown = countUntil(pieces, clock);
  useEffect(() => {
    const to = term.current;
    if (!to) return;
    if (shown < written.current) {
      to.reset();
      written.current = 0;
    }
    for (; written.current < shown; written.current++) to.write(pieces[written.current]!.data);
  }, [shown, pieces, pty, dark]);
  return <div ref={box} data-testid="output" data-pieces={shown} className="min-h-0 flex-1 overflow-hidden rounded border" />;
}
