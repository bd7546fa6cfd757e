import { createClient } from "@connectrpc/connect";
import { Download } from "lucide-react";
import { useEffect, useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Code } from "@/components/Code";
import { download } from "@/components/download";
import { line } from "@/components/marks";
import { Markdown } from "@/components/Markdown";
import { bytes } from "@/components/money";
import { showError } from "@/components/showError";
import { FileService } from "@/gen/deckhand/v1/file_pb";
import type { Workspace } from "./whose";

const files = createClient(FileService, transport);

const imageTypes: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
const endOf = (path: string) => path.slice(path.lastIndexOf(".") + 1).toLowerCase();

// mostImage is how large a picture is shown at most, in bytes: what one call returns.
export const mostImage = 4 * 1024 * 1024;

// isImage reports whether a file is a picture that browsers draw without running any
// of it.
export const isImage = (path: string) => endOf(path) in imageTypes;

// Picture shows a picture of the workspace. It is decoded as its name says, and as
// nothing else.
export function Picture(props: { path: string; content: Uint8Array }) {
  const { path, content } = props;
  const [url, setUrl] = useState("");
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([content as Uint8Array<ArrayBuffer>], { type: imageTypes[endOf(path)] }));
    setUrl(made);
    setBroken(false);
    return () => URL.revokeObjectURL(made);
  }, [content, path]);
  if (broken) return <p className="text-dim">This is no picture, or a damaged one: {bytes(content.length)}.</p>;
  return url ? <img src={url} alt={line(path)} className="max-h-[60vh] max-w-full rounded border" onError={() => setBroken(true)} /> : null;
}

// FileText shows a file in the colours of its language. Markdown can be rendered.
export function FileText(props: { path: string; text: string }) {
  const markdown = ["md", "markdown"].includes(endOf(props.path));
  const [rendered, setRendered] = useState(false);
  return (
    <div className="space-y-1">
      {markdown && (
        <div role="group" aria-label="View" className="flex gap-1">
          <Button small look={rendered ? "quiet" : "plain"} aria-pressed={!rendered} onClick={() => setRendered(false)}>
            Code
          </Button>
          <Button small look={rendered ? "plain" : "quiet"} aria-pressed={rendered} onClick={() => setRendered(true)}>
            Preview
          </Button>
        </div>
      )}
      {markdown && rendered ? <Markdown className="rounded border bg-panel p-3" text={props.text} /> : <Code text={props.text} path={props.path} label={line(props.path)} />}
    </div>
  );
}

// DownloadFile saves the whole of a file, with nothing masked; that is in the audit
// log.
export function DownloadFile(props: { of: Workspace; path: string; size: bigint }) {
  const [busy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    try {
      const parts: BlobPart[] = [];
      const request = { workspace: props.of, entries: [{ path: props.path, type: "file", size: props.size }] };
      for await (const { message } of files.downloadFiles(request)) {
        if (message.case === "data") parts.push(message.value as Uint8Array<ArrayBuffer>);
      }
      download(props.path.slice(props.path.lastIndexOf("/") + 1), new Blob(parts));
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button small busy={busy} aria-label={line(`Download ${props.path}`)} title="Download" onClick={() => void save()}>
      <Download aria-hidden className="size-3.5" />
    </Button>
  );
}
