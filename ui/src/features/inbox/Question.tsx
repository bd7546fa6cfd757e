import { Literal } from "@/components/Literal";
import { Markdown } from "@/components/Markdown";
import type { InboxItem } from "@/gen/deckhand/v1/inbox_pb";

// QuestionBody shows what an agent asks.
export function QuestionBody({ item }: { item: InboxItem }) {
  const question = item.question;
  return (
    <div className="space-y-1 rounded-md border bg-panel p-3">
      <Markdown text={question?.text ?? item.preview} />
      {question?.defaultAnswer && (
        <p className="text-xs text-dim">
          Default answer: <Literal className="font-medium" text={question.defaultAnswer} />
        </p>
      )}
    </div>
  );
}

// choicesOf are the answers that a question offers; none for one that is answered in
// words.
export function choicesOf(item: InboxItem): string[] {
  return item.question?.kind === "confirmation" ? ["yes", "no"] : (item.question?.choices ?? []);
}
