import type { DescMethod, DescService } from "@bufbuild/protobuf";
import type { QueryClient } from "@tanstack/react-query";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { FileService } from "@/gen/deckhand/v1/file_pb";
import { HistoryService } from "@/gen/deckhand/v1/history_pb";
import { InboxService } from "@/gen/deckhand/v1/inbox_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { WorkspaceService } from "@/gen/deckhand/v1/workspace_pb";
import type { LiveEvent } from "./event";
import type { EventStore } from "./store";

// What an event makes out of date: whole services or single methods. A feature
// that shows something else adds it here.
const touched: [types: RegExp, of: (DescService | DescMethod)[]][] = [
  [/^(approval_requested|input_required|outcome_unknown|inbox_|review\.|work_stopped|limits_lifted|agent\.suspended)/, [InboxService]],
  [
    /^(state_changed|execution_|task\.|agent\.|pause_requested|limits_lifted|message_)/,
    [TaskService.method.getTask, TaskService.method.listTasks],
  ],
  [/^(progress_update|iteration_complete)/, [TaskService.method.getTask]],
  [/^(state_changed|agent\.)/, [AgentService]],
  [/^(tool_|approval_|outcome_|inbox_)/, [TaskService.method.listSteps]],
  [/^job_/, [TaskService.method.listJobs, WorkspaceService.method.listChanges]],
  [/^(iteration_complete|execution_)/, [HistoryService.method.getEstimate]],
  [/^(execution_)/, [HistoryService.method.getStatistics]],
  [/^(checkpoint_created)/, [TaskService.method.listCheckpoints]],
  [/^(tool_completed|workspace_|execution_completed)/, [WorkspaceService.method.listChanges, FileService]],
  // The inbox of a task that has ended is withdrawn.
  [/^(execution_cancelled|execution_failed|state_changed)/, [InboxService]],
];

// What is out of date with every iteration of every task, and would have whole
// lists come again all the time: it can wait.
const slow: [types: RegExp, of: DescMethod[]] = [/^(progress_update|iteration_complete)/, [TaskService.method.listTasks]];

// Lists are asked again at most this often, in milliseconds, however much
// happens.
const pause = 700;
const slowPause = 5_000;

// As createConnectQueryKey makes it, of every input.
function keyOf(d: DescService | DescMethod) {
  const of = d.kind === "service" ? { serviceName: d.typeName } : { serviceName: d.parent.typeName, methodName: d.name };
  return ["connect-query", of];
}

// invalidateByEvents asks again for what is on screen when an event says that it
// has changed: at once, and then with a pause.
export function invalidateByEvents(store: EventStore, queries: QueryClient): () => void {
  const waiting = new Set<DescService | DescMethod>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let slowTimer: ReturnType<typeof setTimeout> | undefined;
  let last = 0;
  const flush = () => {
    timer = undefined;
    last = Date.now();
    for (const d of waiting) void queries.invalidateQueries({ queryKey: keyOf(d) });
    waiting.clear();
  };
  const soon = () => (timer ??= setTimeout(flush, Math.max(0, last + pause - Date.now())));
  const later = () => {
    slowTimer = undefined;
    for (const d of slow[1]) waiting.add(d);
    soon();
  };
  const stop = store.onBatch((events: LiveEvent[]) => {
    const types = new Set(events.map((e) => e.type));
    for (const type of types) {
      for (const [wanted, of] of touched) if (wanted.test(type)) for (const d of of) waiting.add(d);
      if (slow[0].test(type)) slowTimer ??= setTimeout(later, slowPause);
    }
    if (waiting.size > 0) soon();
  });
  return () => {
    stop();
    clearTimeout(timer);
    clearTimeout(slowTimer);
  };
}
