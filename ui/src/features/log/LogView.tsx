import { createClient } from "@connectrpc/connect";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDownToLine, Download, Search, WrapText } from "lucide-react";
import { memo, useEffect, useMemo, useReducer, useRef, useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { download } from "@/components/download";
import { Input } from "@/components/Field";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { Lines } from "./lines";

const tasks = createClient(TaskService, transport);

// Chunks is a command's output, from its beginning, as it comes.
export type Chunks = (offset: bigint, signal: AbortSignal) => AsyncIterable<{ data: Uint8Array }>;

// stepLog reads the output of a step, and follows it for as long as it runs.
export const stepLog =
  (stepId: string): Chunks =>
  (offset, signal) =>
    tasks.readLog({ stepId, offset, follow: true }, { signal });

// useLines reads chunks into lines. It resumes at the same offset when the connection
// breaks, and renders at most once per frame.
function useLines(chunks: Chunks) {
  const [, render] = useReducer((n: number) => n + 1, 0);
  const [error, setError] = useState<unknown>();
  const [ended, setEnded] = useState(false);
  const lines = useMemo(() => new Lines(), [chunks]);
  const raw = useRef<Uint8Array[]>([]);
  useEffect(() => {
    raw.current = [];
    const abort = new AbortController();
    let frame = 0;
    const draw = () => (frame ||= requestAnimationFrame(() => ((frame = 0), render())));
    const read = async () => {
      for (let failures = 0; !abort.signal.aborted; failures++) {
        try {
          for await (const { data } of chunks(BigInt(lines.bytes), abort.signal)) {
            lines.add(data);
            raw.current.push(data);
            failures = 0;
            draw();
          }
          setError(undefined);
          setEnded(true);
          return;
        } catch (e) {
          if (abort.signal.aborted) return;
          if (failures >= 5) {
            setError(e);
            return;
          }
          await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** failures));
        }
      }
    };
    void read();
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
    };
  }, [chunks, lines]);
  return { lines, error, ended, raw };
}

const lineHeight = 18;

// LogView shows a command's output. It can be searched, followed, wrapped and
// downloaded. Scrolling up stops following.
export function LogView(props: { chunks: Chunks; name: string; className?: string; label: string }) {
  const { lines, error, ended, raw } = useLines(props.chunks);
  const [follow, setFollow] = useState(true);
  const [wrap, setWrap] = useState(false);
  const [query, setQuery] = useState("");
  const [hit, setHit] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const size = lines.size;
  const hits = useMemo(() => lines.find(query), [lines, query, size]);
  const virtual = useVirtualizer({
    count: size,
    getScrollElement: () => box.current,
    estimateSize: () => lineHeight,
    overscan: 10,
  });
  useEffect(() => {
    virtual.measure();
  }, [wrap, virtual]);
  useEffect(() => {
    if (follow && !query && size > 0) virtual.scrollToIndex(size - 1, { align: "end" });
  }, [follow, size, query, virtual]);
  useEffect(() => {
    const row = hits[hit];
    if (query && row !== undefined) virtual.scrollToIndex(row, { align: "center" });
  }, [hits, hit, query, virtual]);
  const save = () => download(props.name, new Blob(raw.current as BlobPart[], { type: "application/octet-stream" }));
  const current = hits[hit];
  return (
    <section aria-label={props.label} className={cx("flex min-h-0 flex-col rounded-md border bg-panel", props.className)}>
      <div className="flex flex-wrap items-center gap-1 border-b p-1">
        <div className="relative min-w-32 flex-1">
          <Search aria-hidden className="pointer-events-none absolute top-2 left-2 size-3.5 text-dim" />
          <Input
            aria-label="Find in the output"
            placeholder="Find"
            className="min-h-7 pl-7 text-xs"
            value={query}
            onChange={(e) => {
              setQuery(e.target.value);
              setHit(0);
            }}
            onKeyDown={(e) => {
              if (e.key === "Enter" && hits.length > 0) {
                setHit((h) => (h + (e.shiftKey ? hits.length - 1 : 1)) % hits.length);
              }
            }}
          />
        </div>
        <span role="status" className="px-1 text-xs text-dim">
          {query ? `${hits.length === 0 ? 0 : hit + 1} of ${hits.length}` : `${bytes(lines.bytes)}${ended ? "" : ", running"}`}
        </span>
        <Button small look={wrap ? "plain" : "quiet"} aria-pressed={wrap} aria-label="Wrap lines" title="Wrap lines" onClick={() => setWrap(!wrap)}>
          <WrapText aria-hidden className="size-3.5" />
        </Button>
        <Button
          small
          look={follow ? "plain" : "quiet"}
          aria-pressed={follow}
          aria-label="Follow the end"
          title="Follow the end"
          onClick={() => setFollow(!follow)}
        >
          <ArrowDownToLine aria-hidden className="size-3.5" />
        </Button>
        <Button small look="quiet" aria-label="Download log" title="Download log" onClick={save}>
          <Download aria-hidden className="size-3.5" />
        </Button>
      </div>
      {error !== undefined && <Problem error={error} />}
      <div
        ref={box}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={props.label}
        onWheel={(e) => e.deltaY < 0 && setFollow(false)}
        onKeyDown={(e) => ["PageUp", "ArrowUp", "Home"].includes(e.key) && setFollow(false)}
        onScroll={(e) => {
          const el = e.currentTarget;
          if (el.scrollHeight - el.scrollTop - el.clientHeight < 4) return;
          if (follow && size > 0 && el.scrollHeight - el.scrollTop - el.clientHeight > 400) setFollow(false);
        }}
        className="min-h-0 flex-1 overflow-auto font-mono text-xs"
        style={{ overflowAnchor: "none" }}
      >
        {size === 0 ? (
          <p className="p-2 text-dim">{ended ? "No output." : "No output yet."}</p>
        ) : (
          <div style={{ height: virtual.getTotalSize() }}>
            {/* Rows that follow each other are laid out faster than rows with a place each. */}
            <div
              className={wrap ? "w-full" : "w-max min-w-full"}
              style={{ transform: `translateY(${virtual.getVirtualItems()[0]?.start ?? 0}px)` }}
            >
              {virtual.getVirtualItems().map((item) => (
                <Row
                  key={item.key}
                  index={item.index}
                  number={lines.number(item.index)}
                  text={lines.row(item.index)}
                  current={item.index === current}
                  measure={wrap ? virtual.measureElement : undefined}
                />
              ))}
            </div>
          </div>
        )}
      </div>
    </section>
  );
}

// Row is a line of the output, or a part of a long one, wrapped if it is
// measured.
const Row = memo(function Row(props: {
  index: number;
  number: number;
  text: string;
  current: boolean;
  measure: ((el: HTMLElement | null) => void) | undefined;
}) {
  const { measure } = props;
  return (
    <div
      data-index={props.index}
      ref={measure}
      className={cx("leading-[18px]", measure ? "relative min-h-[18px] pl-12 break-all whitespace-pre-wrap" : "h-[18px] whitespace-pre", props.current && "bg-raised")}
    >
      <span
        aria-hidden
        className={cx("inline-block w-12 pr-2 text-right text-dim select-none", measure && "absolute left-0")}
      >
        {props.number || ""}
      </span>
      <span>{props.text}</span>
    </div>
  );
});
