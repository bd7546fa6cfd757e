import type { ReactNode } from "react";
import { Command } from "./Command";

// Empty says what would be here, and the command that makes the first one.
export function Empty(props: { title: string; children?: ReactNode; command?: string }) {
  return (
    <div className="mx-auto flex max-w-xl flex-col items-center gap-3 px-4 py-12 text-center">
      <h2 className="text-base font-semibold">{props.title}</h2>
      {props.children && <div className="text-dim">{props.children}</div>}
      {props.command && <Command text={props.command} />}
    </div>
  );
}
