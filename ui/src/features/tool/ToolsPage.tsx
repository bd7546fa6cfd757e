import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { byToken } from "@/api/pages";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Effect } from "@/features/policy/effect";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { ToolKind } from "@/gen/deckhand/v1/step_pb";
import { ToolService } from "@/gen/deckhand/v1/tool_pb";
import { kinds, kindWord } from "./search";
import { ToolDialog } from "./ToolDialog";
import { asksOf, categoryOf, summary, takes } from "./words";

const route = getRouteApi("/shell/tools");

// ToolsPage lists the tools that agents may call, and what a call would get from one agent.
export function ToolsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const list = useInfiniteQuery(
    ToolService.method.listTools,
    { agentId: search.agent ?? "", kind: kinds[search.kind ?? ""] ?? ToolKind.UNSPECIFIED, query: search.text ?? "", pageSize: 200, pageToken: "" },
    byToken,
  );
  const all = list.data?.pages.flatMap((page) => page.tools) ?? [];
  const head = ["Tool", "Kind", "Category", "Role", "Asks", "Takes", ...(search.agent ? [`${search.agent} gets`] : [])];
  return (
    <Page
      title="Tools"
      actions={
        <>
          <Input
            aria-label="Search tools"
            placeholder="Search"
            type="search"
            className="w-40"
            value={search.text ?? ""}
            onChange={(e) => void navigate({ search: (s) => ({ ...s, text: e.target.value || undefined }), replace: true })}
          />
          <Select aria-label="Kind" value={search.kind ?? ""} onChange={(e) => void navigate({ search: (s) => ({ ...s, kind: e.target.value || undefined }) })}>
            <option value="">All kinds</option>
            {Object.keys(kinds).map((kind) => (
              <option key={kind} value={kind}>
                {kind}
              </option>
            ))}
          </Select>
          <Select aria-label="Agent" value={search.agent ?? ""} onChange={(e) => void navigate({ search: (s) => ({ ...s, agent: e.target.value || undefined }) })}>
            <option value="">No agent</option>
            {agents.data?.agents.map((a) => (
              <option key={a.id} value={a.name}>
                Agent {a.name}
              </option>
            ))}
          </Select>
        </>
      }
    >
      <p className="pb-3 text-dim">
        {search.agent
          ? "What each call gets is for the call that the tool's description shows. Open a tool to try other arguments."
          : "Choose an agent to see what its calls would get from its persona and the policies."}
      </p>
      {search.tool && <ToolDialog name={search.tool} agent={search.agent ?? ""} onClose={() => void navigate({ search: (s) => ({ ...s, tool: undefined }) })} />}
      {list.isPending && <Skeletons rows={12} />}
      {list.error && all.length === 0 && <Problem error={list.error} retry={() => void list.refetch()} />}
      {list.data && all.length === 0 && <Empty title="No such tools">Change the search or the kind.</Empty>}
      {all.length > 0 && (
        <>
          <Table label="Tools" head={head}>
            {all.map((e) => {
              const t = e.tool;
              return (
                t && (
                  <Row key={t.name}>
                    <Cell>
                      <Link to="/tools" search={{ ...search, tool: t.name }} className="font-mono text-accent hover:underline">
                        {t.name}
                      </Link>
                      <span className="block text-xs text-dim">{summary(t.description)}</span>
                    </Cell>
                    <Cell>{kindWord(t.kind)}</Cell>
                    <Cell>{categoryOf(e)}</Cell>
                    <Cell>
                      {t.leastRole}
                      {!e.roleCovers && <span className="block text-xs text-warn">not yours</span>}
                    </Cell>
                    <Cell>{asksOf(t)}</Cell>
                    <Cell>{takes(t.expectedDuration?.seconds)}</Cell>
                    {search.agent && (
                      <Cell>
                        <Effect of={e.use?.effect ?? ""} />
                        {e.use?.why && <span className="block text-xs text-dim">{e.use.why}</span>}
                      </Cell>
                    )}
                  </Row>
                )
              );
            })}
          </Table>
          <More pages={list}>More tools</More>
        </>
      )}
    </Page>
  );
}
