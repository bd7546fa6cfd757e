import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { FileText, ListChecks, MessageSquare, Search, Terminal, type LucideIcon } from "lucide-react";
import { useEffect, useMemo, useRef } from "react";
import { byToken } from "@/api/pages";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { pieces } from "@/components/marks";
import { copyExactly, Literal, Pieces } from "@/components/Literal";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { millis, Time } from "@/components/Time";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { HistoryService, SearchKind, type SearchHit } from "@/gen/deckhand/v1/history_pb";
import { valueOf, withFilter } from "./search";

const route = getRouteApi("/shell/search");

// What is searched: the filter's word, and what it is called.
const kinds: [value: string, label: string][] = [
  ["", "Everything"],
  ["task", "Tasks"],
  ["call", "Commands and calls"],
  ["output", "Results"],
  ["message", "Messages"],
];

const periods: [days: number, label: string][] = [
  [1, "Last day"],
  [7, "Last 7 days"],
  [30, "Last 30 days"],
];

const day = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

// SearchPage finds words in all histories that the user sees. The query, with its
// filters, is in the address.
export function SearchPage() {
  const { q = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const pages = useInfiniteQuery(HistoryService.method.searchHistory, { query: q, pageSize: 30, pageToken: "" }, { ...byToken, enabled: q !== "", retry: false });
  const hits = pages.data?.pages.flatMap((page) => page.hits) ?? [];
  const until = pages.data?.pages[0]?.indexedUntil;
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLOListElement>(null);
  const look = (query: string) => void navigate({ search: { q: query.trim() || undefined } });
  useEffect(() => {
    if (input.current) input.current.value = q;
  }, [q]);
  // The links take the focus, so that Enter opens what is looked at.
  const step = (by: number) => {
    const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>("a[data-hit]") ?? [])];
    const at = links.findIndex((a) => a === document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  };
  useShortcut("j", "Next result", "Search", () => step(1));
  useShortcut("k", "Previous result", "Search", () => step(-1));
  const filters: { key: string; label: string; options: [string, string][] }[] = [
    { key: "in", label: "Search in", options: kinds },
    { key: "agent", label: "Agent", options: [["", "All agents"], ...(agents.data?.agents.map((a): [string, string] => [a.name, a.name]) ?? [])] },
    { key: "after", label: "Time", options: [["", "Any time"], ...periods.map(([n, label]): [string, string] => [day(n), label])] },
  ];
  return (
    <Page title="Search">
      <form
        role="search"
        aria-label="Search all histories"
        className="space-y-2 pb-4"
        onSubmit={(e) => {
          e.preventDefault();
          look(String(new FormData(e.currentTarget).get("q") ?? ""));
        }}
      >
        <div className="flex max-w-3xl gap-2">
          <Input
            ref={input}
            name="q"
            autoFocus={q === ""}
            aria-label="Words"
            defaultValue={q}
            maxLength={500}
            autoComplete="off"
            spellCheck={false}
            placeholder={'For example: "no space left" tool:shell_exec'}
          />
          <Button type="submit" look="primary">
            Search
          </Button>
        </div>
        <div className="flex flex-wrap gap-2">
          {filters.map((f) => {
            const value = valueOf(q, f.key);
            return (
              <label key={f.key} className="text-xs text-dim">
                {f.label}
                <Select
                  value={value}
                  className="block max-w-56 text-ink"
                  onChange={(e) => look(withFilter(input.current?.value ?? q, f.key, e.target.value))}
                >
                  {f.options.map(([v, label]) => (
                    <option key={v} value={v}>
                      {label}
                    </option>
                  ))}
                  {!f.options.some(([v]) => v === value) && <option value={value}>{value}</option>}
                </Select>
              </label>
            );
          })}
        </div>
      </form>
      {q === "" ? (
        <Help />
      ) : pages.isPending ? (
        <Skeletons rows={8} />
      ) : pages.error ? (
        <Problem error={pages.error} retry={() => void pages.refetch()} />
      ) : (
        <>
          {until && (
            <p role="note" className="pb-2 text-warn">
              The index is being built: what happened since <Time at={until} /> is not found yet.
            </p>
          )}
          {hits.length === 0 ? (
            <Empty title="Nothing found">
              All words have to occur in one text. A command's output is found by its beginning and end, which the agent was given; search the middle of a long output in its log.
            </Empty>
          ) : (
            <>
              <p role="status" className="pb-2 text-xs text-dim">
                {hits.length}
                {pages.hasNextPage ? " newest results" : hits.length === 1 ? " result" : " results"}
              </p>
              <ol ref={list} aria-label="Results" className="space-y-2">
                {hits.map((hit) => (
                  <Hit key={`${hit.kind} ${hit.taskId} ${hit.stepId} ${hit.eventSeq}`} hit={hit} />
                ))}
              </ol>
              <More pages={pages}>Older results</More>
            </>
          )}
        </>
      )}
    </Page>
  );
}

