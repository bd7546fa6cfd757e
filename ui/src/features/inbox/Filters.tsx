import { useEffect, useRef, useState } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { Button } from "@/components/Button";
import { cx } from "@/components/cx";
import { Input, Select } from "@/components/Field";
import { useShortcut } from "@/components/shortcuts";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import type { InboxCount } from "@/gen/deckhand/v1/inbox_pb";
import { kindWord } from "./Details";
import { isFiltered, kindNames, type InboxSearch } from "./search";

// Filters chooses what of the inbox shows. The kinds have the number of items that wait.
export function Filters(props: { search: InboxSearch; counts: InboxCount[]; set: (part: Partial<InboxSearch>) => void; clear: () => void }) {
  const { search, set } = props;
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const find = useRef<HTMLInputElement>(null);
  useShortcut("f", "Search the inbox", "Inbox", () => find.current?.focus());
  const toggle = (name: string) => {
    const now = search.kind ?? [];
    const then = now.includes(name) ? now.filter((k) => k !== name) : [...now, name];
    set({ kind: then.length > 0 ? then : undefined });
  };
  return (
    <div role="search" aria-label="Filter the inbox" className="flex flex-wrap items-center gap-2 px-5 pb-3 max-sm:px-4 max-sm:[&>select]:w-[calc(50%-0.25rem)]">
      {Object.entries(kindNames).map(([name, kind]) => {
        const n = props.counts.find((c) => c.kind === kind)?.items ?? 0;
        const on = search.kind?.includes(name) ?? false;
        if (n === 0 && !on) return null;
        return (
          <button
            key={name}
            type="button"
            aria-pressed={on}
            onClick={() => toggle(name)}
            className={cx("inline-flex min-h-8 items-center gap-1.5 rounded-full border px-3 text-sm hover:bg-raised", on && "border-accent bg-raised font-medium")}
          >
            {kindWord(kind)} <span className="text-dim">{n}</span>
          </button>
        );
      })}
      <Select aria-label="Agent" value={search.agent ?? ""} onChange={(e) => set({ agent: e.target.value || undefined })}>
        <option value="">Any agent</option>
        {agents.data?.agents.map((a) => (
          <option key={a.id} value={a.name}>
            {a.name}
          </option>
        ))}
      </Select>
      <Select aria-label="Risk" value={search.danger ? "danger" : ""} onChange={(e) => set({ danger: e.target.value ? true : undefined })}>
        <option value="">Any risk</option>
        <option value="danger">Dangerous</option>
      </Select>
      <Select aria-label="Whose" value={search.mine ? "mine" : ""} onChange={(e) => set({ mine: e.target.value ? true : undefined })}>
        <option value="">Everybody&apos;s</option>
        <option value="mine">Mine</option>
      </Select>
      <Select aria-label="State" value={search.snoozed ? "snoozed" : search.all ? "all" : ""} onChange={(e) => set({ all: e.target.value === "all" || undefined, snoozed: e.target.value === "snoozed" || undefined })}>
        <option value="">Open</option>
        <option value="snoozed">Snoozed by you</option>
        <option value="all">Open and answered</option>
      </Select>
      <Words ref={find} value={search.q ?? ""} onChange={(q) => set({ q: q || undefined })} />
      {search.task && (
        <button type="button" onClick={() => set({ task: undefined })} className="inline-flex min-h-8 items-center gap-1.5 rounded-full border border-accent bg-raised px-3 text-sm">
          One task <span aria-hidden>×</span>
          <span className="sr-only">: show all tasks</span>
        </button>
      )}
      {isFiltered(search) && <Button onClick={props.clear}>Clear</Button>}
    </div>
  );
}

// Words is the search field. The list is asked again when somebody stops typing.
function Words(props: { value: string; onChange: (q: string) => void; ref: React.Ref<HTMLInputElement> }) {
  const [text, setText] = useState(props.value);
  const change = useRef(props.onChange);
  change.current = props.onChange;
  useEffect(() => setText(props.value), [props.value]);
  useEffect(() => {
    if (text === props.value) return undefined;
    const timer = setTimeout(() => change.current(text), 300);
    return () => clearTimeout(timer);
  }, [text, props.value]);
  return (
    <Input ref={props.ref} type="search" aria-label="Search the inbox" placeholder="Search commands, reasons, tasks" className="max-w-64 max-sm:max-w-none" maxLength={200} value={text} onChange={(e) => setText(e.target.value)} />
  );
}
