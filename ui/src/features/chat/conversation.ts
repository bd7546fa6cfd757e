import type { Task } from "@/gen/deckhand/v1/task_pb";

// Line is one thing that was said.
export type Line = { role: string; text: string };

// linesOf returns the lines of a conversation up to a chat, including its own
// question and answer.
export function linesOf(task: Task): Line[] {
  const lines = task.conversation.map((m) => ({ role: m.role, text: m.text }));
  lines.push({ role: "user", text: task.goal });
  if (task.summary) lines.push({ role: "assistant", text: task.summary });
  return lines;
}

// Conversation is chats that follow each other, by their newest.
export type Conversation = {
  id: string;
  newest: Task;
  // What was asked first.
  title: string;
};

// conversationsOf groups chats, newest first, by what they came of.
export function conversationsOf(chats: Task[]): Conversation[] {
  const out = new Map<string, Conversation>();
  for (const newest of chats) {
    if (out.has(newest.lineageId)) continue;
    const title = newest.conversation.find((m) => m.role === "user")?.text ?? newest.goal;
    out.set(newest.lineageId, { id: newest.lineageId, newest, title });
  }
  return [...out.values()];
}

// Of a conversation that becomes a task, at most so much goes with it.
const mostLines = 100;
const mostText = 32_768;

// asContext converts a conversation to the form that SubmitTask takes.
export const asContext = (lines: Line[]) =>
  lines.slice(-mostLines).map((l) => ({ role: l.role, text: [...l.text].slice(0, mostText).join("") }));
