import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, useBlocker } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Select } from "@/components/Field";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { useShortcut } from "@/components/shortcuts";
import { Skeleton, Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { PolicyService, type Policy } from "@/gen/deckhand/v1/policy_pb";
import { Replay } from "./Replay";
import { ruleFor, withRule } from "./search";
import { Try } from "./Try";
import { filename, usePolicyCheck } from "./usePolicyCheck";

const Editor = lazy(() => import("@/features/persona/Editor").then((m) => ({ default: m.Editor })));
const Comparison = lazy(() => import("@/components/Comparison").then((m) => ({ default: m.Comparison })));
const policies = createClient(PolicyService, transport);
const route = getRouteApi("/shell/policy");

// PolicyPage edits the policy of the organisation or of one agent, and shows what
// the draft would decide before it is stored.
export function PolicyPage() {
  const search = route.useSearch();
  const found = useQuery(PolicyService.method.getPolicy, { agentId: search.agent ?? "", version: 0 });
  if (found.isPending) {
    return (
      <Page title="Policy">
        <Skeletons rows={10} />
      </Page>
    );
  }
  if (found.error || !found.data.policy) {
    return (
      <Page title="Policy">
        <Problem error={found.error ?? new Error("Policy not found.")} retry={() => void found.refetch()} />
      </Page>
    );
  }
  return <Edit key={`${search.agent ?? ""} ${search.tool ?? ""} ${search.command ?? ""}`} stored={found.data.policy} />;
}

function Edit({ stored }: { stored: Policy }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const admin = may(useSession(), "admin");
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const refresh = useRefresh(PolicyService);
  const own = search.agent !== undefined;
  // A link from a call brings a rule about it, which nobody has stored yet.
  const [text, setText] = useState(() => (search.tool ? withRule(stored.yaml, ruleFor({ ...search, tool: search.tool })) : stored.yaml));
  const [goTo, setGoTo] = useState<{ line: number }>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const check = usePolicyCheck(text, search.agent ?? "");
  const dirty = text !== stored.yaml;
  const last = useRef(stored.yaml);
  // What somebody else stored is taken over where nothing was changed here.
  useEffect(() => {
    setText((now) => (now === last.current ? stored.yaml : now));
    last.current = stored.yaml;
  }, [stored.yaml]);
  useBlocker({
    shouldBlockFn: ({ current, next }) => current.pathname !== next.pathname && !confirm("You have changes that are not applied. Leave anyway?"),
    enableBeforeUnload: () => dirty,
    disabled: !dirty,
  });
  const ready = admin && dirty && !busy && !check.busy && check.remarks.length === 0 && !check.error;
  const apply = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const res = await policies.applyPolicy({ agentId: search.agent ?? "", yaml: text, file: filename });
      toast.success(`Version ${res.policy?.version} applies from now on.`);
      await refresh();
      void navigate({ search: { agent: search.agent }, replace: true, ignoreBlocker: true });
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  useShortcut("mod+Enter", "Apply", "Policy", () => ready && void apply());
  return (
    <Page
      title="Policy"
      actions={
        <>
          <Select
            aria-label="Whose policy"
            value={search.agent ?? ""}
            onChange={(e) => void navigate({ search: { agent: e.target.value || undefined } })}
          >
            <option value="">Organisation</option>
            {agents.data?.agents.map((a) => (
              <option key={a.id} value={a.name}>
                Agent {a.name}
              </option>
            ))}
          </Select>
          <Select
            aria-label="Compare with version"
            value={search.version ?? ""}
            onChange={(e) => void navigate({ search: (s) => ({ ...s, version: Number(e.target.value) || undefined }), replace: true })}
          >
            <option value="">Edit</option>
            {Array.from({ length: stored.version }, (_, i) => stored.version - i).map((v) => (
              <option key={v} value={v}>
                Compare with version {v}
                {v === stored.version ? " (applies)" : ""}
              </option>
            ))}
          </Select>
          {dirty && <Button onClick={() => setText(stored.yaml)}>Discard changes</Button>}
          <Button look="primary" disabled={!ready} busy={busy} title="Ctrl+Enter" onClick={() => void apply()}>
            Apply
          </Button>
        </>
      }
    >
      <p className="pb-3 text-dim">
        {stored.version > 0 ? (
          <>
            Version {stored.version}, by {stored.createdBy}, <Time at={stored.createdAt} />.
          </>
        ) : own ? (
          "This agent has no policy of its own: the organisation's applies."
        ) : (
          "No policy is stored: this one comes with Deckhand. Apply a changed one to replace it."
        )}{" "}
        Rules allow, ask about or deny calls before they run.
      </p>
      {search.tool && dirty && (
        <p role="note" className="mb-3 rounded-md border border-accent p-2">
          A rule about this call is at the end of the rules. Say why, choose allow, ask or deny, narrow it, try it below, and apply it.
        </p>
      )}
      {!admin && (
        <p role="note" className="mb-3 rounded-md border border-warn p-2 text-warn">
          Only an administrator can change the policy. You can try commands.
        </p>
      )}
      <div className="grid gap-4 lg:grid-cols-[minmax(0,1fr)_26rem]">
        <div className="min-w-0 space-y-3">
          <div className="h-[60vh] overflow-hidden rounded-lg border bg-panel" data-keys="own">
            {search.version ? (
              <div className="h-full overflow-auto p-3">
                <Versions agent={search.agent ?? ""} version={search.version} draft={text} onRestore={admin ? setText : undefined} />
              </div>
            ) : (
              <Suspense fallback={<Skeleton className="h-full w-full" />}>
                <Editor value={text} onChange={setText} remarks={check.remarks} goTo={goTo} label="Policy" language="yaml" />
              </Suspense>
            )}
          </div>
          {error !== undefined && <Problem error={error} />}
          {check.error !== undefined && <Problem error={check.error} />}
          {check.remarks.length > 0 && (
            <ul aria-label="Problems" className="space-y-1 rounded-lg border border-bad bg-panel p-3">
              {check.remarks.map((r, i) => (
                <li key={i} className="break-words">
                  {r.line > 0 ? (
                    <button type="button" className="min-h-6 text-left text-bad hover:underline" onClick={() => setGoTo({ line: r.line })}>
                      Line {r.line}: {r.message}
                    </button>
                  ) : (
                    <span className="text-bad">{r.message}</span>
                  )}
                </li>
              ))}
            </ul>
          )}
        </div>
        <div className="min-w-0">
          <Try text={dirty ? text : ""} agent={search.agent ?? search.by ?? ""} own={own} tool={search.tool} command={search.command} args={search.args} broken={check.remarks.length > 0} />
        </div>
      </div>
      {admin && (
        <Section title="What would change">
          <Replay text={text} agent={search.agent ?? ""} broken={check.remarks.length > 0} />
        </Section>
      )}
    </Page>
  );
}

function Versions(props: { agent: string; version: number; draft: string; onRestore: ((yaml: string) => void) | undefined }) {
  const found = useQuery(PolicyService.method.getPolicy, { agentId: props.agent, version: props.version });
  if (found.error) return <Problem error={found.error} retry={() => void found.refetch()} />;
  const old = found.data?.policy;
  if (!old) return <Skeleton className="h-full w-full" />;
  return (
    <div className="space-y-2">
      <div className="flex flex-wrap items-center gap-3">
        <p className="flex-1 text-dim">
          Version {old.version}, by {old.createdBy}, <Time at={old.createdAt} />, and what the draft has instead
        </p>
        {props.onRestore && old.yaml !== props.draft && (
          <Button small onClick={() => props.onRestore?.(old.yaml)}>
            Restore version {old.version} into the draft
          </Button>
        )}
      </div>
      <Suspense fallback={<Skeletons rows={8} />}>
        <Comparison before={old.yaml} after={props.draft} label={`Changes since version ${old.version}`} />
      </Suspense>
    </div>
  );
}
