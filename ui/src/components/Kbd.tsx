// Kbd shows keys, several in a row pressed one after another.
export function Kbd(props: { keys: string }) {
  return (
    <span className="inline-flex gap-1">
      {props.keys.split(" ").map((k) => (
        <kbd key={k} className="min-w-5 rounded border bg-raised px-1 text-center font-mono text-xs">
          {k}
        </kbd>
      ))}
    </span>
  );
}
