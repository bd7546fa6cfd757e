import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { rows } from "@deckhand/sdk";
import { getRouteApi, Link } from "@tanstack/react-router";
import { createColumnHelper, tableFeatures, useTable } from "@tanstack/react-table";
import { toJson } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Download } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { byToken } from "@/api/pages";
import { Button } from "@/components/Button";
import { download } from "@/components/download";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { dollars } from "@/components/money";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { TaskBadge } from "@/components/state";
import { Time } from "@/components/Time";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { TaskSchema, TaskService, type Task } from "@/gen/deckhand/v1/task_pb";
import { tasks as client } from "./actions";
import { midnight, stateNames, type TaskSearch } from "./search";
import { TasksBulk } from "./TasksBulk";

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
          <Literal text={row.original.title || row.original.goal || "(no goal given: follows its persona)"} />
        </Link>
        <Id value={row.original.id} />
      </div>
    ),
  }),
  helper.display({
    id: "state",
    header: "State",
    cell: ({ row }) => <TaskBadge task={row.original} />,
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
  const request = useMemo(() => requestOf(search), [search]);
  const pages = useInfiniteQuery(TaskService.method.listTasks, request, byToken);
  const tasks = useMemo(() => pages.data?.pages.flatMap((page) => page.tasks) ?? none, [pages.data]);
  const table = useTable({ features, columns, data: tasks, getRowId: (t) => t.id });
  const filtered = Object.values(search).some((v) => v !== undefined);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const chosen = tasks.filter((t) => selected.has(t.id));
  const [exporting, setExporting] = useState(false);
  const find = useRef<HTMLInputElement>(null);
  useShortcut("f", "Search tasks", "Tasks", () => find.current?.focus());
  const set = (part: Partial<TaskSearch>) => void navigate({ search: (s) => ({ ...s, ...part }), replace: true });
  const save = async () => {
    setExporting(true);
    try {
      await exportTasks(request);
    } catch (e) {
      showError(e);
    } finally {
      setExporting(false);
    }
  };
  return (
    <Page
      title="Tasks"
      actions={
        <Button busy={exporting} disabled={tasks.length === 0} onClick={() => void save()}>
          <Download aria-hidden className="size-4" /> Export
        </Button>
      }
    >
      <div role="search" aria-label="Filter tasks" className="flex flex-wrap gap-2 pb-3">
        <Words ref={find} value={search.q ?? ""} onChange={(q) => set({ q: q || undefined })} />
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
        <Input aria-label="Created from" type="date" className="max-w-40" value={search.from ?? ""} onChange={(e) => set({ from: e.target.value || undefined })} />
        <Input aria-label="Created until" type="date" className="max-w-40" value={search.to ?? ""} onChange={(e) => set({ to: e.target.value || undefined })} />
        {filtered && <Button onClick={() => void navigate({ search: {} })}>Clear</Button>}
      </div>
      <TasksBulk tasks={chosen} onClear={() => setSelected(new Set())} />
      {pages.isPending ? (
        <Skeletons rows={10} />
      ) : pages.error ? (
        <Problem error={pages.error} retry={() => void pages.refetch()} />
      ) : tasks.length === 0 ? (
        filtered ? (
          <Empty title="No tasks match these filters">
            <Button onClick={() => void navigate({ search: {} })}>Clear filters</Button>
          </Empty>
        ) : (
          <Empty title="No tasks yet" command={'deckhand run log-triage "What happened on this machine?"'}>
            A task is one run of an agent towards one goal.
          </Empty>
        )
      ) : (
        <div className="overflow-x-auto rounded-lg border bg-panel">
          <table role="table" className="w-full text-left max-sm:block">
            <thead role="rowgroup" className="border-b text-xs text-dim max-sm:sr-only">
              {table.getHeaderGroups().map((group) => (
                <tr role="row" key={group.id}>
                  <th role="columnheader" scope="col" className="w-8 py-2 pl-3">
                    <input
                      type="checkbox"
                      aria-label="Select all shown tasks"
                      className="size-4 accent-accent"
                      checked={chosen.length === tasks.length}
                      onChange={(e) => setSelected(new Set(e.target.checked ? tasks.map((t) => t.id) : []))}
                    />
                  </th>
                  {group.headers.map((header) => (
                    <th role="columnheader" key={header.id} scope="col" className="px-3 py-2 font-medium">
                      <table.FlexRender header={header} />
                    </th>
                  ))}
                </tr>
              ))}
            </thead>
            <tbody role="rowgroup" className="max-sm:block">
              {table.getRowModel().rows.map((row) => (
                <tr role="row" key={row.id} className="border-b last:border-0 hover:bg-raised max-sm:flex max-sm:flex-wrap max-sm:items-center max-sm:gap-x-3 max-sm:gap-y-1 max-sm:px-3 max-sm:py-2">
                  <td role="cell" className="w-8 py-2 pl-3 align-top max-sm:p-0">
                    <input
                      type="checkbox"
                      aria-label={`Select ${line(row.original.title || row.original.goal || row.id)}`}
                      className="size-4 accent-accent"
                      checked={selected.has(row.id)}
                      onChange={(e) => {
                        const next = new Set(selected);
                        if (e.target.checked) next.add(row.id);
                        else next.delete(row.id);
                        setSelected(next);
                      }}
                    />
                  </td>
                  {row.getAllCells().map((cell) => (
                    <td role="cell" key={cell.id} className="max-w-md px-3 py-2 align-top max-sm:max-w-full max-sm:min-w-0 max-sm:p-0 max-sm:nth-2:basis-[calc(100%-3rem)]">
                      <table.FlexRender cell={cell} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <More pages={pages} shown={tasks.length}>Older tasks</More>
    </Page>
  );
}

function requestOf(search: TaskSearch) {
  return {
    query: search.q ?? "",
    agentId: search.agent ?? "",
    parentId: search.parent ?? "",
    states: search.state?.map((s) => stateNames[s]!) ?? [],
    createdFrom: search.from ? timestampFromDate(midnight(search.from)) : undefined,
    createdBefore: search.to ? timestampFromDate(midnight(search.to, 1)) : undefined,
    pageSize: 20,
    pageToken: "",
    withTotal: true,
  };
}

// Words is the search box. It updates the address when typing stops.
function Words(props: { value: string; onChange: (q: string) => void; ref: React.Ref<HTMLInputElement> }) {
  const [text, setText] = useState(props.value);
  const latest = useRef(props.onChange);
  latest.current = props.onChange;
  useEffect(() => setText(props.value), [props.value]);
  useEffect(() => {
    if (text === props.value) return undefined;
    const timer = setTimeout(() => latest.current(text.trim()), 250);
    return () => clearTimeout(timer);
  }, [text, props.value]);
  return (
    <Input
      ref={props.ref}
      type="search"
      aria-label="Search goals and results"
      placeholder="Search goals and results"
      maxLength={200}
      className="max-w-72"
      value={text}
      onChange={(e) => setText(e.target.value)}
    />
  );
}

// The most tasks that are exported at once.
const most = 10_000;

// exportTasks saves what matches as JSON Lines, newest first.
async function exportTasks(request: ReturnType<typeof requestOf>) {
  const lines: string[] = [];
  for await (const t of rows(client.listTasks, { ...request, pageSize: 500, withTotal: false })) {
    lines.push(JSON.stringify(toJson(TaskSchema, t)));
    if (lines.length >= most) break;
  }
  download("tasks.jsonl", new Blob([lines.map((l) => `${l}\n`).join("")], { type: "application/jsonl" }));
}
