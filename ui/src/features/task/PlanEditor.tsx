import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { ArrowDown, ArrowUp, Plus, Trash2 } from "lucide-react";
import { useEffect, useState } from "react";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Input, Select } from "@/components/Field";
import { Literal } from "@/components/Literal";
import { showError } from "@/components/showError";
import { Verdict } from "@/features/pattern/Verdict";
import { may } from "@/features/session/queries";
import { FeedbackSubject } from "@/gen/deckhand/v1/feedback_pb";
import { TaskPlanService, type EditTaskPlanRequest, type PlanItem } from "@/gen/deckhand/v1/task_plan_pb";
import { PlanTree } from "./Plan";
import type { Plan } from "./thread";

const plans = createClient(TaskPlanService, transport);
const statuses = ["pending", "in_progress", "done", "skipped"];

// PlanEditor shows the plan of a task, and lets those change it who may. The agent is told
// of each change with its next turn. A change to a plan that has changed since is refused.
export function PlanEditor(props: { taskId: string; plan: Plan | undefined; ended: boolean }) {
  const writer = may(useSession(), "basic");
  const editable = writer && !props.ended;
  const [editing, setEditing] = useState(false);
  return (
    <div className="space-y-3">
      {editable && (
        <Button small onClick={() => setEditing(!editing)} aria-pressed={editing}>
          {editing ? "Done" : "Edit plan"}
        </Button>
      )}
      {editing && editable ? <Editor taskId={props.taskId} seen={props.plan} /> : <PlanTree plan={props.plan} />}
      {writer && props.ended && props.plan && props.plan.items.length > 0 && <Verdict subject={FeedbackSubject.PLAN} id={props.taskId} what="plan" />}
    </div>
  );
}

function Editor(props: { taskId: string; seen: Plan | undefined }) {
  const found = useQuery(TaskPlanService.method.getTaskPlan, { taskId: props.taskId });
  const refresh = useRefresh(TaskPlanService);
  const [busy, setBusy] = useState(false);
  // The agent has set another plan.
  useEffect(() => void refresh(), [props.seen, refresh]);
  const plan = found.data?.plan;
  if (!plan) return <p className="text-dim">{found.error ? "The plan cannot be read." : "Loading the plan"}</p>;
  const edit = async (change: EditTaskPlanRequest["change"]) => {
    setBusy(true);
    try {
      await plans.editTaskPlan({ taskId: props.taskId, revision: plan.revision, change });
    } catch (e) {
      showError(e);
    } finally {
      await refresh();
      setBusy(false);
    }
  };
  return (
    <div className="space-y-2">
      <PlanLevel items={plan.items} parent="" busy={busy} edit={(change) => void edit(change)} />
      {plan.changes && (
        <p role="note" className="text-xs text-dim">
          The agent is told: <Literal text={plan.changes} />
        </p>
      )}
    </div>
  );
}

type Props = { items: PlanItem[]; parent: string; busy: boolean; edit: (change: EditTaskPlanRequest["change"]) => void };

// PlanLevel is the items of one parent, and the box for another one: with edit it is used for a
// plan of the hub and for a draft.
export function PlanLevel(props: Props) {
  const { items, parent, busy, edit } = props;
  const move = (id: string, before: string) => edit({ case: "move", value: { $typeName: "deckhand.v1.MovePlanItem", id, parent, before } });
  return (
    <ul className={parent ? "ml-4 border-l pl-3" : ""} aria-label={parent ? `Parts of ${parent}` : "Plan"}>
      {items.map((i, n) => (
        <li key={i.id} className="py-1">
          <div className="flex flex-wrap items-center gap-1">
            <Select
              aria-label={`Status of ${i.id}`}
              value={i.status}
              disabled={busy}
              onChange={(e) => edit({ case: "mark", value: { $typeName: "deckhand.v1.MarkPlanItem", id: i.id, status: e.target.value } })}
            >
              {statuses.map((s) => (
                <option key={s} value={s}>
                  {s.replaceAll("_", " ")}
                </option>
              ))}
            </Select>
            <span className="min-w-0 flex-1 break-words">
              <Literal text={i.title} />
            </span>
            <Button small look="quiet" aria-label={`Move ${i.id} up`} disabled={busy || n === 0} onClick={() => move(i.id, items[n - 1]!.id)}>
              <ArrowUp aria-hidden className="size-3.5" />
            </Button>
            <Button small look="quiet" aria-label={`Move ${i.id} down`} disabled={busy || n === items.length - 1} onClick={() => move(i.id, items[n + 2]?.id ?? "")}>
              <ArrowDown aria-hidden className="size-3.5" />
            </Button>
            <Button
              small
              look="quiet"
              aria-label={`Remove ${i.id}`}
              disabled={busy}
              onClick={() => edit({ case: "remove", value: { $typeName: "deckhand.v1.RemovePlanItem", id: i.id } })}
            >
              <Trash2 aria-hidden className="size-3.5" />
            </Button>
          </div>
          {i.children.length > 0 && <PlanLevel {...props} items={i.children} parent={i.id} />}
        </li>
      ))}
      <li className="py-1">
        <Add parent={parent} busy={busy} edit={edit} />
      </li>
    </ul>
  );
}

function Add({ parent, busy, edit }: Pick<Props, "parent" | "busy" | "edit">) {
  const [title, setTitle] = useState("");
  return (
    <form
      className="flex gap-1"
      onSubmit={(e) => {
        e.preventDefault();
        if (!title.trim()) return;
        edit({
          case: "add",
          value: {
            $typeName: "deckhand.v1.AddPlanItem",
            parent,
            before: "",
            item: { $typeName: "deckhand.v1.PlanItem", id: "", title: title.trim(), status: "", dependsOn: [], children: [] },
          },
        });
        setTitle("");
      }}
    >
      <Input aria-label={parent ? `New part of ${parent}` : "New item"} placeholder="New item" maxLength={500} value={title} onChange={(e) => setTitle(e.target.value)} />
      <Button small type="submit" aria-label={parent ? `Add a part to ${parent}` : "Add item"} disabled={busy || !title.trim()}>
        <Plus aria-hidden className="size-3.5" />
      </Button>
    </form>
  );
}
