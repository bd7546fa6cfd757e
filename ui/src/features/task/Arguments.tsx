import type { ReactNode } from "react";
import { Literal, LiteralBlock } from "@/components/Literal";
import { json, line, type Act, type ActObject, type ActValue } from "@/components/marks";

// What is long comes last, and what is replaced before what replaces it.
const last = ["command", "content", "old_string", "new_string", "body"];

// Texts that have a box of their own, however short.
const blocks = new Set(last);

const inOrder = (a: string, b: string) => last.indexOf(a) - last.indexOf(b) || (a < b ? -1 : 1);

const deepest = 6;

// Arguments shows every argument of a call, whole and exactly as it is.
export function Arguments(props: {
  of: ActObject;
  // What is dangerous in the command, by its line.
  dangers?: ReadonlyMap<number, string>;
  // Those that are shown elsewhere.
  without?: readonly string[];
}) {
  const names = Object.keys(props.of).filter((n) => !props.without?.includes(n) && props.of[n] !== undefined);
  if (names.length === 0) return null;
  return <Fields of={props.of} names={names.sort(inOrder)} dangers={props.dangers} depth={0} />;
}

function Fields(props: { of: ActObject; names: string[]; dangers?: ReadonlyMap<number, string>; depth: number }) {
  return (
    <dl className="space-y-1.5">
      {props.names.map((name) => (
        <div key={name} className="min-w-0">
          <dt className="text-xs text-dim">
            <Literal text={labelOf(name)} />
          </dt>
          <dd className="min-w-0">
            <Value name={name} of={props.of[name]} dangers={name === "command" ? props.dangers : undefined} depth={props.depth} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

// labelOf is an argument's name for people: timeout_seconds is Timeout seconds.
function labelOf(name: string): string {
  const words = name.replaceAll("_", " ");
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

const mono = (text: string) => <Literal className="font-mono text-xs break-words" text={text} />;

function Value(props: { name: string; of: ActValue; dangers?: ReadonlyMap<number, string>; depth: number }): ReactNode {
  const { name, of } = props;
  if (typeof of === "string") {
    if (!blocks.has(name) && of.length <= 200 && !of.includes("\n")) return of === "" ? <span className="text-dim">empty</span> : mono(of);
    const tone = name === "old" ? "bad" : name === "new" ? "good" : undefined;
    return <LiteralBlock text={of} label={line(labelOf(name))} dangers={props.dangers} tone={tone} />;
  }
  if (of === null || typeof of !== "object") return mono(String(of));
  if (props.depth >= deepest) return <LiteralBlock text={json(of)} label={line(labelOf(name))} />;
  if (Array.isArray(of)) {
    if (of.length === 0) return <span className="text-dim">none</span>;
    return (
      <ol className="list-inside list-decimal space-y-1">
        {of.map((one, i) => (
          <li key={i} className="min-w-0">
            <Value name={name} of={one} depth={props.depth + 1} />
          </li>
        ))}
      </ol>
    );
  }
  const names = Object.keys(of).sort(inOrder);
  if (names.length === 0) return <span className="text-dim">none</span>;
  return (
    <div className="border-l pl-3">
      <Fields of={of} names={names} depth={props.depth + 1} />
    </div>
  );
}

// actText returns an argument that is text; undefined for any other.
export function actText(of: ActValue): Act | undefined {
  return typeof of === "string" ? of : undefined;
}
