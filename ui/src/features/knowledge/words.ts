import { ScopeKind } from "@/gen/deckhand/v1/scope_pb";
import { KnowledgeSourceKind, KnowledgeSyncState, type KnowledgeSource, type KnowledgeSync } from "@/gen/deckhand/v1/knowledge_pb";

// Whose a collection is, in words.
export const scopeWord: Record<ScopeKind, string> = {
  [ScopeKind.UNSPECIFIED]: "",
  [ScopeKind.ORGANISATION]: "Organisation",
  [ScopeKind.TEAM]: "Team",
  [ScopeKind.USER]: "Only you",
  [ScopeKind.AGENT]: "Agent",
  [ScopeKind.WORKSPACE]: "Workspace",
};

// whereOf returns what a source reads.
export function whereOf(s: KnowledgeSource): string {
  switch (s.kind) {
    case KnowledgeSourceKind.UPLOAD:
      return "Uploads";
    case KnowledgeSourceKind.WORKSPACE:
      return `${s.path === "" ? "Workspace" : s.path} of agent ${s.agentName}`;
    case KnowledgeSourceKind.NODE:
      return `${s.path} on node ${s.nodeName}`;
    default:
      return s.path === "" ? s.url : `${s.url}, ${s.path}`;
  }
}

export const isRunning = (s?: KnowledgeSync) => s?.state === KnowledgeSyncState.RUNNING;

// progressOf returns how far a sync is, or how it ended.
export function progressOf(s?: KnowledgeSync): string {
  switch (s?.state) {
    case KnowledgeSyncState.RUNNING:
      return `Syncing${s.phase === "" ? "" : `: ${s.phase}`} (${s.files} files, ${s.passages} passages)`;
    case KnowledgeSyncState.SUCCEEDED:
      return `${s.added} added, ${s.changed} changed, ${s.removed} removed, ${s.skipped} skipped`;
    case KnowledgeSyncState.FAILED:
      return s.error;
    default:
      return "Never synced";
  }
}
