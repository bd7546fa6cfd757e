import { useInfiniteQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { Id } from "@/components/Id";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { Enrol } from "./Enrol";
import { Labels, NodeBadges } from "./NodeBadges";
import { Workers } from "./Workers";
import { matches, nodeWords, type NodeWord } from "./search";

const route = getRouteApi("/shell/nodes");

// NodesPage lists the fleet's machines.
export function NodesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const session = useSession();
  const admin = may(session, "admin");
  const [enrolling, setEnrolling] = useState(false);
  useShortcut("n", "Enrol a node", "Nodes", () => setEnrolling(true), admin);
  // Nodes have no events: the list is asked for again.
  const list = useInfiniteQuery(NodeService.method.listNodes, { pageSize: 500, pageToken: "" }, { ...byToken, refetchInterval: 5_000 });
  useRest(list);
  const all = list.data?.pages.flatMap((page) => page.nodes) ?? [];
  const nodes = all.filter((node) => matches(node, search));
  return (
    <Page
      title="Nodes"
      actions={
        admin && (
          <Button look="primary" onClick={() => setEnrolling(true)}>
            <Plus aria-hidden className="size-4" /> Enrol a node
          </Button>
        )
      }
    >
      <div role="search" aria-label="Filter nodes" className="flex flex-wrap gap-2 pb-3">
        <Input
          aria-label="Filter by name or label"
          placeholder="Filter by name or label"
          className="max-w-60"
          value={search.q ?? ""}
          onChange={(e) => void navigate({ search: (s) => ({ ...s, q: e.target.value || undefined }), replace: true })}
        />
        <Select
          aria-label="State"
          value={search.is ?? ""}
          onChange={(e) => void navigate({ search: (s) => ({ ...s, is: (e.target.value as NodeWord) || undefined }) })}
        >
          <option value="">Any state</option>
          {nodeWords.map((word) => (
            <option key={word} value={word}>
              {word === "pressure" ? "under pressure" : word}
            </option>
          ))}
        </Select>
        {(search.q || search.is) && <Button onClick={() => void navigate({ search: {} })}>Clear</Button>}
      </div>
      {list.isPending ? (
        <Skeletons rows={6} />
      ) : list.error && all.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        <Empty title="No nodes yet" command="deckhand node token">
          A node is a machine that runs agents' commands. A join token enrols one.
        </Empty>
      ) : nodes.length === 0 ? (
        <Empty title="No nodes match these filters">
          <Button onClick={() => void navigate({ search: {} })}>Clear filters</Button>
        </Empty>
      ) : (
        <Table label="Nodes" head={["Node", "State", "Labels", "Runtimes", "Version", "Last seen"]}>
          {nodes.map((node) => (
            <Row key={node.id}>
              <Cell>
                <Link to="/nodes/$nodeId" params={{ nodeId: node.name }} className="inline-flex min-h-6 items-center font-medium hover:text-accent hover:underline">
                  {node.name}
                </Link>
                <div>
                  <Id value={node.id} />
                </div>
              </Cell>
              <Cell>
                <NodeBadges node={node} />
                {node.pressure && <div className="pt-1 text-xs text-warn">{node.pressure}</div>}
              </Cell>
              <Cell>
                <Labels of={node.labels} />
              </Cell>
              <Cell>{node.runtimes.join(", ")}</Cell>
              <Cell className="whitespace-nowrap">{node.version}</Cell>
              <Cell>
                <Time at={node.lastSeenAt} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <Workers />
      {enrolling && <Enrol known={all} onClose={() => setEnrolling(false)} />}
    </Page>
  );
}
