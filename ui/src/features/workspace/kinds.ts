import type { Tone } from "@/components/Badge";
import { ChangeKind } from "@/gen/deckhand/v1/workspace_pb";

// kinds are what happened to a path, in words.
export const kinds: Record<ChangeKind, [string, Tone]> = {
  [ChangeKind.UNSPECIFIED]: ["changed", "neutral"],
  [ChangeKind.ADDED]: ["added", "good"],
  [ChangeKind.MODIFIED]: ["modified", "info"],
  [ChangeKind.DELETED]: ["deleted", "bad"],
  [ChangeKind.METADATA]: ["attributes", "neutral"],
};
