import type { ActObject, ActValue } from "@/components/marks";

const text = (v: ActValue): string => (typeof v === "string" ? v : "");

// changing are the tools that make a file of another content.
export const changing: ReadonlySet<string> = new Set(["file_write", "file_append", "file_edit"]);

// after returns what a call makes of a file; undefined where it cannot: an edit's
// place is not there, or there more than once.
export function after(tool: string, args: ActObject, before: string): string | undefined {
  if (tool === "file_write") return text(args.content);
  if (tool === "file_append") return before + text(args.content);
  if (tool !== "file_edit") return undefined;
  const [old, made] = [text(args.old_string), text(args.new_string)];
  const at = old === "" ? -1 : before.indexOf(old);
  if (at < 0) return undefined;
  if (args.replace_all === true) return before.split(old).join(made);
  if (before.indexOf(old, at + 1) >= 0) return undefined;
  return before.slice(0, at) + made + before.slice(at + old.length);
}
