import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Dialog } from "@/components/Dialog";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { KnowledgeService, KnowledgeSourceKind, type KnowledgeDocument, type KnowledgeSource } from "@/gen/deckhand/v1/knowledge_pb";
import { whereOf } from "./words";

const knowledge = createClient(KnowledgeService, transport);

// CollectionDialog shows where the documents of a collection come from, and the documents.
export function CollectionDialog(props: { id: string; onClose: () => void }) {
  const refresh = useRefresh(KnowledgeService);
  const found = useQuery(KnowledgeService.method.getCollection, { collectionId: props.id }, { retry: false });
  const list = useInfiniteQuery(KnowledgeService.method.listDocuments, { collectionId: props.id, pageSize: 100, pageToken: "", withTotal: true }, { ...byToken, retry: false });
  const [removing, setRemoving] = useState<KnowledgeSource>();
  const [deleting, setDeleting] = useState<KnowledgeDocument>();
  // addAgain adds a source that was removed, and has it read.
  const addAgain = async (gone: KnowledgeSource) => {
    const { kind, agentId, nodeId, path, url, revision, credential } = gone;
    try {
      await knowledge.addSource({ collectionId: props.id, source: { kind, agentId, nodeId, path, url, revision, credential } });
      await knowledge.syncCollection({ collectionId: props.id });
    } catch (e) {
      showError(e);
    }
    await refresh();
  };
  const c = found.data?.collection;
  const documents = list.data?.pages.flatMap((page) => page.documents) ?? [];
  const uploads = found.data?.sources.find((s) => s.kind === KnowledgeSourceKind.UPLOAD)?.id;
  return (
    <Dialog open wide title={c?.name ?? "Collection"} onClose={props.onClose}>
      {found.isPending && <Skeletons rows={6} />}
      {found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
      {c && (
        <div className="space-y-4">
          <Table label="Sources" head={["Source", "Documents", "Read", "Problem", ""]}>
            {(found.data?.sources ?? []).map((s) => (
              <Row key={s.id}>
                <Cell className="break-all">
                  <Literal text={whereOf(s)} />
                </Cell>
                <Cell>{String(s.documents)}</Cell>
                <Cell>{s.syncedAt ? <Time at={s.syncedAt} /> : "never"}</Cell>
                <Cell>
                  {s.error !== "" && <span className="text-bad">{s.error}</span>} {s.note}
                </Cell>
                <Cell className="text-right">
                  {c.writable && (
                    <Button small look="danger" aria-label={`Remove ${whereOf(s)}`} onClick={() => setRemoving(s)}>
                      Remove
                    </Button>
                  )}
                </Cell>
              </Row>
            ))}
          </Table>
          <Table label="Documents" head={["Path", "Format", "Passages", "Skipped", ""]}>
            {documents.map((d) => (
              <Row key={d.id}>
                <Cell className="break-all">
                  <Literal text={d.path} />
                </Cell>
                <Cell>{d.format}</Cell>
                <Cell>{d.passages}</Cell>
                <Cell>
                  <Literal text={d.skipped} />
                </Cell>
                <Cell className="text-right">
                  {c.writable && d.sourceId === uploads && (
                    <Button small look="danger" aria-label={`Delete ${d.path}`} onClick={() => setDeleting(d)}>
                      Delete
                    </Button>
                  )}
                </Cell>
              </Row>
            ))}
          </Table>
          <More pages={list} shown={documents.length}>More documents</More>
        </div>
      )}
      <Confirm
        open={removing !== undefined}
        onClose={() => setRemoving(undefined)}
        title="Remove source"
        action="Remove"
        danger
        run={async () => {
          const gone = removing!;
          await knowledge.removeSource({ collectionId: props.id, sourceId: gone.id });
          await refresh();
          toast.success("Source removed.", {
            duration: 10_000,
            action: gone.kind === KnowledgeSourceKind.UPLOAD ? undefined : { label: "Undo", onClick: () => void addAgain(gone) },
          });
        }}
      >
        <p>
          {removing && whereOf(removing)}: its {String(removing?.documents ?? 0)} documents are removed from the collection. They are read again when you add the source
          again; uploads are deleted.
        </p>
      </Confirm>
      <Confirm
        open={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        title="Delete upload"
        action="Delete"
        danger
        run={async () => {
          await knowledge.removeDocument({ collectionId: props.id, path: deleting!.path });
          await refresh();
        }}
      >
        <p>
          <Literal text={deleting?.path ?? ""} /> and its passages are deleted. This cannot be undone.
        </p>
      </Confirm>
    </Dialog>
  );
}
