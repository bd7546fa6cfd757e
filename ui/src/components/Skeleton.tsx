import { cx } from "./cx";

// Skeleton stands where something will be.
export function Skeleton(props: { className?: string }) {
  return <div aria-hidden className={cx("animate-pulse rounded bg-raised", props.className ?? "h-4 w-full")} />;
}

// Skeletons are rows that will be there.
export function Skeletons(props: { rows?: number; className?: string }) {
  return (
    <div role="status" aria-label="Loading" className="space-y-2">
      {Array.from({ length: props.rows ?? 5 }, (_, i) => (
        <Skeleton key={i} className={props.className ?? "h-9 w-full"} />
      ))}
    </div>
  );
}
