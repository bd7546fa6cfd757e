import { useQuery } from "@connectrpc/connect-query";
import { dollars } from "@/components/money";
import { BudgetService } from "@/gen/deckhand/v1/provider_pb";

// TaskBudget shows what of a task's budget is spent, and what is reserved for calls of
// models that are under way; nothing of a task that has neither spent nor a limit.
export function TaskBudget(props: { taskId: string; live: boolean }) {
  const { data } = useQuery(
    BudgetService.method.getBudget,
    { scope: "task", objectId: props.taskId },
    { retry: false, refetchInterval: props.live ? 5_000 : false },
  );
  const budget = data?.budget;
  if (!budget) return null;
  const [spent, reserved] = [Number(budget.spentMicros), Number(budget.reservedMicros)];
  const limit = budget.limitMicros === undefined ? undefined : Number(budget.limitMicros);
  if (limit === undefined && spent + reserved === 0) return null;
  const share = (n: number) => `${Math.min(100, (100 * n) / Math.max(1, limit ?? spent + reserved))}%`;
  return (
    <section aria-label="Budget of the task" className="max-w-xl space-y-1.5">
      <h2 className="font-semibold">Budget</h2>
      <div aria-hidden className="flex h-2 overflow-hidden rounded-full bg-raised">
        <span className="bg-accent" style={{ width: share(spent) }} />
        <span className="bg-accent/40" style={{ width: share(reserved) }} />
      </div>
      <p className="flex flex-wrap gap-x-4 text-xs text-dim">
        <span>
          <span aria-hidden className="mr-1 inline-block size-2 rounded-full bg-accent" />
          {dollars(spent)} spent
        </span>
        <span>
          <span aria-hidden className="mr-1 inline-block size-2 rounded-full bg-accent/40" />
          {dollars(reserved)} reserved for calls under way
        </span>
        <span>{limit === undefined ? "no limit" : `${dollars(Math.max(0, limit - spent - reserved))} left of ${dollars(limit)}`}</span>
      </p>
    </section>
  );
}
