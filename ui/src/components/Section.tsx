import { useId, type ReactNode } from "react";

// Section is a part of a page under a heading.
export function Section(props: { title: string; actions?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="pt-6">
      <div className="flex flex-wrap items-center gap-2 pb-2">
        <h2 id={id} className="flex-1 text-base font-semibold">
          {props.title}
        </h2>
        {props.actions}
      </div>
      {props.children}
    </section>
  );
}

// Facts are names with what they are; those without anything are left out.
export function Facts(props: { of: [name: string, value: ReactNode][] }) {
  const shown = props.of.filter(([, value]) => value !== undefined && value !== "" && value !== null && value !== false);
  return (
    <dl className="grid grid-cols-[repeat(auto-fill,minmax(min(100%,15rem),1fr))] gap-x-6 gap-y-3 rounded-lg border bg-panel p-4">
      {shown.map(([name, value]) => (
        <div key={name} className="min-w-0">
          <dt className="text-xs text-dim">{name}</dt>
          <dd className="break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
