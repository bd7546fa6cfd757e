import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { createColumnHelper, tableFeatures, useTable } from "@tanstack/react-table";
import { useMemo } from "react";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Select } from "@/components/Field";
import { Id } from "@/components/Id";
import { inert } from "@/components/inert";
import { dollars } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { TaskBadge } from "@/components/state";
import { Time } from "@/components/Time";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { TaskService, type Task } from "@/gen/deckhand/v1/task_pb";
import { stateNames } from "./search";

const route = getRouteApi("/shell/tasks");
const features = tableFeatures({});
const helper = createColumnHelper<typeof features, Task>();
const columns = helper.columns([
  helper.display({
    id: "what",
    header: "Task",
    cell: ({ row }) => (
      <div className="min-w-0">
        <Link to="/tasks/$task" params={{ task: row.original.id }} className="block truncate font-medium hover:underline">
          {inert(row.original.title || row.original.goal) || "Its persona's instructions"}
        </Link>
        <Id value={row.original.id} />
      </div>
    ),
  }),
  helper.display({
    id: "state",
    header: "State",
    cell: ({ row }) => <TaskBadge state={row.original.state} reason={row.original.reason} />,
  }),
  helper.display({ id: "agent", header: "Agent", cell: ({ row }) => row.original.agentName || row.original.assignee }),
  helper.display({ id: "cost", header: "Cost", cell: ({ row }) => dollars(row.original.usage?.costMicros ?? 0) }),
  helper.display({ id: "created", header: "Created", cell: ({ row }) => <Time at={row.original.createdAt} /> }),
]);
const none: Task[] = [];

// TasksPage lists tasks, newest first; its filters are in the address.
export function TasksPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const pages = useInfiniteQuery(
    TaskService.method.listTasks,
    {
      agentId: search.agent ?? "",
      parentId: search.parent ?? "",
      states: search.state?.map((s) => stateNames[s]!) ?? [],
      pageSize: 20,
      pageToken: "",
    },
    { pageParamKey: "pageToken", getNextPageParam: (page) => page.nextPageToken || undefined },
  );
  const tasks = useMemo(() => pages.data?.pages.flatMap((page) => page.tasks) ?? none, [pages.data]);
  const table = useTable({ features, columns, data: tasks, getRowId: (t) => t.id });
  const filtered = search.state || search.agent || search.parent;
  return (
    <Page title="Tasks">
      <div role="search" aria-label="Filter tasks" className="flex flex-wrap gap-2 pb-3">
        <Select
          aria-label="State"
          value={search.state?.[0] ?? ""}
          onChange={(e) => void navigate({ search: (s) => ({ ...s, state: e.target.value ? [e.target.value] : undefined }) })}
        >
          <option value="">Any state</option>
          {Object.keys(stateNames).map((s) => (
            <option key={s} value={s}>
              {s.replaceAll("_", " ")}
            </option>
          ))}
        </Select>
        <Select
          aria-label="Agent"
          value={search.agent ?? ""}
          onChange={(e) => void navigate({ search: (s) => ({ ...s, agent: e.target.value || undefined }) })}
        >
          <option value="">Any agent</option>
          {agents.data?.agents.map((a) => (
            <option key={a.id} value={a.name}>
              {a.name}
            </option>
          ))}
        </Select>
        {filtered && <Button onClick={() => void navigate({ search: {} })}>Clear</Button>}
      </div>
      {pages.isPending ? (
        <Skeletons rows={10} />
      ) : pages.error ? (
        <Problem error={pages.error} retry={() => void pages.refetch()} />
      ) : tasks.length === 0 ? (
        filtered ? (
          <Empty title="No task is like that">Change the filters, or clear them.</Empty>
        ) : (
          <Empty title="No task yet" command={'deckhand run log-triage "What happened on this machine?"'}>
            A task is one run of an agent towards one goal.
          </Empty>
        )
      ) : (
        <div className="overflow-x-auto rounded-lg border bg-panel">
          <table className="w-full text-left">
            <thead className="border-b text-xs text-dim">
              {table.getHeaderGroups().map((group) => (
                <tr key={group.id}>
                  {group.headers.map((header) => (
                    <th key={header.id} scope="col" className="px-3 py-2 font-medium">
                      <table.FlexRender header={header} />
                    </th>
                  ))}
                </tr>
              ))}
            </thead>
            <tbody>
              {table.getRowModel().rows.map((row) => (
                <tr key={row.id} className="border-b last:border-0 hover:bg-raised">
                  {row.getAllCells().map((cell) => (
                    <td key={cell.id} className="max-w-md px-3 py-2 align-top">
                      <table.FlexRender cell={cell} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {pages.hasNextPage && (
        <div className="pt-3">
          <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            Older tasks
          </Button>
        </div>
      )}
    </Page>
  );
}
