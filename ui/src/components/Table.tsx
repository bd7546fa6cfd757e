import type { ReactNode } from "react";
import { cx } from "./cx";

// Table is rows under headings. On a narrow screen it scrolls sideways by
// itself, also by keyboard. An empty heading is of a column of buttons.
export function Table(props: { label: string; head: string[]; children: ReactNode }) {
  return (
    <div role="group" aria-label={props.label} tabIndex={0} className="relative overflow-x-auto rounded-lg border bg-panel">
      <table className="w-full text-left">
        <thead className="border-b text-xs text-dim">
          <tr>
            {props.head.map((name, i) => (
              <th key={name || i} scope="col" className="px-3 py-2 font-medium whitespace-nowrap">
                {name || <span className="sr-only">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}

// Row is one of a Table's.
export function Row(props: { children: ReactNode; selected?: boolean }) {
  return (
    <tr className={cx("border-b last:border-0 hover:bg-raised", props.selected && "bg-raised")}>{props.children}</tr>
  );
}

export function Cell(props: { children?: ReactNode; className?: string; span?: number }) {
  return (
    <td colSpan={props.span} className={cx("max-w-md px-3 py-2 align-top", props.className)}>
      {props.children}
    </td>
  );
}
