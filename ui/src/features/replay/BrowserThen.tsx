import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { Empty } from "@/components/Empty";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { Picture } from "@/features/task/Seen";
import { TaskService } from "@/gen/deckhand/v1/task_pb";

// BrowserThen shows the newest picture of the browser at a moment: of what the agent acted on, or
// a screenshot. stepId is empty where there was none yet.
export function BrowserThen(props: { taskId: string; stepId: string; number: number }) {
  const { taskId, stepId, number } = props;
  const { data, error, isPending } = useQuery(
    TaskService.method.listSteps,
    { taskId, stepId, images: true },
    { enabled: stepId !== "", staleTime: Infinity, placeholderData: keepPreviousData },
  );
  if (stepId === "") return <Empty title="No picture yet">The agent had neither acted in its browser nor taken a screenshot at this moment.</Empty>;
  if (isPending) return <Skeletons rows={4} />;
  if (error) return <Problem error={error} />;
  const step = data.steps[0];
  const image = step?.images[0];
  if (!step || !image) return <Empty title="No picture">Step {number} has none, or it is not kept any more.</Empty>;
  return (
    <figure className="space-y-1">
      <Picture key={step.id} image={image} label={`The browser in step ${step.number}`} />
      <figcaption className="text-xs text-dim">
        The browser in step {step.number}{image.mark && ", before what is marked was acted on"}
      </figcaption>
    </figure>
  );
}
