import { Children, cloneElement, createContext, isValidElement, useContext, type ReactElement, type ReactNode } from "react";
import { cx } from "./cx";

const Head = createContext<string[]>([]);

// Table is rows under headings. On a phone each row is a card: its first cell is the
// first line, and the others follow with their headings. An empty heading is of a column
// of buttons. The roles are said, since a table that is laid out otherwise loses them in
// some browsers.
export function Table(props: { label: string; head: string[]; children: ReactNode }) {
  return (
    <div role="group" aria-label={props.label} tabIndex={0} className="relative overflow-x-auto rounded-lg border bg-panel">
      <table role="table" className="w-full text-left max-sm:block">
        <thead role="rowgroup" className="border-b text-xs text-dim max-sm:sr-only">
          <tr role="row">
            {props.head.map((name, i) => (
              <th role="columnheader" key={name || i} scope="col" className="px-3 py-2 font-medium whitespace-nowrap">
                {name || <span className="sr-only">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup" className="max-sm:block">
          <Head value={props.head}>{props.children}</Head>
        </tbody>
      </table>
    </div>
  );
}

// Row is one of a Table's.
export function Row(props: { children: ReactNode; selected?: boolean }) {
  const head = useContext(Head);
  let at = 0;
  const cells = Children.map(props.children, (child) => {
    if (!isValidElement(child) || child.type !== Cell) return child;
    const cell = child as ReactElement<Parameters<typeof Cell>[0]>;
    const label = head[at];
    const first = at === 0;
    at += cell.props.span ?? 1;
    return cloneElement(cell, { label, first });
  });
  return (
    <tr
      role="row"
      className={cx(
        "border-b last:border-0 hover:bg-raised max-sm:flex max-sm:flex-wrap max-sm:items-baseline max-sm:gap-x-4 max-sm:gap-y-1 max-sm:px-3 max-sm:py-2.5",
        props.selected && "bg-raised",
      )}
    >
      {cells}
    </tr>
  );
}

// Cell is one of a Row's. Its label, on a phone, is its heading.
export function Cell(props: { children?: ReactNode; className?: string; span?: number; label?: string; first?: boolean }) {
  return (
    <td
      role="cell"
      colSpan={props.span}
      data-label={props.first ? undefined : props.label || undefined}
      className={cx(
        "max-w-md px-3 py-2 align-top max-sm:min-w-0 max-sm:max-w-full max-sm:p-0 max-sm:break-words",
        props.first ? "max-sm:basis-full max-sm:font-medium" : "cell-labelled",
        props.className,
      )}
    >
      {props.children}
    </td>
  );
}
