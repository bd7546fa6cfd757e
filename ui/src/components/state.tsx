import { Link } from "@tanstack/react-router";
import { AgentStatus } from "@/gen/deckhand/v1/agent_pb";
import { StepState } from "@/gen/deckhand/v1/step_pb";
import { type Task, TaskState } from "@/gen/deckhand/v1/task_pb";
import { askingTaskStates, finalTaskStates, partlyDone } from "@/gen/facts";
import { Badge, type Tone } from "./Badge";

type Look = { word: string; tone: Tone; live?: boolean };

const tasks: Record<TaskState, Look> = {
  [TaskState.UNSPECIFIED]: { word: "unknown", tone: "neutral" },
  [TaskState.PENDING]: { word: "pending", tone: "neutral" },
  [TaskState.QUEUED]: { word: "queued", tone: "info" },
  [TaskState.STARTING]: { word: "starting", tone: "info", live: true },
  [TaskState.RUNNING]: { word: "running", tone: "accent", live: true },
  [TaskState.WAITING]: { word: "waiting", tone: "info" },
  [TaskState.AWAITING_APPROVAL]: { word: "awaiting approval", tone: "warn" },
  [TaskState.NEEDS_INPUT]: { word: "needs input", tone: "warn" },
  [TaskState.PAUSED]: { word: "paused", tone: "warn" },
  [TaskState.REVIEW_NEEDED]: { word: "review needed", tone: "warn" },
  [TaskState.ESCALATED]: { word: "escalated", tone: "bad" },
  [TaskState.SUCCEEDED]: { word: "succeeded", tone: "good" },
  [TaskState.FAILED]: { word: "failed", tone: "bad" },
  [TaskState.TIMED_OUT]: { word: "timed out", tone: "bad" },
  [TaskState.CANCELLED]: { word: "cancelled", tone: "neutral" },
};

const agents: Record<AgentStatus, Look> = {
  [AgentStatus.UNSPECIFIED]: { word: "unknown", tone: "neutral" },
  [AgentStatus.IDLE]: { word: "idle", tone: "neutral" },
  [AgentStatus.LISTENING]: { word: "listening", tone: "info" },
  [AgentStatus.ACTIVE]: { word: "active", tone: "accent", live: true },
  [AgentStatus.PAUSED]: { word: "paused", tone: "warn" },
  [AgentStatus.ERROR_SUSPENDED]: { word: "error suspended", tone: "bad" },
  [AgentStatus.DISABLED]: { word: "disabled", tone: "neutral" },
};

const steps: Record<StepState, Look> = {
  [StepState.UNSPECIFIED]: { word: "unknown", tone: "neutral" },
  [StepState.PROPOSED]: { word: "proposed", tone: "info" },
  [StepState.DENIED]: { word: "denied", tone: "bad" },
  [StepState.WAITING]: { word: "waiting", tone: "warn" },
  [StepState.GRANTED]: { word: "granted", tone: "info" },
  [StepState.STARTED]: { word: "started", tone: "accent", live: true },
  [StepState.SUCCEEDED]: { word: "succeeded", tone: "good" },
  [StepState.FAILED]: { word: "failed", tone: "bad" },
  [StepState.UNKNOWN]: { word: "outcome unknown", tone: "warn" },
  [StepState.SKIPPED]: { word: "skipped", tone: "neutral" },
  [StepState.CANCELLED]: { word: "cancelled", tone: "neutral" },
  [StepState.DEFERRED]: { word: "deferred", tone: "warn" },
};

const odd: Look = { word: "unknown (update the console)", tone: "neutral" };

// taskWord is a state as it is written everywhere: "awaiting approval".
export const taskWord = (s: TaskState) => (tasks[s] ?? odd).word;
export const agentWord = (s: AgentStatus) => (agents[s] ?? odd).word;

// final says that a task's state does not change any more.
export const final = (s: TaskState) => finalTaskStates.includes(s);

function badge(look: Look, title?: string) {
  return (
    <Badge tone={look.tone} dot live={look.live} title={title}>
      {look.word}
    </Badge>
  );
}


// A task whose agent did a part of the goal has failed, and its result can be used.
const partly: Look = { word: "partly done", tone: "warn" };

// TaskBadge is a task's state. Where the task waits for a person, it leads to its item in
// the inbox.
export function TaskBadge(p: { task: Pick<Task, "state" | "reason" | "errorCode"> & Partial<Pick<Task, "id">> }) {
  const shown = badge(p.task.state === TaskState.FAILED && p.task.errorCode === partlyDone ? partly : (tasks[p.task.state] ?? odd), p.task.reason);
  if (!p.task.id || !askingTaskStates.includes(p.task.state)) return shown;
  return (
    <Link to="/inbox" search={{ task: p.task.id }} aria-label={`${taskWord(p.task.state)}: open in the inbox`} className="inline-flex min-h-6 items-center hover:underline">
      {shown}
    </Link>
  );
}

export const AgentBadge = (p: { status: AgentStatus; reason?: string }) => badge(agents[p.status] ?? odd, p.reason);
export const StepBadge = (p: { state: StepState }) => badge(steps[p.state] ?? odd);
