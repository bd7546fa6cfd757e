import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { getRouteApi } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Choose, ChosenBar } from "@/components/Chosen";
import { Confirm } from "@/components/Confirm";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { useShortcut } from "@/components/shortcuts";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { KnowledgeService, type Collection } from "@/gen/deckhand/v1/knowledge_pb";
import { AddDocuments } from "./AddDocuments";
import { CollectionDialog } from "./CollectionDialog";
import { PassageDialog } from "./PassageDialog";
import { Results } from "./Results";
import { isRunning, progressOf, scopeWord } from "./words";

const route = getRouteApi("/shell/knowledge");
const knowledge = createClient(KnowledgeService, transport);

const sum = (of: Collection[] | undefined, value: (c: Collection) => bigint) => (of ?? []).reduce((n, c) => n + value(c), 0n);

// How often the list is read again while a collection is synced.
const syncing = 1000;

// KnowledgePage lists the collections of documents that the user sees, and searches them.
export function KnowledgePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const writer = may(useSession(), "basic");
  const refresh = useRefresh(KnowledgeService);
  const input = useRef<HTMLInputElement>(null);
  const [adding, setAdding] = useState<{ to?: Collection }>();
  const [removing, setRemoving] = useState<Collection[]>();
  const list = useInfiniteQuery(
    KnowledgeService.method.listCollections,
    { pageSize: 100, pageToken: "" },
    { ...byToken, refetchInterval: (query) => (query.state.data?.pages.some((page) => page.collections.some((c) => isRunning(c.sync))) ? syncing : false) },
  );
  const all = list.data?.pages.flatMap((page) => page.collections) ?? [];
  const { q = "", collection = "" } = search;
  const found = useQuery(
    KnowledgeService.method.searchKnowledge,
    { query: q, collectionIds: collection === "" ? [] : [collection], limit: 20 },
    { enabled: q !== "", retry: false },
  );
  useEffect(() => {
    if (input.current) input.current.value = q;
  }, [q]);
  useShortcut("n", "Add documents", "Knowledge", () => setAdding({}), writer);
  const [chosen, setChosen] = useState<string[]>([]);
  const picked = all.filter((c) => chosen.includes(c.id));
  const only = removing?.length === 1 ? removing[0] : undefined;
  const sync = async (...of: Collection[]) => {
    try {
      for (const c of of) await knowledge.syncCollection({ collectionId: c.id });
      setChosen([]);
    } catch (e) {
      showError(e);
    }
    await refresh();
  };
  return (
    <Page
      title="Knowledge"
      actions={
        writer && (
          <Button look="primary" onClick={() => setAdding({})}>
            <Plus aria-hidden className="size-4" /> Add documents
          </Button>
        )
      }
    >
      {all.length > 0 && (
        <form
          role="search"
          aria-label="Search documents"
          className="flex flex-wrap gap-2 pb-4"
          onSubmit={(e) => {
            e.preventDefault();
            const words = String(new FormData(e.currentTarget).get("q") ?? "").trim();
            void navigate({ search: (s) => ({ ...s, q: words || undefined }) });
          }}
        >
          <Input ref={input} name="q" aria-label="Question or words" defaultValue={q} maxLength={1000} autoComplete="off" placeholder="A question or words" className="max-w-xl flex-1" />
          <Select
            aria-label="Collection"
            value={collection}
            onChange={(e) => void navigate({ search: (s) => ({ ...s, collection: e.target.value || undefined }) })}
          >
            <option value="">All collections</option>
            {all.map((c) => (
              <option key={c.id} value={c.id}>
                {c.name}
              </option>
            ))}
          </Select>
          <Button type="submit">Search</Button>
        </form>
      )}
      {q !== "" && (
        <Results
          found={found.data?.passages}
          pending={found.isPending}
          note={found.data?.note ?? ""}
          error={found.error ?? undefined}
          retry={() => void found.refetch()}
          onOpen={(passage) => void navigate({ search: (s) => ({ ...s, passage }) })}
          onClear={() => void navigate({ search: (s) => ({ ...s, q: undefined }) })}
        />
      )}
      {list.isPending && <Skeletons />}
      {list.error && all.length === 0 && <Problem error={list.error} retry={() => void list.refetch()} />}
      {list.data && all.length === 0 && (
        <Empty title="No documents yet" command="deckhand knowledge add handbook leave.md expenses.pdf">
          Add a handbook, specifications or a repository. You search them here, and agents with the tool rag_query: they find only what the person they run for may
          see. Documents are read in a jail on a node.
        </Empty>
      )}
      {q === "" && (
        <ChosenBar label="Chosen collections" count={picked.length} onClear={() => setChosen([])}>
          <Button small onClick={() => void sync(...picked)}>
            Sync chosen
          </Button>
          <Button small look="danger" onClick={() => setRemoving(picked)}>
            Delete chosen
          </Button>
        </ChosenBar>
      )}
      {q === "" && all.length > 0 && (
        <Table label="Collections" head={["Name", "Whose", "Documents", "Passages", "Last sync", ...(writer ? [""] : [])]}>
          {all.map((c) => (
            <Row key={c.id}>
              <Cell className="font-medium">
                {writer && c.writable && (
                  <Choose name={c.name} id={c.id} chosen={chosen} onChange={setChosen} />
                )}
                <button type="button" className="text-left hover:underline" onClick={() => void navigate({ search: (s) => ({ ...s, collection: c.id, passage: "sources" }) })}>
                  {c.name}
                </button>
                {c.description !== "" && <Literal className="block text-xs text-dim" text={c.description} />}
              </Cell>
              <Cell>{scopeWord[c.scope?.kind ?? 0]}</Cell>
              <Cell>
                {String(c.documents)}
                {c.skipped > 0n && <span className="text-xs text-dim"> and {String(c.skipped)} skipped</span>}
              </Cell>
              <Cell>{String(c.passages)}</Cell>
              <Cell>
                <span role={isRunning(c.sync) ? "status" : undefined} className={c.sync?.error ? "text-bad" : undefined}>
                  {progressOf(c.sync)}
                </span>
                {c.sync?.endedAt && (
                  <span className="block text-xs text-dim">
                    <Time at={c.sync.endedAt} />
                  </span>
                )}
              </Cell>
              {writer && (
                <Cell className="text-right whitespace-nowrap">
                  {c.writable && (
                    <>
                      <Button small aria-label={`Add documents to ${c.name}`} onClick={() => setAdding({ to: c })}>
                        Add
                      </Button>{" "}
                      <Button small aria-label={`Sync ${c.name}`} busy={isRunning(c.sync)} onClick={() => void sync(c)}>
                        Sync
                      </Button>{" "}
                      <Button small look="danger" aria-label={`Delete ${c.name}`} onClick={() => setRemoving([c])}>
                        Delete
                      </Button>
                    </>
                  )}
                </Cell>
              )}
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>More collections</More>
      {adding && <AddDocuments to={adding.to} onClose={() => setAdding(undefined)} />}
      {search.passage === "sources" && collection !== "" && (
        <CollectionDialog id={collection} onClose={() => void navigate({ search: (s) => ({ ...s, passage: undefined, collection: undefined }) })} />
      )}
      {search.passage && search.passage !== "sources" && (
        <PassageDialog id={search.passage} onClose={() => void navigate({ search: (s) => ({ ...s, passage: undefined }) })} />
      )}
      <Confirm
        open={removing !== undefined}
        onClose={() => setRemoving(undefined)}
        title={`Delete ${only ? only.name : `${removing?.length ?? 0} collections`}`}
        action="Delete"
        danger
        typed={only ? only.name : removing && String(removing.length)}
        run={async () => {
          for (const c of removing!) await knowledge.deleteCollection({ collectionId: c.id });
          setChosen([]);
          await refresh();
        }}
      >
        <p>
          {removing && removing.length > 1 && <Literal text={removing.map((c) => c.name).join(", ") + ": "} />}
          {String(sum(removing, (c) => c.documents))} documents, {String(sum(removing, (c) => c.passages))} passages and all uploads are deleted. Folders and repositories that they
          were read from stay as they are. This cannot be undone.
        </p>
      </Confirm>
    </Page>
  );
}
