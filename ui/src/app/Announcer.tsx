import { useQuery } from "@connectrpc/connect-query";
import { useRef, useState } from "react";
import { line } from "@/components/marks";
import { InboxKind, InboxService, InboxState, type InboxItem } from "@/gen/deckhand/v1/inbox_pb";

const asks: Partial<Record<InboxKind, string>> = {
  [InboxKind.APPROVAL]: "asks for approval",
  [InboxKind.QUESTION]: "asks a question",
  [InboxKind.UNKNOWN]: "does not know how a call ended",
  [InboxKind.REVIEW]: "is done and asks for a review",
  [InboxKind.ESCALATION]: "needs a person",
};

// Announcer tells those who hear the page what has come into the inbox, on whichever
// page they are.
export function Announcer() {
  // The same query as the count in the navigation: it is asked once.
  const { data } = useQuery(InboxService.method.listInbox, { pageSize: 100 });
  const known = useRef<Set<string>>(undefined);
  const [said, setSaid] = useState("");
  const seen = useRef(data);
  if (data && seen.current !== data) {
    seen.current = data;
    const open = data.items.filter((i) => i.state === InboxState.OPEN);
    const fresh = known.current ? open.filter((i) => !known.current!.has(i.id)) : [];
    known.current = new Set(open.map((i) => i.id));
    if (fresh.length > 0) setSaid(words(fresh));
  }
  return (
    <section aria-label="Announcements" className="sr-only">
      <div role="status">{said}</div>
    </section>
  );
}

function words(fresh: InboxItem[]): string {
  const first = fresh[0]!;
  const what = `${line(first.agentName)} ${asks[first.kind] ?? "needs a person"}${first.title ? `: ${line(first.title)}` : ""}.`;
  return fresh.length > 1 ? `${what} ${fresh.length} new items in the inbox.` : what;
}
