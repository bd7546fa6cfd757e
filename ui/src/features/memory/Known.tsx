import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Literal } from "@/components/Literal";
import { Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Verdict } from "@/features/pattern/Verdict";
import { may } from "@/features/session/queries";
import { FeedbackSubject } from "@/gen/deckhand/v1/feedback_pb";
import { MemoryService, type Memory } from "@/gen/deckhand/v1/memory_pb";
import { EditMemory } from "./EditMemory";
import { ownerOf, textOf, typeLabel } from "./search";

const memories = createClient(MemoryService, transport);

// Known lists what a task's run was told of the memory, to correct and to delete; nothing if it
// was told nothing.
export function Known({ taskId }: { taskId: string }) {
  const writer = may(useSession(), "basic");
  const [editing, setEditing] = useState<Memory>();
  const refresh = useRefresh(MemoryService);
  const { data } = useQuery(MemoryService.method.listTaskMemories, { taskId });
  if (!data || (data.memories.length === 0 && data.hidden === 0)) return null;
  const remove = async (m: Memory) => {
    try {
      await memories.deleteMemories({ memoryIds: [m.id] });
      await refresh();
      toast.success("Entry deleted: later runs are not told it.", {
        duration: 10_000,
        action: { label: "Undo", onClick: () => void memories.restoreMemories({ memoryIds: [m.id] }).then(refresh, showError) },
      });
    } catch (e) {
      showError(e);
    }
  };
  return (
    <Section title="This run knew">
      <ul className="space-y-2">
        {data.memories.map((known) => {
          const m = known.memory!;
          return (
            <li key={m.id} className="flex flex-wrap items-start gap-2 rounded-lg border bg-panel p-3">
              <div className="min-w-0 flex-1">
                <Literal className="font-medium break-all" text={m.key} />
                <span className="text-xs text-dim">
                  {" "}
                  {typeLabel(m.type)}, {ownerOf(m)}
                </span>{" "}
                {known.standing && <Badge tone="info">standing</Badge>}
                {m.deletedAt ? <Badge tone="warn">deleted since</Badge> : m.version !== known.version && <Badge tone="warn">changed since</Badge>}
                <Literal className="block whitespace-pre-wrap break-words" text={textOf(known.value ? toJson(ValueSchema, known.value) : "")} />
              </div>
              {writer && !m.deletedAt && <Verdict subject={FeedbackSubject.MEMORY} id={m.id} what={`entry ${m.key}`} />}
              {m.writable && !m.deletedAt && (
                <>
                  <Button small onClick={() => setEditing(m)} aria-label={`Correct ${m.key}`}>
                    Correct
                  </Button>
                  <Button small look="danger" onClick={() => void remove(m)} aria-label={`Delete ${m.key}`}>
                    Delete
                  </Button>
                </>
              )}
            </li>
          );
        })}
      </ul>
      {data.hidden > 0 && (
        <p className="pt-2 text-xs text-dim">
          {data.hidden === 1 ? "1 more entry is" : `${data.hidden} more entries are`} another user&apos;s own.
        </p>
      )}
      {editing && <EditMemory of={editing} onClose={() => setEditing(undefined)} />}
    </Section>
  );
}
