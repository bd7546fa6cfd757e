import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Field, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { line } from "@/components/marks";
import { Likely } from "@/features/history/Likely";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { QueueService } from "@/gen/deckhand/v1/queue_pb";
import type { Task } from "@/gen/deckhand/v1/task_pb";
import { UserService } from "@/gen/deckhand/v1/user_pb";

const queue = createClient(QueueService, transport);

// Assign gives a task to a person or an agent, with what a run of that agent usually takes.
export function Assign({ task, onClose }: { task: Task; onClose: () => void }) {
  const queries = useQueryClient();
  const me = useSession().userName;
  const agents = useInfiniteQuery(AgentService.method.listAgents, { pageSize: 500, pageToken: "" }, byToken);
  const people = useInfiniteQuery(UserService.method.listUsers, { pageSize: 500, pageToken: "" }, byToken);
  useRest(agents);
  useRest(people);
  const [to, setTo] = useState(task.assignee);
  const names = people.data?.pages.flatMap((page) => page.users).filter((u) => !u.disabled).map((u) => u.name).sort((a, b) => Number(b === me) - Number(a === me)) ?? [];
  const all = agents.data?.pages.flatMap((page) => page.agents) ?? [];
  const agent = all.find((a) => `@agent:${a.name}` === to);
  const listed = to === "" || to === "none" || agent || names.some((n) => `@human:${n}` === to);
  return (
    <FormDialog
      title="Assign the task"
      action="Assign"
      ready={to !== "" && to !== task.assignee}
      onClose={onClose}
      run={async () => {
        await queue.assignTask({ taskId: task.id, assignTo: to });
        await queries.invalidateQueries();
      }}
    >
      <Field label="To">
        <Select className="w-full" value={to} onChange={(e) => setTo(e.target.value)}>
          {to === "" && <option value="">Choose a person or an agent</option>}
          {!listed && <option value={to}>{line(to)}</option>}
          <optgroup label="People">
            {names.map((name) => (
              <option key={name} value={`@human:${name}`}>
                {name === me ? `${line(name)} (you)` : line(name)}
              </option>
            ))}
          </optgroup>
          <optgroup label="Agents">
            {all.map((a) => (
              <option key={a.id} value={`@agent:${a.name}`}>
                {a.statusReason ? `${line(a.name)} (${line(a.statusReason)})` : line(a.name)}
              </option>
            ))}
          </optgroup>
          <option value="none">Nobody</option>
        </Select>
      </Field>
      {agent && <Likely agentId={agent.id} />}
    </FormDialog>
  );
}
