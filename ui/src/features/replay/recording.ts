import { createClient } from "@connectrpc/connect";
import { useEffect, useState } from "react";
import { transport } from "@/api/transport";
import { millis } from "@/components/Time";
import { BrowserService, type BrowserFrame } from "@/gen/deckhand/v1/browser_pb";
import { countUntil } from "./play";

const browsers = createClient(BrowserService, transport);

// Recorded is what the browser showed from a time on; picture is the index of the frame with the
// newest picture until then, -1 for none.
export type Recorded = { time: number; frame: BrowserFrame; picture: number };

// Recording is what was recorded of a browser, as far as it is there.
export type Recording = { frames: readonly Recorded[]; reading: boolean; error?: unknown };

const shownEvery = 200; // ms, while it is read

// useRecording reads the recording of the browser of a task once it is wanted, and again once the task
// has ended: it may be large. Its frames are ascending in time.
export function useRecording(taskId: string, wanted: boolean, ended: boolean): Recording {
  const [recording, setRecording] = useState<Recording>({ frames: [], reading: true });
  useEffect(() => {
    if (!wanted) return undefined;
    const stop = new AbortController();
    const frames: Recorded[] = [];
    let shown = 0;
    const show = (more: Partial<Recording> = {}) => {
      shown = performance.now();
      if (!stop.signal.aborted) setRecording({ frames: frames.slice(), reading: true, ...more });
    };
    const read = async () => {
      try {
        for await (const { frame } of browsers.readBrowserRecording({ taskId }, { signal: stop.signal })) {
          if (frame) add(frames, frame);
          if (performance.now() - shown > shownEvery) show();
        }
        show({ reading: false });
      } catch (error) {
        show({ reading: false, error });
      }
    };
    void read();
    return () => stop.abort();
  }, [taskId, wanted, ended]);
  return recording;
}

// add appends a frame.
export function add(frames: Recorded[], frame: BrowserFrame) {
  const before = frames.at(-1);
  const gone = frame.problem !== "" && frame.jpeg.length === 0;
  const picture = frame.jpeg.length > 0 ? frames.length : gone ? -1 : (before?.picture ?? -1);
  // A clock that went back between two browsers must not hide a frame.
  frames.push({ time: Math.max(millis(frame.time) ?? 0, before?.time ?? 0), frame, picture });
}

// shownAt returns what the browser showed at a time, and its picture; undefined before it began.
export function shownAt(frames: readonly Recorded[], clock: number): { frame: BrowserFrame; picture?: BrowserFrame } | undefined {
  const now = frames[countUntil(frames, clock) - 1];
  return now && { frame: now.frame, picture: frames[now.picture]?.frame };
}
