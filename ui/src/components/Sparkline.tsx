// Sparkline draws values, oldest first, from 0 to the largest of them or of max.
export function Sparkline(props: { values: readonly number[]; max?: number; label: string }) {
  const { values } = props;
  if (values.length < 2) return null;
  const width = 96;
  const height = 22;
  const top = Math.max(props.max ?? 0, ...values, 1);
  const step = width / (values.length - 1);
  const points = values.map((v, i) => `${(i * step).toFixed(1)},${(height - 1 - (v / top) * (height - 2)).toFixed(1)}`).join(" ");
  return (
    <svg role="img" aria-label={props.label} width={width} height={height} className="text-accent">
      <polyline points={points} fill="none" stroke="currentColor" strokeWidth="1.5" />
    </svg>
  );
}
