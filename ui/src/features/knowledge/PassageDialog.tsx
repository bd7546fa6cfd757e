import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Literal, LiteralBlock } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { KnowledgeService } from "@/gen/deckhand/v1/knowledge_pb";

// PassageDialog shows a passage with those around it, exactly as the document has them.
export function PassageDialog(props: { id: string; onClose: () => void }) {
  const [around, setAround] = useState(1);
  const found = useQuery(KnowledgeService.method.getPassage, { passageId: props.id, around }, { retry: false });
  const p = found.data?.passage;
  return (
    <Dialog open wide title={p?.citation ?? "Passage"} onClose={props.onClose}>
      {found.isPending && <Skeletons rows={6} />}
      {found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
      {p && (
        <div className="space-y-3">
          <p className="text-xs text-dim">
            {p.title !== "" && (
              <>
                <Literal text={p.title} />
                {", "}
              </>
            )}
            read <Time at={p.indexedAt} />
          </p>
          {(found.data?.passages ?? []).map((one) => (
            <section key={one.id} aria-label={one.citation} aria-current={one.id === p.id ? "true" : undefined} className={one.id === p.id ? "border-l-2 border-accent pl-3" : "pl-3.5"}>
              {one.heading !== "" && <Literal className="block pb-1 text-xs text-dim" text={one.heading} />}
              <LiteralBlock label={one.citation} text={one.text} />
            </section>
          ))}
          {around < 10 && (
            <Button small onClick={() => setAround(10)}>
              Show more around it
            </Button>
          )}
        </div>
      )}
    </Dialog>
  );
}
