import { createClient } from "@connectrpc/connect";
import { Download } from "lucide-react";
import { useState } from "react";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { download } from "@/components/download";
import { Literal } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import { bytes } from "@/components/money";
import { showError } from "@/components/showError";
import { InboxService, type InboxAttachment, type InboxItem, type InboxOption } from "@/gen/deckhand/v1/inbox_pb";

const inbox = createClient(InboxService, transport);

// QuestionBody shows what an agent asks.
export function QuestionBody({ item }: { item: InboxItem }) {
  const question = item.question;
  return (
    <div className="space-y-1 rounded-md border bg-panel p-3">
      <Markdown text={question?.text ?? item.preview} />
      {question?.defaultAnswer && (
        <p className="text-xs text-dim">
          Default answer: <Literal className="font-medium" text={question.defaultAnswer} />
        </p>
      )}
      {item.attachments.length > 0 && (
        <ul aria-label="Attachments" className="space-y-1 border-t pt-1">
          {item.attachments.map((a) => (
            <Attachment key={a.number} itemId={item.id} of={a} />
          ))}
        </ul>
      )}
    </div>
  );
}

// Attachment is a file of a question, as it was when the agent asked.
function Attachment({ itemId, of }: { itemId: string; of: InboxAttachment }) {
  const [busy, setBusy] = useState(false);
  const save = async () => {
    setBusy(true);
    try {
      const pieces: Uint8Array<ArrayBuffer>[] = [];
      for (let offset = 0n; ; ) {
        const piece = await inbox.readInboxAttachment({ itemId, number: of.number, offset });
        pieces.push(piece.data as Uint8Array<ArrayBuffer>);
        if (piece.nextOffset >= piece.sizeBytes || piece.nextOffset <= offset) break;
        offset = piece.nextOffset;
      }
      download(of.path.split("/").at(-1) || "attachment", new Blob(pieces));
    } catch (e) {
      showError(e);
    } finally {
      setBusy(false);
    }
  };
  return (
    <li className="flex flex-wrap items-center gap-2 text-xs">
      <Literal className="min-w-0 font-mono break-all" text={of.path} />
      {of.problem ? (
        <span className="text-warn">
          <Literal text={of.problem} />
        </span>
      ) : (
        <>
          <span className="text-dim" title={`SHA-256 ${of.sha256}`}>
            {bytes(of.sizeBytes)}
          </span>
          <Button small busy={busy} aria-label={`Download attachment ${of.number}`} onClick={() => void save()}>
            <Download aria-hidden className="size-3.5" /> Download
          </Button>
        </>
      )}
    </li>
  );
}

// optionOf returns what a question says of a choice.
export function optionOf(item: InboxItem, choice: string): InboxOption | undefined {
  return item.question?.options.find((o) => o.label === choice);
}

// choicesOf are the answers that a question offers; none for one that is answered in
// words.
export function choicesOf(item: InboxItem): string[] {
  return item.question?.kind === "confirmation" ? ["yes", "no"] : (item.question?.choices ?? []);
}
