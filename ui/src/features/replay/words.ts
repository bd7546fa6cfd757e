import { ChangeKind } from "@/gen/deckhand/v1/workspace_pb";

export const changeWords: Record<ChangeKind, string> = {
  [ChangeKind.UNSPECIFIED]: "changed",
  [ChangeKind.ADDED]: "added",
  [ChangeKind.MODIFIED]: "modified",
  [ChangeKind.DELETED]: "deleted",
  [ChangeKind.METADATA]: "attributes",
};
