import { fromJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { toast } from "sonner";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Diff } from "@/components/Diff";
import { Literal } from "@/components/Literal";
import { showError } from "@/components/showError";
import { outcomeOf } from "@/features/pattern/PatternPage";
import { Verdict } from "@/features/pattern/Verdict";
import { may } from "@/features/session/queries";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { FeedbackSubject } from "@/gen/deckhand/v1/feedback_pb";
import { InsightService, type FailureProposal } from "@/gen/deckhand/v1/insight_pb";
import { MemoryService, MemoryType } from "@/gen/deckhand/v1/memory_pb";
import { PolicyService } from "@/gen/deckhand/v1/policy_pb";
import { ScopeKind } from "@/gen/deckhand/v1/scope_pb";

const agents = createClient(AgentService, transport);
const memories = createClient(MemoryService, transport);
const policies = createClient(PolicyService, transport);

// Explanation says why an ended task failed and what would mend it, what the task was offered,
// and takes feedback on it.
export function Explanation({ taskId }: { taskId: string }) {
  const session = useSession();
  const { data } = useQuery(InsightService.method.explainTask, { taskId });
  return (
    <div className="mx-5 mb-3 shrink-0 space-y-2 text-sm">
      {data?.failed && (
        <details className="max-h-[40vh] overflow-y-auto rounded-lg border bg-panel p-3">
          <summary className="cursor-pointer">
            <span className="font-semibold">Failure analysis</span> <Badge tone="warn">{data.class}</Badge> <Literal text={data.cause} className="break-words whitespace-normal" />
          </summary>
          <div className="space-y-2 pt-2">
            {data.stepId && (
              <p>
                First seen in{" "}
                <Link to="/tasks/$task" params={{ task: taskId }} search={{ tab: "steps", step: data.stepNumber }} className="text-accent hover:underline">
                  step {data.stepNumber}, {data.tool}
                </Link>
                : <Literal text={data.evidence} className="break-words whitespace-pre-wrap" />
              </p>
            )}
            {data.similar.map((s) => (
              <p key={s.taskId}>
                Similar:{" "}
                <Link to="/tasks/$task" params={{ task: s.taskId }} className="text-accent hover:underline">
                  <Literal text={s.title || s.taskId} />
                </Link>
                {s.solvedByTaskId ? (
                  <>
                    , solved by{" "}
                    <Link to="/tasks/$task" params={{ task: s.solvedByTaskId }} className="text-accent hover:underline">
                      {s.solvedHow}
                    </Link>
                  </>
                ) : (
                  ", not solved yet"
                )}
              </p>
            ))}
            {data.proposals.map((p, i) => (
              <Mending key={i} of={p} />
            ))}
          </div>
        </details>
      )}
      <div className="flex flex-wrap items-center gap-3">
        {may(session, "basic") && <Verdict subject={FeedbackSubject.TASK} id={taskId} what="result" />}
        {data?.offer && (
          <span className="text-dim">
            {data.offer.patternId ? (
              <>
                Pattern{" "}
                <Link to="/patterns/$pattern" params={{ pattern: data.offer.patternId }} className="text-accent hover:underline">
                  <Literal text={data.offer.title} />
                </Link>
              </>
            ) : (
              "A pattern"
            )}
            : {outcomeOf(data.offer)}
          </span>
        )}
      </div>
    </div>
  );
}

// Mending is a change that would mend a failure, shown whole before it is applied.
function Mending({ of: p }: { of: FailureProposal }) {
  const session = useSession();
  const [busy, setBusy] = useState(false);
  const [done, setDone] = useState(false);
  const apply = async () => {
    setBusy(true);
    try {
      if (p.kind === "memory") {
        await memories.setMemory({ scope: { kind: ScopeKind.USER }, type: MemoryType.FACT, key: p.memoryKey, value: fromJson(ValueSchema, p.content) });
      } else if (p.kind === "policy") {
        await policies.applyPolicy({ agentId: p.agentId, yaml: p.content, file: "policy.yaml" });
      } else {
        const now = await agents.getAgent({ agentId: p.agentId });
        if (now.version?.version !== p.baseVersion) throw new Error(`${p.agentName} has changed since this was proposed. Reload the page, and read the change again.`);
        await agents.applyAgent({ filename: `${p.agentName}.md`, markdown: p.content, script: now.version?.script ?? "" });
      }
      setDone(true);
      toast.success(p.kind === "memory" ? "Your later runs are told it." : `Applied to ${p.agentName}.`);
    } catch (e) {
      showError(e);
    }
    setBusy(false);
  };
  return (
    <div className="space-y-1">
      <div className="flex flex-wrap items-center gap-2">
        <Literal text={p.title} className="break-words whitespace-normal" />
        {p.diff && may(session, p.kind === "policy" ? "admin" : p.kind === "memory" ? "basic" : "advanced") && (
          <Button small look="primary" busy={busy} disabled={done} onClick={() => void apply()}>
            {done ? "Applied" : "Apply"}
          </Button>
        )}
      </div>
      {p.diff && <Diff text={p.diff} label={p.title} />}
    </div>
  );
}
