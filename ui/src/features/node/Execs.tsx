import { useInfiniteQuery, useMutation } from "@connectrpc/connect-query";
import { useMemo, useState } from "react";
import { byToken } from "@/api/pages";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { commandLine } from "./commandLine";
import { bytes } from "@/components/money";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { LogView } from "@/features/log/LogView";
import { logOf } from "@/features/log/source";
import { may } from "@/features/session/queries";
import { UndoDialog } from "@/features/workspace/UndoDialog";
import { NodeExecService, NodeExecState, NodeExecTarget, type NodeExec } from "@/gen/deckhand/v1/node_exec_pb";
import type { Node } from "@/gen/deckhand/v1/node_pb";


// Execs are people's commands and terminals on a node, with what they printed.
export function Execs({ node }: { node: Node }) {
  const session = useSession();
  // People's commands have no events: the list is asked for again.
  const list = useInfiniteQuery(
    NodeExecService.method.listNodeExecs,
    { nodeId: node.id, pageSize: 50, pageToken: "", withTotal: true },
    { ...byToken, refetchInterval: 5_000 },
  );
  const kill = useMutation(NodeExecService.method.killNodeExec, {
    onSuccess: () => void list.refetch(),
    onError: showError,
  });
  const [shown, setShown] = useState<NodeExec>();
  const [undoing, setUndoing] = useState<NodeExec>();
  const all = list.data?.pages.flatMap((page) => page.execs) ?? [];
  return (
    <Section title="Manual commands">
      {list.isPending ? (
        <Skeletons rows={3} />
      ) : list.error && all.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        <Empty title="No commands yet" command={`deckhand node exec ${node.name} --agent AGENT -- uptime`}>
          Commands and terminals that people start on this node are recorded here with their output.
        </Empty>
      ) : (
        <Table label="Manual commands" head={["Command", "Target", "State", "Started by", "Started", "Output", ""]}>
          {all.map((exec) => (
            <Row key={exec.id}>
              <Cell>
                <div className="max-h-40 max-w-96 overflow-y-auto font-mono text-xs break-all">
                  {exec.terminal ? "terminal" : <Literal text={commandLine(exec.argv)} />}
                </div>
                <Id value={exec.id} />
              </Cell>
              <Cell>
                {exec.target === NodeExecTarget.HOST ? <Badge tone="bad">host</Badge> : <Badge>jail</Badge>}
              </Cell>
              <Cell>
                <ExecBadge exec={exec} />
                {exec.error && <div className="pt-1 text-xs text-bad"><Literal text={exec.error} /></div>}
              </Cell>
              <Cell>{exec.createdBy}</Cell>
              <Cell>
                <Time at={exec.startedAt ?? exec.createdAt} />
              </Cell>
              <Cell className="whitespace-nowrap">{bytes(exec.logBytes)}</Cell>
              <Cell>
                <div className="flex gap-1">
                  <Button small onClick={() => setShown(exec)}>
                    Log
                  </Button>
                  {exec.state === NodeExecState.ENDED && exec.files > 0 && !exec.undoneAt && may(session, "advanced") && (
                    <Button small title={`It changed ${exec.files} ${exec.files === 1 ? "file" : "files"} of the workspace`} onClick={() => setUndoing(exec)}>
                      Undo
                    </Button>
                  )}
                  {exec.undoneAt && <Badge>undone</Badge>}
                  {exec.state !== NodeExecState.ENDED && may(session, "advanced") && (
                    <Button small look="danger" busy={kill.isPending} onClick={() => kill.mutate({ execId: exec.id })}>
                      Kill
                    </Button>
                  )}
                </div>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list} shown={all.length}>Load older</More>
      {undoing && (
        <UndoDialog
          of={{ execId: undoing.id }}
          title={undoing.terminal ? "Undo what a terminal changed" : "Undo what a command changed"}
          description={line(undoing.terminal ? `The terminal of ${undoing.createdBy}` : commandLine(undoing.argv))}
          onClose={() => setUndoing(undefined)}
        />
      )}
      {shown && <ExecLog exec={shown} onClose={() => setShown(undefined)} />}
    </Section>
  );
}

function ExecLog({ exec, onClose }: { exec: NodeExec; onClose: () => void }) {
  const source = useMemo(() => logOf(exec.id), [exec.id]);
  return (
    <Dialog open wide onClose={onClose} title={exec.terminal ? "Terminal output" : "Command output"}>
      <LogView source={source} name={`${exec.id}.log`} label="Output" className="h-[60vh]" />
    </Dialog>
  );
}

function ExecBadge({ exec }: { exec: NodeExec }) {
  if (exec.state !== NodeExecState.ENDED) {
    return (
      <Badge tone="accent" dot live>
        {exec.state === NodeExecState.RUNNING ? "running" : "pending"}
      </Badge>
    );
  }
  const good = exec.endReason === "exited" && exec.exitCode === 0;
  const how = exec.endReason === "exited" ? `exit ${exec.exitCode}` : exec.endReason.replaceAll("_", " ");
  return (
    <Badge tone={good ? "good" : "bad"} title={exec.killedBy && `Killed by ${exec.killedBy}; ${exec.membersLeft} processes left`}>
      {how}
    </Badge>
  );
}
