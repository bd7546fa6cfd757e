import { useQueryClient } from "@tanstack/react-query";
import { Upload as UploadIcon } from "lucide-react";
import { useRef, useState } from "react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { showError } from "@/components/showError";
import { may } from "@/features/session/queries";
import { mostUpload, nameOf, upload } from "./upload";
import { bytes } from "@/components/money";

// Upload puts files of the person into a workspace. One that is there already is only
// replaced when they say so.
export function Upload(props: { taskId: string; existing: ReadonlySet<string> }) {
  const session = useSession();
  const queries = useQueryClient();
  const input = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [asked, setAsked] = useState<{ all: File[]; again: string[] }>();
  if (!may(session, "advanced")) return null;
  const put = async (all: File[]) => {
    setAsked(undefined);
    setBusy(true);
    try {
      for (const file of all) await upload(props.taskId, nameOf(file), file);
      toast(all.length === 1 ? `Uploaded ${nameOf(all[0]!)}` : `Uploaded ${all.length} files`);
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
      void queries.invalidateQueries();
    }
  };
  const chosen = (list: FileList | null) => {
    const all = [...(list ?? [])];
    if (input.current) input.current.value = "";
    if (all.length === 0) return;
    const again = all.map(nameOf).filter((name) => props.existing.has(name));
    if (again.length > 0) setAsked({ all, again });
    else void put(all);
  };
  return (
    <div className="space-y-2">
      <input ref={input} type="file" multiple className="hidden" aria-label="Files to upload" onChange={(e) => chosen(e.target.files)} />
      <Button small busy={busy} title={`At most ${bytes(mostUpload)} each`} onClick={() => input.current?.click()}>
        <UploadIcon aria-hidden className="size-3.5" /> Upload files
      </Button>
      {asked && (
        <div role="alert" className="flex flex-wrap items-center gap-2 rounded-md border border-warn p-2">
          <p className="min-w-0 flex-1 break-words">{asked.again.join(", ")} {asked.again.length === 1 ? "exists" : "exist"} in the workspace.</p>
          <Button small look="danger" onClick={() => void put(asked.all)}>Replace</Button>
          <Button small onClick={() => setAsked(undefined)}>Cancel</Button>
        </div>
      )}
    </div>
  );
}
