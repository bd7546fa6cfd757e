import { useQuery } from "@connectrpc/connect-query";
import { newIdempotencyKey } from "@deckhand/sdk";
import { useState } from "react";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Literal } from "@/components/Literal";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { absolute, millis } from "@/components/Time";
import { asPersona, overrideOf, problemsOf, type Choices } from "@/features/chat/override";
import { Likely } from "@/features/history/Likely";
import { ResumeWorkspace, TaskService, type Task } from "@/gen/deckhand/v1/task_pb";
import { tasks } from "./actions";
import { checkpointNames, pointOf } from "./checkpoint";

type Props = { task: Task; onClose: () => void; onMade: (task: Task) => void };

const mebibyte = 1024 * 1024;

// RetryWith runs a task's goal again with other settings: a new task, or the same one
// if it was escalated.
export function RetryWith(props: Props & { limits?: boolean }) {
  const [choices, setChoices] = useState<Choices>(asPersona);
  const [node, setNode] = useState("");
  const [memory, setMemory] = useState("");
  const [key] = useState(newIdempotencyKey);
  const problems = problemsOf(choices);
  const mib = Number(memory || "0");
  const memoryProblem = memory && !(Number.isInteger(mib) && mib > 0) ? "Enter a whole number of MiB, such as 2048." : undefined;
  const input = (name: keyof Choices, label: string, hint: string) => (
    <Field label={label} hint={hint} problem={problems[name]}>
      <Input value={choices[name]} maxLength={128} onChange={(e) => setChoices({ ...choices, [name]: e.target.value })} />
    </Field>
  );
  return (
    <FormDialog
      title={props.limits ? "Retry with a higher limit" : "Retry with changes"}
      action="Retry"
      onClose={props.onClose}
      check={() => Object.keys(problems).length === 0 && !memoryProblem}
      run={async () => {
        const { task } = await tasks.retryTask({
          taskId: props.task.id,
          idempotencyKey: key,
          override: { ...overrideOf(choices), nodeId: node.trim(), memoryBytes: BigInt(mib * mebibyte) },
        });
        if (task) props.onMade(task);
      }}
    >
      <p className="text-dim">The goal runs again from its beginning. What is empty stays as the agent has it.</p>
      {props.task.agentId && <Likely agentId={props.task.agentId} />}
      <div className="grid gap-3 sm:grid-cols-2">
        {input("iterations", "Iterations", `It made ${props.task.iteration}.`)}
        {input("dollars", "Budget (USD)", "Only admins can raise it above the agent's.")}
        {input("files", "Changed files", "Only admins can raise it above the agent's.")}
        {input("fileSize", "File size (MiB)", "Of the largest file that the run changes.")}
        {!props.limits && (
          <>
            {input("provider", "Provider", "Together with a model.")}
            {input("model", "Model", `It used ${props.task.model || "the agent's"}.`)}
            <Field label="Node" hint="Name or id. Files stay on the node where they are.">
              <Input value={node} maxLength={128} onChange={(e) => setNode(e.target.value)} />
            </Field>
            <Field label="Memory (MiB)" problem={memoryProblem}>
              <Input value={memory} inputMode="numeric" onChange={(e) => setMemory(e.target.value)} />
            </Field>
          </>
        )}
      </div>
    </FormDialog>
  );
}

// ResumeFrom continues a task from one of its checkpoints, as a new task that has its
// turns and steps up to there.
export function ResumeFrom(props: Props) {
  const { data, error, isPending } = useQuery(TaskService.method.listCheckpoints, { taskId: props.task.id, pageSize: 500 });
  const [checkpointId, setCheckpoint] = useState("");
  const [workspace, setWorkspace] = useState(ResumeWorkspace.RESTORE);
  const [message, setMessage] = useState("");
  const [choices, setChoices] = useState<Choices>(asPersona);
  const [key] = useState(newIdempotencyKey);
  const problems = problemsOf(choices);
  return (
    <FormDialog
      title="Resume from a checkpoint"
      action="Resume"
      ready={(data?.checkpoints.length ?? 0) > 0}
      onClose={props.onClose}
      check={() => Object.keys(problems).length === 0}
      run={async () => {
        const { task } = await tasks.resumeTaskFrom({ taskId: props.task.id, checkpointId, workspace, message: message.trim(), override: overrideOf(choices), idempotencyKey: key });
        if (task) props.onMade(task);
      }}
    >
      {isPending ? (
        <Skeletons rows={3} />
      ) : error ? (
        <Problem error={error} />
      ) : data.checkpoints.length === 0 ? (
        <p>No checkpoint of this task is kept any more. Retry it instead.</p>
      ) : (
        <>
          <Field label="From">
            <Select value={checkpointId} onChange={(e) => setCheckpoint(e.target.value)}>
              {data.checkpoints.map((c, i) => (
                <option key={c.id} value={i === 0 ? "" : c.id}>
                  {pointOf(c)}
                  {i === 0 ? " (the newest)" : ""} · {absolute(millis(c.createdAt) ?? 0)}
                  {checkpointNames(c) && ` · ${checkpointNames(c)}`}
                </option>
              ))}
            </Select>
          </Field>
          <Field label="Files" hint="Restoring is refused where it would lose what others have changed since.">
            <Select value={workspace} onChange={(e) => setWorkspace(Number(e.target.value))}>
              <option value={ResumeWorkspace.RESTORE}>As they were at the checkpoint</option>
              <option value={ResumeWorkspace.KEEP}>As they are now</option>
              <option value={ResumeWorkspace.OVERWRITE}>As they were, and later changes by others are lost</option>
            </Select>
          </Field>
          <Field label="Message to the agent">
            <TextArea rows={3} maxLength={10_000} value={message} placeholder="What should it do differently?" onChange={(e) => setMessage(e.target.value)} />
          </Field>
          <div className="grid gap-3 sm:grid-cols-2">
            <Field label="Iterations" problem={problems.iterations}>
              <Input value={choices.iterations} onChange={(e) => setChoices({ ...choices, iterations: e.target.value })} />
            </Field>
            <Field label="Budget (USD)" problem={problems.dollars}>
              <Input value={choices.dollars} onChange={(e) => setChoices({ ...choices, dollars: e.target.value })} />
            </Field>
          </div>
          {props.task.agentId && <Likely agentId={props.task.agentId} />}
          <p className="text-xs text-dim">
            A new task continues; <Literal text={props.task.title || props.task.id} /> stays as it is.
          </p>
        </>
      )}
    </FormDialog>
  );
}