function Help() {
  const examples: [query: string, what: string][] = [
    ["timeout", "tasks, calls, results and messages with timeout, timeouts, …"],
    ['"no space left"', "these words, one after the other"],
    ["main.go in:call", "only in the arguments of calls, such as commands"],
    ["refused agent:coder state:failed", "only in failed tasks of the agent coder"],
    ["deploy tool:shell_exec after:2026-11-01 cost:>1", "by tool, day (UTC) and cost of the task in US dollars"],
  ];
  return (
    <div className="max-w-3xl space-y-3 text-dim">
      <p>
        Finds words in the titles, goals and results of tasks, in the arguments of calls, in what calls returned to the agent, and in messages, questions and replies. What
        happened is found within seconds.
      </p>
      <dl className="grid gap-x-4 gap-y-2 sm:grid-cols-[auto_1fr]">
        {examples.map(([query, what]) => (
          <div key={query} className="contents">
            <dt>
              <Link to="/search" search={{ q: query }} className="font-mono text-ink underline decoration-dotted hover:text-accent">
                {query}
              </Link>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p>
        Of each text the first 32,768 characters are indexed. Of a command's output that is its beginning and its end, which the agent was given: to search all of a long
        output, open its step and use Find. Tasks that you may not see are not searched.
      </p>
    </div>
  );
}

const looks: Record<SearchKind, { icon: LucideIcon; what: string }> = {
  [SearchKind.UNSPECIFIED]: { icon: Search, what: "Unknown (update the console)" },
  [SearchKind.TASK]: { icon: ListChecks, what: "Task" },
  [SearchKind.CALL]: { icon: Terminal, what: "Call" },
  [SearchKind.OUTPUT]: { icon: FileText, what: "Result" },
  [SearchKind.MESSAGE]: { icon: MessageSquare, what: "Message" },
};

// What stands for text that is left out, at the ends of an excerpt.
const cut = "…";

const said: Record<string, string> = { input_required: "Question", inbox_answered: "Reply", thinking: "Agent's message" };

function Hit({ hit }: { hit: SearchHit }) {
  const look = looks[hit.kind] ?? looks[SearchKind.UNSPECIFIED];
  const what =
    hit.kind === SearchKind.MESSAGE ? (said[hit.eventType] ?? "Message") : hit.stepNumber > 0 ? `${look.what} of step ${hit.stepNumber}` : look.what;
  const match = hit.excerpt.find((p) => p.match)?.text;
  // The lines of an excerpt's pieces, each with its mark.
  const text = useMemo(() => hit.excerpt.map((p) => ({ match: p.match, of: p.text === cut && !p.match ? [cut] : pieces(p.text) })), [hit]);
  const inside = (
    <>
      <span className="font-medium">{what}</span>
      {hit.tool && (
        <>
          {" "}
          <Literal className="font-mono text-xs text-dim" text={hit.tool} />
        </>
      )}
    </>
  );
  const link = "underline decoration-dotted hover:text-accent";
  const params = { task: hit.taskId };
  return (
    <li className="rounded-lg border bg-panel p-3">
      <div className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
        <look.icon aria-hidden className="size-4 shrink-0 self-center text-dim" />
        {hit.kind === SearchKind.MESSAGE ? (
          <Link data-hit to="/tasks/$task/replay" params={params} search={{ at: String(hit.eventSeq) }} className={link}>
            {inside}
          </Link>
        ) : hit.stepNumber > 0 ? (
          <Link
            data-hit
            to="/tasks/$task"
            params={params}
            search={{ tab: "steps", step: hit.stepNumber, find: hit.kind === SearchKind.OUTPUT ? match : undefined }}
            className={link}
          >
            {inside}
          </Link>
        ) : (
          <Link data-hit to="/tasks/$task" params={params} className={link}>
            {inside}
          </Link>
        )}
        {hit.saidBy && (
          <span className="text-xs text-dim">
            by <Literal text={hit.saidBy} />
          </span>
        )}
        <Link to="/tasks/$task" params={params} className="min-w-0 truncate text-dim hover:text-accent">
          <Literal text={hit.taskTitle || hit.taskId} />
        </Link>
        <span className="ml-auto flex gap-3 text-xs text-dim">
          {hit.agentName}
          {millis(hit.time) !== undefined && <Time at={hit.time} />}
        </span>
      </div>
      <p dir="ltr" onCopy={copyExactly} className="literal mt-1.5 line-clamp-4 font-mono text-xs break-words whitespace-pre-wrap">
        {text.map((p, i) => (p.match ? <mark key={i}><Pieces of={p.of} /></mark> : <Pieces key={i} of={p.of} />))}
      </p>
    </li>
  );
}
