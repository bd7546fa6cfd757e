import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { Empty } from "@/components/Empty";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { PlanTree } from "@/features/task/Plan";
import { Threads } from "@/features/task/thread";
import { EventService } from "@/gen/deckhand/v1/event_pb";
import { liveEvent } from "@/live/event";

// PlanThen shows the plan as an event set it; seq is 0 where there was none yet.
export function PlanThen(props: { taskId: string; seq: number }) {
  const { data, error, isPending } = useQuery(
    EventService.method.listEvents,
    { taskId: props.taskId, beforeSeq: BigInt(props.seq + 1), pageSize: 1 },
    { enabled: props.seq > 0, staleTime: Infinity, placeholderData: keepPreviousData },
  );
  if (props.seq === 0) return <Empty title="No plan yet">The agent had set no plan at this moment.</Empty>;
  if (isPending) return <Skeletons rows={4} />;
  if (error) return <Problem error={error} />;
  return <PlanTree plan={new Threads().of(data.events.map(liveEvent)).plan} />;
}
