import type { Tone } from "@/components/Badge";
import { NotificationState, type Destination } from "@/gen/deckhand/v1/destination_pb";

// NotificationSearch is the filter in the address: one destination, one state.
export type NotificationSearch = { of?: string; state?: NotificationWord };

export const notificationStates = { pending: NotificationState.PENDING, delivered: NotificationState.DELIVERED, dead: NotificationState.DEAD } as const;
export type NotificationWord = keyof typeof notificationStates;

export const notificationLooks: Record<NotificationState, { word: string; tone: Tone }> = {
  [NotificationState.UNSPECIFIED]: { word: "unknown", tone: "neutral" },
  [NotificationState.PENDING]: { word: "pending", tone: "info" },
  [NotificationState.DELIVERED]: { word: "delivered", tone: "good" },
  [NotificationState.DEAD]: { word: "dead-lettered", tone: "bad" },
};

export function parseNotificationSearch(search: Record<string, unknown>): NotificationSearch {
  return {
    of: typeof search.of === "string" && search.of !== "" ? search.of.slice(0, 64) : undefined,
    state: (Object.keys(notificationStates) as NotificationWord[]).find((s) => s === search.state),
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
