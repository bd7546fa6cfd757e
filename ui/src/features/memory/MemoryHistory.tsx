import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Time } from "@/components/Time";
import { MemoryService, type Memory } from "@/gen/deckhand/v1/memory_pb";
import { sourceOf, textOf } from "./search";

const memories = createClient(MemoryService, transport);

// MemoryHistory lists the versions of an entry, each of which can be restored.
export function MemoryHistory({ of, onClose }: { of: Memory; onClose: () => void }) {
  const refresh = useRefresh(MemoryService);
  const list = useInfiniteQuery(MemoryService.method.listMemoryVersions, { memoryId: of.id, pageSize: 50, pageToken: "" }, byToken);
  const versions = list.data?.pages.flatMap((page) => page.versions) ?? [];
  const restore = async (version: number) => {
    try {
      await memories.restoreMemories({ memoryIds: [of.id], version });
      await refresh();
      toast.success(`Version ${version} restored.`);
      onClose();
    } catch (e) {
      showError(e);
    }
  };
  return (
    <Dialog open onClose={onClose} title={`History of ${of.key}`}>
      {list.isPending ? (
        <Skeletons rows={3} />
      ) : list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : (
        <ol className="space-y-3">
          {versions.map((v) => (
            <li key={v.version} className="rounded-lg border p-3">
              <div className="flex flex-wrap items-center gap-2 text-xs text-dim">
                Version {v.version}, by {sourceOf(v.source)}, <Time at={v.createdAt} />
                {v.version !== of.version && of.writable && (
                  <Button small className="ml-auto" onClick={() => void restore(v.version)} aria-label={`Restore version ${v.version}`}>
                    Restore
                  </Button>
                )}
              </div>
              <Literal className="whitespace-pre-wrap break-words" text={textOf(v.value ? toJson(ValueSchema, v.value) : "")} />
            </li>
          ))}
        </ol>
      )}
      <More pages={list}>Older versions</More>
    </Dialog>
  );
}
