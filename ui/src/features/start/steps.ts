import { TaskState } from "@/gen/deckhand/v1/task_pb";

// Step is one of the four: whether it is done, how it stands in words, and the
// agent that it is about.
export type Step = { done: boolean; says: string; about?: string };

export type Facts = {
  // A connected provider, if there is one.
  provider: string | undefined;
  // Somebody chose to begin without a model.
  scripted: boolean;
  agents: { name: string; provider: string }[];
  // The states of the newest tasks.
  tasks: TaskState[];
};

const ended = new Set([
  TaskState.SUCCEEDED,
  TaskState.FAILED,
  TaskState.CANCELLED,
  TaskState.TIMED_OUT,
]);

type Name = "connect" | "take" | "run" | "look";

// stepsOf says how far somebody is with the first steps.
export function stepsOf(facts: Facts): { steps: Record<Name, Step>; next: Name | undefined; over: boolean } {
  const connected = facts.provider !== undefined || facts.scripted;
  // An agent that can run with what is connected; one of a script always can.
  const usable = facts.agents.find((a) => a.provider === "script" || a.provider === facts.provider) ?? facts.agents[0];
  const steps: Record<Name, Step> = {
    connect: {
      done: connected || facts.agents.length > 0,
      says: facts.provider
        ? `${facts.provider} is connected.`
        : connected || facts.agents.length > 0
          ? "A scripted agent needs no model. Connect one when you like."
          : "Agents think with your own key. To see how it works first, a scripted agent needs none.",
    },
    take: {
      done: facts.agents.length > 0,
      says: usable ? `${usable.name} is here.` : "An agent is one Markdown file. first-look looks around in its jail and says what it found.",
      about: usable?.name,
    },
    run: {
      done: facts.tasks.length > 0,
      says: facts.tasks.length > 0 ? "It was started." : "A run is a task: the agent works in a jail of its own until it is done.",
      about: usable?.name,
    },
    look: {
      done: facts.tasks.some((s) => ended.has(s)),
      says: facts.tasks.length > 0 ? "You see each thought, command and file, live." : "The result, every command and every changed file.",
    },
  };
  const next = (["connect", "take", "run", "look"] as const).find((name) => !steps[name].done);
  return { steps, next, over: next === undefined };
}
