import { useMemo } from "react";
import { compare } from "./compare";
import { DiffRows } from "./Diff";

// Comparison shows what differs between two texts, exactly as they are.
export function Comparison(props: { before: string; after: string; label: string }) {
  const rows = useMemo(() => compare(props.before, props.after), [props.before, props.after]);
  if (rows.every((r) => r.sign === " ")) return <p className="text-dim">Nothing differs.</p>;
  return <DiffRows rows={rows} label={props.label} />;
}
