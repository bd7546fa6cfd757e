import type { ReactNode } from "react";
import { Button } from "./Button";

// ChosenBar has the actions on the rows of a list that are chosen; nothing when none is.
export function ChosenBar(props: { label: string; count: number; onClear: () => void; children: ReactNode }) {
  if (props.count === 0) return null;
  return (
    <div role="toolbar" aria-label={props.label} className="flex items-center gap-2 pb-2">
      <span>{props.count} chosen</span>
      {props.children}
      <Button small onClick={props.onClear}>
        Clear
      </Button>
    </div>
  );
}

// Choose is the box by which a row is chosen. chosen are the ids of all rows that are.
export function Choose(props: { name: string; id: string; chosen: string[]; onChange: (chosen: string[]) => void }) {
  return (
    <input
      type="checkbox"
      className="mr-2 align-middle"
      aria-label={`Choose ${props.name}`}
      checked={props.chosen.includes(props.id)}
      onChange={(e) => props.onChange(e.target.checked ? [...props.chosen, props.id] : props.chosen.filter((id) => id !== props.id))}
    />
  );
}
