import { createClient } from "@connectrpc/connect";
import { newIdempotencyKey } from "@deckhand/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { transport } from "@/api/transport";
import { Field, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Recommended } from "@/features/insight/Recommended";
import type { Strategy } from "@/gen/deckhand/v1/insight_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { Likely } from "./Likely";

const tasks = createClient(TaskService, transport);

// Run starts a task of an agent, and shows an estimate of its duration and cost, and how earlier
// runs went with other models and modes.
export function Run(props: { agent: { id: string; name: string }; onClose: () => void; started: (taskId: string) => void }) {
  const queries = useQueryClient();
  const [goal, setGoal] = useState("");
  const [strategy, setStrategy] = useState<Strategy>();
  // A retry sends the same key, so that the hub starts one task.
  const key = useRef(newIdempotencyKey());
  return (
    <FormDialog
      title={`Run ${props.agent.name}`}
      action="Run"
      onClose={props.onClose}
      run={async () => {
        const { task } = await tasks.submitTask({
          agentId: props.agent.id,
          goal: goal.trim(),
          idempotencyKey: key.current,
          override: strategy && { provider: strategy.provider, model: strategy.model, mode: strategy.mode },
        });
        await queries.invalidateQueries();
        if (task) props.started(task.id);
      }}
    >
      <Field label="Goal" hint="Optional: leave empty to follow the persona.">
        <TextArea
          rows={4}
          maxLength={10_000}
          value={goal}
          autoFocus
          onChange={(e) => {
            key.current = newIdempotencyKey();
            setGoal(e.target.value);
          }}
        />
      </Field>
      <Likely agentId={props.agent.id} />
      <Recommended
        agentId={props.agent.id}
        chosen={strategy}
        choose={(s) => {
          key.current = newIdempotencyKey();
          setStrategy(s);
        }}
      />
    </FormDialog>
  );
}
