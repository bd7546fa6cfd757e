import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { Code } from "@/components/Code";
import { Problem } from "@/components/Problem";
import { Skeletons } from "@/components/Skeleton";
import type { Image } from "@/gen/deckhand/v1/step_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import type { Call } from "./thread";

const isDrawn = (image: Image) => drawn.includes(image.mediaType);

// The image types that browsers draw and that cannot run scripts; SVG can.
const drawn = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// Those that the model saw, and those that show people what was acted on.
const imagesOf = (call: Call) => Number(call.outcome?.images ?? 0) + Number(call.outcome?.pictures ?? 0);

// whatIsSeen says what a call's result shows besides text in lines: pictures, or the screen
// of a terminal.
function whatIsSeen(call: Call): "pictures" | "screen" | undefined {
  if (call.state !== "succeeded") return undefined;
  if (imagesOf(call) > 0) return "pictures";
  return call.tool.startsWith("terminal_") && call.tool !== "terminal_close" ? "screen" : undefined;
}

// Seen shows what the model saw: the pictures of a call's result, or a terminal's screen. It
// is fetched when it is opened.
export function Seen(props: { call: Call; taskId: string }) {
  const [open, setOpen] = useState(false);
  const what = whatIsSeen(props.call);
  if (!what) return null;
  const count = imagesOf(props.call);
  const name = what === "screen" ? "screen" : count === 1 ? "picture" : `${count} pictures`;
  return (
    <div className="min-w-0 space-y-1">
      <button type="button" aria-expanded={open} className="min-h-6 text-xs text-accent hover:underline" onClick={() => setOpen(!open)}>
        {open ? "Hide" : "Show"} {name}
      </button>
      {open && <Loaded {...props} what={what} />}
    </div>
  );
}

function Loaded(props: { call: Call; taskId: string; what: "pictures" | "screen" }) {
  const { call, taskId, what } = props;
  const { data, error, isPending, refetch } = useQuery(TaskService.method.listSteps, { taskId, stepId: call.stepId, images: what === "pictures" });
  const step = data?.steps[0];
  if (isPending) return <Skeletons rows={3} />;
  if (!step) return <Problem error={error ?? new Error("Step not found.")} retry={() => void refetch()} />;
  if (what === "screen") return <Code text={step.observation} label={`Screen after step ${call.number}`} numbered={false} className="max-h-96 overflow-auto" />;
  const shown = step.images.filter(isDrawn);
  if (shown.length === 0) return <p className="text-xs text-dim">The pictures are not kept any more.</p>;
  return (
    <ul className="flex flex-wrap gap-2">
      {shown.map((image, i) => (
        <li key={i}>
          <Picture image={image} label={`Picture ${i + 1} of step ${call.number}`} />
        </li>
      ))}
    </ul>
  );
}

// Picture is one of a step. What was acted on in it has a box around it, which is drawn over the
// picture: that itself stays as it was taken.
export function Picture({ image, label }: { image: Image; label: string }) {
  const [size, setSize] = useState<{ width: number; height: number }>();
  const { mark } = image;
  if (!isDrawn(image)) return null;
  const percent = (n: number, of: number) => `${(100 * n) / Math.max(1, of)}%`;
  return (
    <span className="relative inline-block overflow-hidden rounded border bg-raised">
      <img
        src={addressOf(image)}
        alt={mark ? `${label}, with a box around what was acted on` : label}
        className="block max-h-96 max-w-full"
        onLoad={(e) => setSize({ width: e.currentTarget.naturalWidth, height: e.currentTarget.naturalHeight })}
      />
      {mark && size && (
        <span
          aria-hidden
          data-testid="target"
          className="pointer-events-none absolute rounded-sm border-2 border-bad outline-2 outline-white/70"
          style={{ left: percent(mark.left, size.width), top: percent(mark.top, size.height), width: percent(mark.width, size.width), height: percent(mark.height, size.height) }}
        />
      )}
    </span>
  );
}

// addressOf returns an address that holds the picture itself: nothing is to be released.
function addressOf(image: Image): string {
  let binary = "";
  const chunk = 0x8000;
  for (let i = 0; i < image.data.length; i += chunk) binary += String.fromCharCode(...image.data.subarray(i, i + chunk));
  return `data:${image.mediaType};base64,${btoa(binary)}`;
}
