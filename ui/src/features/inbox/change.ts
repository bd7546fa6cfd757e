import type { ActObject, ActValue } from "@/components/marks";

const text = (v: ActValue): string => (typeof v === "string" ? v : "");

// changing are the tools that make a file of another content.
export const changing: ReadonlySet<string> = new Set(["file_write", "file_append", "file_edit"]);

// after returns what a call makes of a file; undefined where it cannot: an edit's
// place is not there, or there more than once.
export function after(tool: string, args: ActObject, before: string): string | undefined {
  if (tool === "file_write") return text(args.content);
  if (tool === "file_append") return before + text(args.content);
  if (tool !== "file_edit" || !Array.isArray(args.edits)) return undefined;
  let content = before;
  for (const one of args.edits) {
    if (typeof one !== "object" || one === null || Array.isArray(one)) return undefined;
    const [old, made] = [text(one.old), text(one.new)];
    const at = old === "" ? -1 : content.indexOf(old);
    if (at < 0) return undefined;
    if (one.all === true) content = content.split(old).join(made);
    else if (content.indexOf(old, at + 1) >= 0) return undefined;
    else content = content.slice(0, at) + made + content.slice(at + old.length);
  }
  return content;
}
