import { useInfiniteQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { byToken } from "@/api/pages";
import { Badge } from "@/components/Badge";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { CredentialService } from "@/gen/deckhand/v1/credential_pb";

// Requests lists requests that were sent with a credential, or with any.
export function Requests(props: { credential: string }) {
  const pages = useInfiniteQuery(
    CredentialService.method.listCredentialRequests,
    { credential: props.credential, taskId: "", pageSize: 25, pageToken: "", withTotal: true },
    // Requests have no events of their own: they are asked for again.
    { ...byToken, refetchInterval: 10_000 },
  );
  const all = pages.data?.pages.flatMap((page) => page.requests) ?? [];
  if (pages.isPending) return <Skeletons rows={3} />;
  if (pages.error && all.length === 0) return <Problem error={pages.error} retry={() => void pages.refetch()} />;
  if (all.length === 0) return <p className="text-dim">No requests yet.</p>;
  return (
    <>
      <Table label="Requests" head={["Time", "Credential", "Request", "Status", "Task"]}>
        {all.map((r) => (
          <Row key={r.id}>
            <Cell>
              <Time at={r.at} />
            </Cell>
            <Cell>{r.credential}</Cell>
            <Cell className="break-all">
              {r.method} <Literal text={r.host + r.path} />
              {r.problem && (
                <div className="text-xs text-bad">
                  <Literal text={r.problem} />
                </div>
              )}
            </Cell>
            <Cell>
              <Badge tone={r.status === 0 || r.status >= 400 ? "bad" : "good"}>{r.status || "none"}</Badge>
            </Cell>
            <Cell>
              {r.taskId && (
                <Link to="/tasks/$task" params={{ task: r.taskId }} className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline">
                  {r.taskId}
                </Link>
              )}
            </Cell>
          </Row>
        ))}
      </Table>
      <More pages={pages} shown={all.length}>Load older</More>
    </>
  );
}
