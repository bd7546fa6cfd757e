import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Choose, ChosenBar } from "@/components/Chosen";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { count } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { PatternService, type Pattern } from "@/gen/deckhand/v1/pattern_pb";
import { Proposals } from "./Proposals";
import { levels, seenBy, states } from "./search";

const route = getRouteApi("/shell/patterns");
const patterns = createClient(PatternService, transport);
const typing = 300;

// PatternsPage lists what successful runs have taught.
export function PatternsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [words, setWords] = useState(search.q ?? "");
  useEffect(() => setWords(search.q ?? ""), [search.q]);
  useEffect(() => {
    if (words === (search.q ?? "")) return;
    const timer = setTimeout(() => void navigate({ search: (s) => ({ ...s, q: words || undefined }), replace: true }), typing);
    return () => clearTimeout(timer);
  }, [words, search.q, navigate]);
  const list = useInfiniteQuery(
    PatternService.method.listPatterns,
    { query: search.q ?? "", domain: search.domain ?? "", state: search.state ?? "", visibility: search.seen ?? "", minConfidence: search.sure ? 0.7 : 0, pageSize: 100, pageToken: "" },
    byToken,
  );
  const all = list.data?.pages.flatMap((page) => page.patterns) ?? [];
  const domains = [...new Set([...all.map((p) => p.domain), ...(search.domain ? [search.domain] : [])])].sort();
  const [chosen, setChosen] = useState<string[]>([]);
  const refresh = useRefresh(PatternService);
  const picked = all.filter((p) => chosen.includes(p.id));
  // each calls what is done to each of the chosen patterns, and offers to undo it.
  const each = async (of: Pattern[], what: (id: string) => Promise<unknown>, said: string, undo?: (id: string) => Promise<unknown>) => {
    try {
      for (const p of of) await what(p.id);
      setChosen([]);
      toast.success(`${of.length === 1 ? "1 pattern" : `${of.length} patterns`} ${said}.`, {
        duration: 10_000,
        action: undo && { label: "Undo", onClick: () => void each(of, undo, "as before") },
      });
    } catch (e) {
      showError(e);
    }
    await refresh();
  };
  const enable = (patternId: string) => patterns.enablePattern({ patternId });
  const disable = (patternId: string) => patterns.disablePattern({ patternId });
  const filtered = Object.values(search).some((v) => v !== undefined);
  return (
    <Page
      title="Patterns"
      actions={
        <>
          <Input aria-label="Search patterns" placeholder="Search" value={words} onChange={(e) => setWords(e.target.value)} className="max-w-48" />
          <Select aria-label="Domain" value={search.domain ?? ""} onChange={(e) => void navigate({ search: (s) => ({ ...s, domain: e.target.value || undefined }) })}>
            <option value="">Any domain</option>
            {domains.map((d) => (
              <option key={d}>{d}</option>
            ))}
          </Select>
          <Select
            aria-label="State"
            value={search.state ?? ""}
            onChange={(e) => void navigate({ search: (s) => ({ ...s, state: states.find((x) => x === e.target.value) }) })}
          >
            <option value="">Any state</option>
            <option value="enabled">Enabled</option>
            <option value="disabled">Disabled</option>
          </Select>
          <Select
            aria-label="Seen by"
            value={search.seen ?? ""}
            onChange={(e) => void navigate({ search: (s) => ({ ...s, seen: levels.find((x) => x === e.target.value) }) })}
          >
            <option value="">Seen by anybody</option>
            {levels.map((l) => (
              <option key={l} value={l}>
                {seenBy[l]}
              </option>
            ))}
          </Select>
          <label className="flex min-h-8 items-center gap-1.5 text-sm">
            <input type="checkbox" checked={search.sure ?? false} onChange={(e) => void navigate({ search: (s) => ({ ...s, sure: e.target.checked || undefined }) })} />
            Confidence of 0.7 or more
          </label>
        </>
      }
    >
      {list.isPending ? (
        <Skeletons rows={4} />
      ) : list.error && all.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        filtered ? (
          <Empty title="No pattern matches these filters">Remove a filter to see more.</Empty>
        ) : (
          <Empty title="No patterns yet" command={'deckhand pattern match "what you want to do"'}>
            A pattern is drawn from each task that succeeds: its plan, its tools, what failed on the way and what then worked. When a second task confirms it, similar tasks of yours are offered
            it. Nobody else sees it until you share it.
          </Empty>
        )
      ) : (
        <>
        <ChosenBar label="Chosen patterns" count={picked.length} onClear={() => setChosen([])}>
          {picked.some((p) => p.enabled) && (
            <Button small onClick={() => void each(picked.filter((p) => p.enabled), disable, "disabled", enable)}>
              Disable chosen
            </Button>
          )}
          {picked.some((p) => !p.enabled && !p.held) && (
            <Button small onClick={() => void each(picked.filter((p) => !p.enabled && !p.held), enable, "enabled", disable)}>
              Enable chosen
            </Button>
          )}
          <Button
            small
            look="danger"
            onClick={() => void each(picked, (patternId) => patterns.deletePattern({ patternId }), "deleted", (patternId) => patterns.undeletePattern({ patternId }))}
          >
            Delete chosen
          </Button>
        </ChosenBar>
        <Table label="Patterns" head={["Pattern", "Confidence", "Sources", "Used", "Owner", "Seen by", "Changed"]}>
          {all.map((p) => (
            <Row key={p.id}>
              <Cell>
                {p.mayManage && (
                  <Choose name={p.title} id={p.id} chosen={chosen} onChange={setChosen} />
                )}
                <Link to="/patterns/$pattern" params={{ pattern: p.id }} className="inline-flex min-h-6 items-center font-medium text-accent hover:underline">
                  <Literal text={p.title} className="break-words whitespace-normal" />
                </Link>
                <div className="text-xs text-dim">
                  {p.taskType} · {p.domain}
                </div>
              </Cell>
              <Cell className="whitespace-nowrap">
                {p.confidence.toFixed(2)} <PatternState of={p} />
              </Cell>
              <Cell>{count(BigInt(p.sources))}</Cell>
              <Cell className="whitespace-nowrap">
                {p.uses} of {p.offers}
              </Cell>
              <Cell>{p.owner}</Cell>
              <Cell>{seenBy[p.visibility] ?? p.visibility}</Cell>
              <Cell>
                <Time at={p.changedAt} />
              </Cell>
            </Row>
          ))}
        </Table>
        </>
      )}
      <More pages={list}>More patterns</More>
      <Proposals />
      <Gain />
    </Page>
  );
}

