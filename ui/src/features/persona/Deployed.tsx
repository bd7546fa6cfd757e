import { useQuery } from "@connectrpc/connect-query";
import { useNavigate } from "@tanstack/react-router";
import { Play } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Command } from "@/components/Command";
import { Dialog } from "@/components/Dialog";
import { Id } from "@/components/Id";
import { Time } from "@/components/Time";
import { Run } from "@/features/history/Run";
import { urlOf } from "@/features/trigger/parts";
import type { AppliedTrigger, ApplyAgentResponse } from "@/gen/deckhand/v1/agent_pb";
import { TriggerService } from "@/gen/deckhand/v1/trigger_pb";

const quote = (s: string) => `'${s.replaceAll("'", `'\\''`)}'`;

// tryCommand is how a webhook with a token is tried from a shell.
export function tryCommand(t: AppliedTrigger): string {
  const header = t.secret ? ` -H ${quote(`X-Deckhand-Token: ${t.secret}`)}` : ` -H 'X-Deckhand-Token: SECRET'`;
  return `curl -X POST${header} -H 'Content-Type: application/json' -d '{"text":"hello"}' ${quote(urlOf(t.path))}`;
}

// Deployed shows the result of a deployment. A new webhook's secret is shown here
// and nowhere else.
export function Deployed(props: { result: ApplyAgentResponse; onClose: () => void }) {
  const { result } = props;
  const agent = result.agent;
  const navigate = useNavigate();
  const [running, setRunning] = useState(false);
  const triggers = useQuery(TriggerService.method.listTriggers, { agentId: agent?.id ?? "" }, { staleTime: 0 });
  const word = { created: "created", updated: "updated", unchanged: "unchanged" }[result.change] ?? result.change;
  return (
    <Dialog
      open
      wide
      onClose={props.onClose}
      title={`${agent?.name ?? "The agent"} ${word}`}
      footer={
        <Button onClick={props.onClose}>
          Done
        </Button>
      }
    >
      <p>
        Version {agent?.version}.{" "}
        {result.triggers.some((t) => t.change !== "deleted")
          ? "Its triggers are active."
          : "It has no trigger: it runs when you run it."}
      </p>
      {agent && (
        <div>
          <Button look={result.triggers.every((t) => t.change === "deleted") ? "primary" : "plain"} onClick={() => setRunning(true)}>
            <Play aria-hidden className="size-4" /> Run {agent.name}
          </Button>
        </div>
      )}
      {running && agent && (
        <Run
          agent={agent}
          onClose={() => setRunning(false)}
          started={(task) => void navigate({ to: "/tasks/$task", params: { task } })}
        />
      )}
      {result.triggers.map((t) => {
        const now = triggers.data?.triggers.find((x) => x.name === t.name);
        return (
          <section key={t.name} aria-label={`Trigger ${t.name}`} className="space-y-2 rounded-md border p-3">
            <h3 className="font-semibold">
              {t.name} <span className="font-normal text-dim">{t.kind}, {t.change}</span>
            </h3>
            {t.kind === "webhook" && t.change !== "deleted" && (
              <dl className="space-y-1">
                <dt className="text-xs text-dim">URL</dt>
                <dd data-testid="webhook-url">
                  <Id value={urlOf(t.path)} whole />
                </dd>
                {t.secret ? (
                  <>
                    <dt className="text-xs text-dim">Secret (you will not see it again)</dt>
                    <dd data-testid="webhook-secret">
                      <Id value={t.secret} whole />
                    </dd>
                  </>
                ) : (
                  <dd className="text-dim">The secret is unchanged.</dd>
                )}
                {t.verify === "token" && (
                  <>
                    <dt className="text-xs text-dim">Try it</dt>
                    <dd>
                      <Command text={tryCommand(t)} />
                    </dd>
                  </>
                )}
              </dl>
            )}
            {now && now.nextRuns.length > 0 && (
              <div>
                <h4 className="text-xs text-dim">Next runs</h4>
                <ol className="list-inside list-decimal">
                  {now.nextRuns.map((at) => (
                    <li key={String(at.seconds)}>
                      <Time at={at} /> <span className="text-dim">{new Date(Number(at.seconds) * 1000).toLocaleString()}</span>
                    </li>
                  ))}
                </ol>
              </div>
            )}
          </section>
        );
      })}
    </Dialog>
  );
}
