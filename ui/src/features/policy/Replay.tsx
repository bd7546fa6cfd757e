import { createClient } from "@connectrpc/connect";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Cell, Row, Table } from "@/components/Table";
import { PolicyService, type ReplayPolicyResponse } from "@/gen/deckhand/v1/policy_pb";
import { Effect } from "./effect";
import { sums } from "./sums";
import { filename } from "./usePolicyCheck";

const policies = createClient(PolicyService, transport);

// Replay decides the newest steps by the draft, and shows those that it would have
// decided otherwise.
export function Replay(props: { text: string; agent: string; broken: boolean }) {
  const [steps, setSteps] = useState(200);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [result, setResult] = useState<{ of: string; res: ReplayPolicyResponse }>();
  const replay = async () => {
    setBusy(true);
    setError(undefined);
    try {
      setResult({ of: props.text, res: await policies.replayPolicy({ yaml: props.text, agentId: props.agent, steps, file: filename }) });
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  const res = result?.res;
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap items-center gap-2">
        <Select aria-label="Steps" value={steps} onChange={(e) => setSteps(Number(e.target.value))}>
          <option value={200}>The last 200 steps</option>
          <option value={1000}>The last 1,000 steps</option>
          <option value={2000}>The last 2,000 steps</option>
        </Select>
        <Button busy={busy} disabled={props.broken} onClick={() => void replay()}>
          Replay
        </Button>
        {res && result.of !== props.text && <span className="text-warn">The draft has changed since.</span>}
      </div>
      {error !== undefined && <Problem error={error} />}
      {res && (
        <p data-testid="replayed" role="status">
          {res.changed.length === 0
            ? `None of ${res.steps} steps would be decided otherwise.`
            : `${res.changed.length} of ${res.steps} steps would be decided otherwise: ${sums(res.changed)}.`}
          {res.unreadable > 0 && ` ${res.unreadable} more could not be read.`}
        </p>
      )}
      {res && res.changed.length > 0 && (
        <Table label="Steps that would be decided otherwise" head={["Agent", "Call", "Was", "Would be", "Rule"]}>
          {res.changed.map((c) => (
            <Row key={c.stepId}>
              <Cell>{c.agentName}</Cell>
              <Cell className="max-w-lg break-words">
                <Link to="/tasks/$task" params={{ task: c.taskId }} className="hover:underline">
                  <span className="text-dim">{c.tool}</span> <Literal className="font-mono text-xs" text={c.preview} />
                </Link>
              </Cell>
              <Cell>
                <Effect of={c.was?.effect ?? ""} />
              </Cell>
              <Cell>
                <Effect of={c.wouldBe?.effect ?? ""} />
              </Cell>
              <Cell>{c.wouldBe?.rule || "no rule"}</Cell>
            </Row>
          ))}
        </Table>
      )}
    </div>
  );
}
