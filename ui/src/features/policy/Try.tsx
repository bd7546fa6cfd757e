import { createClient } from "@connectrpc/connect";
import { useEffect, useState } from "react";
import { transport } from "@/api/transport";
import { cx } from "@/components/cx";
import { Field, TextArea } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { PolicyService, type TestPolicyResponse } from "@/gen/deckhand/v1/policy_pb";
import { Effect } from "./effect";

const policies = createClient(PolicyService, transport);
const pause = 300;

const edges: Record<string, string> = { allow: "border-l-good", ask: "border-l-warn", deny: "border-l-bad" };

// Try shows what a call would get from the draft: its parts in the colour of the rule
// that decides about each, and what it means for each agent.
export function Try(props: {
  // The draft; empty for the policy that applies.
  text: string;
  agent: string;
  // The draft is the agent's own policy.
  own: boolean;
  tool: string | undefined;
  command: string | undefined;
  args: string | undefined;
  broken: boolean;
}) {
  const shell = props.tool === undefined || props.tool === "shell_exec";
  const [call, setCall] = useState(() => (shell ? (props.command ?? "") : (props.args ?? "{}")));
  const [result, setResult] = useState<TestPolicyResponse>();
  const [error, setError] = useState<unknown>();
  const { text, agent, own, tool, broken } = props;
  useEffect(() => {
    if (call.trim() === "" || broken) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      policies
        .testPolicy(
          { agentId: agent, own, tool: tool ?? "", yaml: text, argumentsJson: shell ? JSON.stringify({ command: call }) : call },
          { signal: abort.signal },
        )
        .then(
          (res) => {
            setResult(res);
            setError(undefined);
          },
          (e: unknown) => {
            if (!abort.signal.aborted) setError(e);
          },
        );
    }, pause);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [call, text, agent, own, tool, shell, broken]);
  const decision = call.trim() === "" ? undefined : result?.decision;
  return (
    <section aria-label="Try a call" className="space-y-3 rounded-lg border bg-panel p-3">
      <Field label={shell ? "Try a command" : `Try a call of ${props.tool}`} hint={shell ? "It is read, not run." : "Its arguments as JSON. It is not made."}>
        <TextArea
          rows={4}
          className="font-mono text-xs"
          spellCheck={false}
          value={call}
          placeholder={shell ? "git push --force origin main" : "{}"}
          onChange={(e) => setCall(e.target.value)}
        />
      </Field>
      {broken && <p className="text-warn">Correct the policy first.</p>}
      {error !== undefined && <Problem error={error} />}
      <div aria-live="polite" className="space-y-3">
        {decision && (
          <p className="break-words" data-testid="verdict">
            <Effect of={decision.effect} /> {decision.rule ? <>by the rule <strong>{decision.rule}</strong></> : "by no rule"}
            {decision.why && <span className="block pt-1 text-dim">{decision.why}</span>}
            {decision.dangers.length > 0 && <span className="block pt-1 text-bad">Known dangers: {decision.dangers.join(", ").replaceAll("_", " ")}</span>}
          </p>
        )}
        {decision && result && result.parts.length > 0 && (
          <ol aria-label="Parts of the command" className="space-y-1">
            {result.parts.map((p, i) => (
              <li key={i} className={cx("border-l-4 pl-2", edges[p.effect] ?? "border-l-line")}>
                <Literal className="font-mono text-xs break-all" text={p.text} />
                <span className="block text-xs text-dim">
                  line {p.line}
                  {p.via.length > 0 && `, run by ${p.via.join(", ")}`} · {p.rule ? `${p.effect === "ask" ? "asks" : p.effect}: ${p.rule}` : "no rule"}
                </span>
              </li>
            ))}
          </ol>
        )}
        {decision && result && result.agents.length > 0 && (
          <div>
            <h3 className="text-xs text-dim">For each agent</h3>
            <ul className="flex flex-wrap gap-x-3 gap-y-1">
              {result.agents.map((a) => (
                <li key={a.agentName} title={a.why}>
                  {a.agentName} <Effect of={a.effect} />
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
    </section>
  );
}
