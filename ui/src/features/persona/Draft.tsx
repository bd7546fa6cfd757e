import { createClient } from "@connectrpc/connect";
import { useBlocker } from "@tanstack/react-router";
import { CircleAlert, CircleCheck, LoaderCircle, Rocket } from "lucide-react";
import { lazy, Suspense, useMemo, useState, type ReactNode } from "react";
import { problemOf } from "@/api/error";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Field, TextArea } from "@/components/Field";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { Skeleton } from "@/components/Skeleton";
import { may } from "@/features/session/queries";
import { AgentService, type ApplyAgentResponse } from "@/gen/deckhand/v1/agent_pb";
import { Deployed } from "./Deployed";
import { settingsOf, withSettings, type Settings } from "./frontmatter";
import type { Remark } from "./problems";
import { SettingsForm } from "./SettingsForm";
import { filename, useCheck, type Check } from "./useCheck";

const Editor = lazy(() => import("./Editor").then((m) => ({ default: m.Editor })));
const agents = createClient(AgentService, transport);

// Text is a persona as it is written.
export type Text = { markdown: string; script: string };

// Draft edits a persona: its text, its settings, its problems, and the button that
// deploys it.
export function Draft(props: {
  title: string;
  from: Text;
  // The deployed version; unset for a new agent.
  deployed?: number;
  actions?: (draft: Text) => ReactNode;
  // In the place of the editor.
  instead?: (draft: Text) => ReactNode;
  onDone: (result: ApplyAgentResponse) => void;
}) {
  const refresh = useRefresh(AgentService);
  const session = useSession();
  const [draft, setDraft] = useState(props.from);
  const [kept, setKept] = useState(props.from);
  const [goTo, setGoTo] = useState<{ line: number }>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [result, setResult] = useState<ApplyAgentResponse>();
  const settings = useMemo(() => settingsOf(draft.markdown), [draft.markdown]);
  const scripted = settings?.provider === "script";
  const script = scripted ? draft.script : "";
  const check = useCheck(draft.markdown, script);
  const allowed = may(session, "advanced");
  const dirty = draft.markdown !== kept.markdown || draft.script !== kept.script;
  useBlocker({
    shouldBlockFn: ({ current, next }) =>
      current.pathname !== next.pathname && !confirm("You have undeployed changes. Leave anyway?"),
    enableBeforeUnload: () => dirty,
    disabled: !dirty,
  });
  const ready = allowed && !busy && !check.busy && check.remarks.length === 0 && !check.error;
  const deploy = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const res = await agents.applyAgent({ markdown: draft.markdown, script, filename });
      setKept(draft);
      setResult(res);
      await refresh();
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  useShortcut("mod+Enter", "Deploy", "Agent", () => ready && void deploy());
  const change = (c: Partial<Settings>) => setDraft((d) => ({ ...d, markdown: withSettings(d.markdown, c) }));
  const instead = props.instead?.(draft);
  return (
    <Page
      title={props.title}
      full
      actions={
        <>
          {props.actions?.(draft)}
          <Button look="primary" disabled={!ready} busy={busy} title="Ctrl+Enter" onClick={() => void deploy()}>
            <Rocket aria-hidden className="size-4" /> Deploy
          </Button>
        </>
      }
    >
      <div className="grid h-full min-h-0 gap-3 px-5 pb-5 max-lg:overflow-y-auto lg:grid-cols-[minmax(0,1fr)_22rem]">
        <div className="flex min-h-0 flex-col gap-3 max-lg:h-[70vh]">
          <div className="min-h-0 flex-1 overflow-hidden rounded-lg border bg-panel" data-keys="own">
            {instead ?? (
              <Suspense fallback={<Skeleton className="h-full w-full" />}>
                <Editor
                  value={draft.markdown}
                  onChange={(markdown) => setDraft((d) => ({ ...d, markdown }))}
                  remarks={check.remarks}
                  goTo={goTo}
                />
              </Suspense>
            )}
          </div>
          {scripted && (
            <Field label="Script" hint="The answers of the scripted model, turn by turn, in YAML.">
              <TextArea
                rows={5}
                className="font-mono text-xs"
                spellCheck={false}
                value={draft.script}
                onChange={(e) => setDraft((d) => ({ ...d, script: e.target.value }))}
              />
            </Field>
          )}
        </div>
        <div className="min-h-0 space-y-4 lg:overflow-y-auto">
          {!allowed && (
            <p role="note" className="rounded-md border border-warn p-2 text-warn">
              You need the role &quot;advanced&quot; to deploy (yours is &quot;{session.role}&quot;).
            </p>
          )}
          {error !== undefined && <Problem error={error} />}
          <Remarks check={check} deployed={props.deployed} onGo={(line) => setGoTo({ line })} />
          <section aria-label="Settings" className="rounded-lg border bg-panel p-3">
            <SettingsForm settings={settings} fixedName={props.deployed !== undefined} onChange={change} />
          </section>
        </div>
      </div>
      {result && (
        <Deployed
          result={result}
          onClose={() => {
            setResult(undefined);
            props.onDone(result);
          }}
        />
      )}
    </Page>
  );
}

// Remarks lists the problems of a draft; a click goes to the line.
export function Remarks(props: { check: Check; deployed?: number; onGo: (line: number) => void }) {
  const { busy, remarks, error, change } = props.check;
  const word =
    {
      created: "Valid: creates a new agent",
      updated: `Valid: creates ${props.deployed ? `version ${props.deployed + 1}` : "a new version"}`,
      unchanged: "No changes",
    }[change] ?? "Valid";
  return (
    <section aria-label="Problems" className="rounded-lg border bg-panel p-3">
      <p role="status" className="flex items-center gap-2 font-medium">
        {busy ? (
          <>
            <LoaderCircle aria-hidden className="size-4 animate-spin text-dim" /> Checking…
          </>
        ) : error !== undefined ? (
          <>
            <CircleAlert aria-hidden className="size-4 text-warn" /> Not checked: {problemOf(error).message}
          </>
        ) : remarks.length > 0 ? (
          <>
            <CircleAlert aria-hidden className="size-4 text-bad" />
            {remarks.length === 1 ? "1 problem" : `${remarks.length} problems`}
          </>
        ) : (
          <>
            <CircleCheck aria-hidden className="size-4 text-good" /> {word}
          </>
        )}
      </p>
      {remarks.length > 0 && (
        <ul className="mt-2 space-y-1">
          {remarks.map((r: Remark, i) => (
            <li key={i}>
              <button
                type="button"
                className="w-full rounded px-1 text-left break-words hover:bg-raised"
                onClick={() => props.onGo(r.line)}
              >
                {r.line > 0 && <span className="pr-2 font-mono text-xs text-dim">line {r.line}</span>}
                {r.message}
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
