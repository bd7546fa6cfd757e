import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Choose, ChosenBar } from "@/components/Chosen";
import { Confirm } from "@/components/Confirm";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { MemoryService, type Memory } from "@/gen/deckhand/v1/memory_pb";
import { EditMemory } from "./EditMemory";
import { MemoryHistory } from "./MemoryHistory";
import { ownerOf, requestOf, scopes, sourceOf, sources, textOf, typeLabel, types, type MemorySearch } from "./search";

const memories = createClient(MemoryService, transport);
const route = getRouteApi("/shell/memory");

// MemoryPage lists what agents remember, and what people want of all runs. The filter is in the
// address.
export function MemoryPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [editing, setEditing] = useState<Memory | "new">();
  const [past, setPast] = useState<Memory>();
  const [purging, setPurging] = useState(false);
  const [chosen, setChosen] = useState<string[]>([]);
  const refresh = useRefresh(MemoryService);
  const list = useInfiniteQuery(MemoryService.method.listMemories, { ...requestOf(search), withTotal: true }, byToken);
  const all = list.data?.pages.flatMap((page) => page.memories) ?? [];
  const picked = all.filter((m) => chosen.includes(m.id));
  const filter = (change: Partial<MemorySearch>) => {
    setChosen([]);
    void navigate({ search: { ...search, ...change } });
  };
  const restore = async (ids: string[]) => {
    try {
      await memories.restoreMemories({ memoryIds: ids });
      await refresh();
      toast.success(ids.length === 1 ? "Entry restored." : `${ids.length} entries restored.`);
    } catch (e) {
      showError(e);
    }
  };
  const remove = async (ids: string[]) => {
    try {
      const { memoryIds } = await memories.deleteMemories({ memoryIds: ids });
      setChosen([]);
      await refresh();
      toast.success(memoryIds.length === 1 ? "Entry deleted." : `${memoryIds.length} entries deleted.`, {
        duration: 10_000,
        action: { label: "Undo", onClick: () => void restore(memoryIds) },
      });
    } catch (e) {
      showError(e);
    }
  };
  const confirm = async (read: Memory[]) => {
    try {
      await memories.confirmMemories({ memoryIds: read.map((m) => m.id), versions: read.map((m) => m.version) });
      await refresh();
      toast.success("Confirmed: runs are told it from now on.");
    } catch (e) {
      showError(e);
    }
  };
  const filtered = Object.values(search).some((v) => v !== undefined);
  const selects: { label: string; value: string; options: [string, string][]; set: (v: string | undefined) => void }[] = [
    { label: "Whose", value: search.of ?? "", options: scopes.map(([v, , label]) => [v, label]), set: (of) => filter({ of }) },
    { label: "Type", value: search.type ?? "", options: types.map(([v, , label]) => [v, label]), set: (type) => filter({ type }) },
    { label: "Written by", value: search.by ?? "", options: sources, set: (by) => filter({ by }) },
  ];
  return (
    <Page
      title="Memory"
      actions={
        <>
          <Button onClick={() => setPurging(true)}>Delete all of mine</Button>
          <Button look="primary" onClick={() => setEditing("new")}>
            <Plus aria-hidden className="size-4" /> New entry
          </Button>
        </>
      }
    >
      <form
        role="search"
        aria-label="Search the memory"
        className="flex flex-wrap items-end gap-2 pb-4"
        onSubmit={(e) => {
          e.preventDefault();
          filter({ q: String(new FormData(e.currentTarget).get("q") ?? "").trim() || undefined });
        }}
      >
        <Input key={search.q} name="q" aria-label="Words" defaultValue={search.q} maxLength={300} placeholder="Words of the key or the value" className="max-w-xs" />
        <Button type="submit">Search</Button>
        {selects.map((s) => (
          <label key={s.label} className="text-xs text-dim">
            {s.label}
            <Select value={s.value} className="block text-ink" onChange={(e) => s.set(e.target.value || undefined)}>
              <option value="">All</option>
              {s.options.map(([v, label]) => (
                <option key={v} value={v}>
                  {label}
                </option>
              ))}
            </Select>
          </label>
        ))}
        <label className="flex min-h-8 items-center gap-1.5">
          <input type="checkbox" checked={search.deleted ?? false} onChange={(e) => filter({ deleted: e.target.checked || undefined })} /> Deleted
        </label>
        {filtered && <Button onClick={() => void navigate({ search: {} })}>Show all</Button>}
      </form>
      {list.isPending ? (
        <Skeletons rows={5} />
      ) : list.error && all.length === 0 ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : all.length === 0 ? (
        filtered ? (
          <Empty title="No entries with this filter">Show all, or use other words.</Empty>
        ) : (
          <Empty title="Nothing is remembered yet" command={'deckhand memory set instruction "commit messages" "Write commit messages in English."'}>
            Write down what every run should know: a standing instruction, a preference such as your language, or a fact such as an address. Agents with the tool memory_store
            add what they find out, and you correct and delete it here.
          </Empty>
        )
      ) : (
        <>
          <ChosenBar label="Chosen entries" count={picked.length} onClear={() => setChosen([])}>
            {search.deleted ? (
              <Button small onClick={() => void restore(chosen)}>
                Restore chosen
              </Button>
            ) : (
              <>
                {picked.some((m) => m.confirmedBy === "") && (
                  <Button small onClick={() => void confirm(picked.filter((m) => m.confirmedBy === ""))}>
                    Confirm chosen
                  </Button>
                )}
                <Button small look="danger" onClick={() => void remove(chosen)}>
                  Delete chosen
                </Button>
              </>
            )}
          </ChosenBar>
          <Table label="Memory" head={["Entry", "Value", "Whose", "Written by", "Used", ""]}>
            {all.map((m) => (
              <Row key={m.id}>
                <Cell>
                  {m.writable && (
                    <Choose name={m.key} id={m.id} chosen={chosen} onChange={setChosen} />
                  )}
                  <Literal className="font-medium break-all" text={m.key} />
                  <div className="text-xs text-dim">{typeLabel(m.type)}</div>
                </Cell>
                <Cell>
                  <Literal className="line-clamp-4 whitespace-pre-wrap break-words" text={textOf(m.value ? toJson(ValueSchema, m.value) : "")} />
                </Cell>
                <Cell>
                  {ownerOf(m)}
                  {m.onlyFor && <div className="text-xs text-dim">only runs for {m.onlyFor}</div>}
                </Cell>
                <Cell>
                  {m.source?.taskId ? (
                    <Link to="/tasks/$task" params={{ task: m.source.taskId }} className="underline decoration-dotted hover:text-accent">
                      {sourceOf(m.source)}
                    </Link>
                  ) : (
                    sourceOf(m.source)
                  )}
                  <div className="text-xs text-dim">
                    <Time at={m.updatedAt} />
                  </div>
                  {m.untrusted ? (
                    <Badge tone="warn">untrusted: told to no run</Badge>
                  ) : (
                    m.confirmedBy === "" && <Badge tone="info">not confirmed</Badge>
                  )}
                </Cell>
                <Cell>
                  {String(m.uses)}
                  {m.usedAt && (
                    <div className="text-xs text-dim">
                      <Time at={m.usedAt} />
                    </div>
                  )}
                </Cell>
                <Cell>
                  <div className="flex flex-wrap gap-1">
                    {m.writable && !m.deletedAt && (
                      <>
                        {m.confirmedBy === "" && (
                          <Button small onClick={() => void confirm([m])} aria-label={`Confirm ${m.key}`}>
                            Confirm
                          </Button>
                        )}
                        <Button small onClick={() => setEditing(m)} aria-label={`Edit ${m.key}`}>
                          Edit
                        </Button>
                        <Button small look="danger" onClick={() => void remove([m.id])} aria-label={`Delete ${m.key}`}>
                          Delete
                        </Button>
                      </>
                    )}
                    {m.writable && m.deletedAt && (
                      <Button small onClick={() => void restore([m.id])} aria-label={`Restore ${m.key}`}>
                        Restore
                      </Button>
                    )}
                    <Button small onClick={() => setPast(m)} aria-label={`History of ${m.key}`}>
                      History
                    </Button>
                  </div>
                </Cell>
              </Row>
            ))}
          </Table>
          <More pages={list} shown={all.length}>Older entries</More>
        </>
      )}
      {editing && <EditMemory of={editing === "new" ? undefined : editing} onClose={() => setEditing(undefined)} />}
      {past && <MemoryHistory of={past} onClose={() => setPast(undefined)} />}
      <Confirm
        open={purging}
        onClose={() => setPurging(false)}
        title="Delete all that is remembered of me"
        action="Delete for good"
        typed="delete"
        danger
        run={async () => {
          const n = await memories.purgeMemories({});
          await refresh();
          toast.success(`${n.memories} entries deleted for good.`);
        }}
      >
        <p>
          Your own entries, what agents remember for your runs alone, all versions, and the transcripts of your ended tasks that called the memory&apos;s tools are deleted.
          This cannot be undone.
        </p>
      </Confirm>
    </Page>
  );
}
