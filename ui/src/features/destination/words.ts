import type { Tone } from "@/components/Badge";
import { NoticeState, type Destination } from "@/gen/deckhand/v1/destination_pb";

// NoticeSearch is the filter in the address: one destination, one state.
export type NoticeSearch = { of?: string; state?: NoticeWord };

export const noticeStates = { pending: NoticeState.PENDING, delivered: NoticeState.DELIVERED, dead: NoticeState.DEAD } as const;
export type NoticeWord = keyof typeof noticeStates;

export const noticeLooks: Record<NoticeState, { word: string; tone: Tone }> = {
  [NoticeState.UNSPECIFIED]: { word: "unknown", tone: "neutral" },
  [NoticeState.PENDING]: { word: "pending", tone: "info" },
  [NoticeState.DELIVERED]: { word: "delivered", tone: "good" },
  [NoticeState.DEAD]: { word: "dead-lettered", tone: "bad" },
};

export function parseNoticeSearch(search: Record<string, unknown>): NoticeSearch {
  return {
    of: typeof search.of === "string" && search.of !== "" ? search.of.slice(0, 64) : undefined,
    state: (Object.keys(noticeStates) as NoticeWord[]).find((s) => s === search.state),
  };
}

// whereOf returns the address of a destination.
export function whereOf(d: Destination): string {
  const to = d.spec?.to;
  if (to?.case === "webhook") return to.value.url;
  if (to?.case === "email") return `${to.value.to.join(", ")} via ${to.value.host}`;
  if (to?.case === "slack") return "an incoming webhook";
  return to?.case === "nats" ? "subjects lifecycle.…" : "";
}
