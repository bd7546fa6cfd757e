import { createClient } from "@connectrpc/connect";
import { Download } from "lucide-react";
import { useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { download } from "@/components/download";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { ExportTaskFormat, HistoryService } from "@/gen/deckhand/v1/history_pb";

const history = createClient(HistoryService, transport);

const formats = [
  [ExportTaskFormat.JSONL, "Events and logs", "jsonl"],
  [ExportTaskFormat.ASCIICAST, "Terminal recording", "cast"],
] as const;

// Export saves a task as a file. The content is kept as blobs, which the browser can
// move to disk.
export function Export(props: { taskId: string }) {
  const [got, setGot] = useState<number>();
  const [error, setError] = useState<unknown>();
  const save = async (format: ExportTaskFormat, ending: string) => {
    setError(undefined);
    setGot(0);
    try {
      let all = new Blob([]);
      for await (const { data } of history.exportTask({ taskId: props.taskId, format })) {
        all = new Blob([all, data as Uint8Array<ArrayBuffer>]);
        setGot(all.size);
      }
      download(`${props.taskId}.${ending}`, all);
    } catch (e) {
      setError(e);
    } finally {
      setGot(undefined);
    }
  };
  return (
    <div className="space-y-2">
      <div role="group" aria-label="Export" className="flex flex-wrap items-center gap-2">
        {formats.map(([format, label, ending]) => (
          <Button key={ending} disabled={got !== undefined} onClick={() => void save(format, ending)}>
            <Download aria-hidden className="size-4" /> {label}
          </Button>
        ))}
        {got !== undefined && <span role="status" className="text-xs text-dim">{bytes(got)}</span>}
      </div>
      {error !== undefined && <Problem error={error} />}
    </div>
  );
}
