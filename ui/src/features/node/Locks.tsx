import { useInfiniteQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { byToken } from "@/api/pages";
import { Badge } from "@/components/Badge";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { NodeService, type Node } from "@/gen/deckhand/v1/node_pb";

// Locks lists who works, and who worked, on the machine itself.
export function Locks({ node }: { node: Node }) {
  // As the node, asked for again.
  const list = useInfiniteQuery(
    NodeService.method.listNodeLocks,
    { nodeId: node.id, released: true, pageSize: 50, pageToken: "" },
    { ...byToken, refetchInterval: 10_000 },
  );
  const locks = list.data?.pages.flatMap((page) => page.locks) ?? [];
  return (
    <Section title="Locks">
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error && locks.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : locks.length === 0 ? (
        <p className="text-dim">No locks. A lock keeps tasks from starting while somebody works on the machine.</p>
      ) : (
        <Table label="Locks" head={["Locked by", "Reason", "Locked", "Released", "Purpose"]}>
          {locks.map((lock) => (
            <Row key={lock.id}>
              <Cell>{lock.by}</Cell>
              <Cell><Literal text={lock.reason} /></Cell>
              <Cell>
                <Time at={lock.takenAt} />
              </Cell>
              <Cell>
                {lock.releasedAt ? (
                  <>
                    <Time at={lock.releasedAt} /> by {lock.releasedBy}
                  </>
                ) : (
                  <>
                    <Badge tone="warn">active</Badge>
                    {lock.expiresAt && (
                      <>
                        {" "}
                        until <Time at={lock.expiresAt} />
                      </>
                    )}
                  </>
                )}
              </Cell>
              <Cell>{lock.taskId ? (
                  <Link to="/tasks/$task" params={{ task: lock.taskId }} className="text-accent hover:underline">
                    task of an agent
                  </Link>
                ) : lock.execId ? <Id value={lock.execId} /> : "manual work"}</Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>Load older</More>
    </Section>
  );
}