// PatternState says whether a pattern is offered.
export function PatternState({ of: p }: { of: Pattern }) {
  if (p.held) return <Badge tone="warn" title="A run that taught it has read what anybody may have written. Read it whole, then enable it.">held</Badge>;
  if (!p.enabled) return <Badge>disabled</Badge>;
  return p.suggested ? <Badge tone="good">suggested</Badge> : <Badge title="It is offered when its confidence is high enough">unsure</Badge>;
}

// Gain compares tasks that were offered a pattern with those from which one was held out.
function Gain() {
  const { data } = useQuery(PatternService.method.getPatternReport, {});
  if (!data?.with || !data.without || data.with.matched + data.without.matched === 0n) return null;
  return (
    <Section title="Gain">
      <p className="pb-2 text-dim">
        {data.settings?.holdOut ?? 0} of 100 matches are held out: those tasks are not offered the pattern, so that the two groups can be compared.
        {!data.comparable && " With fewer than 20 ended tasks in a group the difference may be chance."}
      </p>
      <Table label="Gain" head={["Group", "Matched", "Ended", "Succeeded", "Used it", "Iterations", "Cost"]}>
        {([["Offered", data.with], ["Held out", data.without]] as const).map(([name, f]) => (
          <Row key={name}>
            <Cell>{name}</Cell>
            <Cell>{count(f.matched)}</Cell>
            <Cell>{count(f.ended)}</Cell>
            <Cell>{f.ended > 0n ? `${Math.round((100 * Number(f.succeeded)) / Number(f.ended))} %` : "–"}</Cell>
            <Cell>{count(f.used)}</Cell>
            <Cell>{f.ended > 0n ? f.meanIterations.toFixed(1) : "–"}</Cell>
            <Cell>{f.ended > 0n ? `$${(f.meanCostMicros / 1e6).toFixed(4)}` : "–"}</Cell>
          </Row>
        ))}
      </Table>
    </Section>
  );
}
