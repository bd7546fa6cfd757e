import { createContext, useCallback, useContext, useEffect, useId, useMemo, useState } from "react";

// Progress is how much of a text a person has been shown, in parts of it.
export type Progress = { label: string; shown: number; of: number };

type Report = (id: string, progress: Progress | undefined) => void;

export const ReadingContext = createContext<Report>(() => undefined);

// useReading collects what the texts within a ReadingContext report. What is not
// shown to its end yet is pending.
export function useReading(): { report: Report; pending: Progress[] } {
  const [all, setAll] = useState<ReadonlyMap<string, Progress>>(new Map());
  const report = useCallback<Report>(
    (id, progress) =>
      setAll((before) => {
        const after = new Map(before);
        if (progress) after.set(id, progress);
        else after.delete(id);
        return after;
      }),
    [],
  );
  const pending = useMemo(() => [...all.values()].filter((p) => p.shown < p.of), [all]);
  return { report, pending };
}

// useProgress reports how much of a text has been shown, for as long as the
// component is mounted.
export function useProgress(label: string, shown: number, of: number) {
  const report = useContext(ReadingContext);
  const id = useId();
  useEffect(() => report(id, { label, shown, of }), [report, id, label, shown, of]);
  useEffect(() => () => report(id, undefined), [report, id]);
}
