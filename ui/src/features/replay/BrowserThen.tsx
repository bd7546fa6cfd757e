import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Empty } from "@/components/Empty";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import { absolute, millis } from "@/components/Time";
import { Picture } from "@/features/task/Seen";
import type { BrowserFrame } from "@/gen/deckhand/v1/browser_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { shownAt, type Recording } from "./recording";

// BrowserThen shows what the browser showed at a moment, if that was recorded, and otherwise the
// newest picture until then: of what the agent acted on, or a screenshot. stepId is empty where
// there was none yet.
export function BrowserThen(props: { taskId: string; stepId: string; number: number; clock: number; recording: Recording }) {
  const { clock } = props;
  const { frames, reading, error } = props.recording;
  const shown = shownAt(frames, clock);
  return (
    <div className="space-y-2">
      {error !== undefined && <Problem error={error} />}
      {shown?.frame.ended && <p className="text-xs text-dim"><Literal text={shown.frame.problem} /></p>}
      {shown && !shown.frame.ended ? <Frame {...shown} /> : reading ? <Skeletons rows={4} /> : <PictureThen {...props} />}
      {reading && frames.length > 0 && <p role="status" className="text-xs text-dim">Loading the rest of the recording…</p>}
    </div>
  );
}

// Frame is one of a recording: picture is the newest that there was, and frame says the rest.
function Frame({ frame, picture }: { frame: BrowserFrame; picture?: BrowserFrame }) {
  return (
    <figure className="space-y-1">
      <p className="min-w-0 truncate font-mono text-xs text-dim" data-testid="address">
        <Literal text={frame.problem || `${frame.url} ${frame.title}`} />
      </p>
      {frame.dialog && (
        <p className="text-warn">
          The page asks ({frame.dialog}): <Literal text={frame.message} />
        </p>
      )}
      {picture ? <Jpeg data={picture.jpeg} label={line(`What the browser showed: ${frame.title || frame.url}`)} /> : <Empty title="Nothing to see">There is no picture of this moment.</Empty>}
      <figcaption className="text-xs text-dim">Recorded at {absolute(millis(frame.time) ?? 0)}</figcaption>
    </figure>
  );
}

function Jpeg({ data, label }: { data: Uint8Array; label: string }) {
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    const url = URL.createObjectURL(new Blob([data as Uint8Array<ArrayBuffer>], { type: "image/jpeg" }));
    setAddress(url);
    return () => URL.revokeObjectURL(url);
  }, [data]);
  return <img src={address} alt={label} className="block h-auto w-full max-w-[80rem] rounded border bg-raised" />;
}

function PictureThen(props: { taskId: string; stepId: string; number: number }) {
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
