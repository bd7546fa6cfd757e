import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Button } from "@/components/Button";
import { Field, TextArea } from "@/components/Field";
import { Problem } from "@/components/Problem";
import { PlanLevel } from "@/features/task/PlanEditor";
import { changed } from "@/features/task/planChange";
import type { AnswerInboxItemRequest_ReplanSchema } from "@/gen/deckhand/v1/inbox_pb";
import { TaskPlanService, type PlanItem, type TaskPlan } from "@/gen/deckhand/v1/task_plan_pb";

type Props = {
  taskId: string;
  busy: boolean;
  disabled: boolean;
  onReplan: (value: MessageInitShape<typeof AnswerInboxItemRequest_ReplanSchema>) => void;
  onBack: () => void;
};

// Replan replaces the agent's plan instead of making a call. The plan that is there is edited as
// it is on the task's page, and sent whole; the hub refuses it if the agent has set another one
// meanwhile.
export function Replan(props: Props) {
  const found = useQuery(TaskPlanService.method.getTaskPlan, { taskId: props.taskId }, { staleTime: Infinity });
  const plan = found.data?.plan;
  if (!plan) return found.error ? <Problem error={found.error} retry={() => void found.refetch()} /> : <p className="text-dim">Loading the plan</p>;
  return <Draft key={plan.revision} {...props} plan={plan} reload={() => void found.refetch()} />;
}

function Draft({ plan, ...props }: Props & { plan: TaskPlan; reload: () => void }) {
  const [items, setItems] = useState<PlanItem[]>(plan.items);
  const [text, setText] = useState("");
  return (
    <div className="space-y-3" role="group" aria-label="Replace the plan">
      <p className="text-xs text-dim">The call will not run. The agent goes on with this plan.</p>
      <PlanLevel items={items} parent="" busy={props.busy} edit={(change) => setItems(changed(items, change))} />
      <Field label="Message to the agent" hint="May be empty.">
        <TextArea rows={2} value={text} maxLength={4000} onChange={(e) => setText(e.target.value)} />
      </Field>
      <fieldset disabled={props.disabled} className="flex flex-wrap gap-2">
        <Button
          look="primary"
          busy={props.busy}
          disabled={items.length === 0}
          onClick={() => props.onReplan({ items: items.map(kept), revision: plan.revision, text: text.trim() })}
        >
          Replace the plan
        </Button>
        <Button onClick={props.reload}>Load the plan again</Button>
        <Button onClick={props.onBack}>Back</Button>
      </fieldset>
    </div>
  );
}

// kept leaves the ids of new items to the hub.
const kept = (i: PlanItem): PlanItem => ({ ...i, id: i.id.startsWith("new ") ? "" : i.id, children: i.children.map(kept) });
