import { Badge } from "@/components/Badge";
import { Literal } from "@/components/Literal";
import { ChangeKind, type FileChange } from "@/gen/deckhand/v1/workspace_pb";
import { kinds } from "./kinds";

// FileChanges lists what happened, or would happen, to each file; of more than most, the
// first ones.
export function FileChanges(props: { changes: FileChange[]; label?: string; most?: number }) {
  const most = props.most ?? props.changes.length;
  return (
    <ul aria-label={props.label} className="px-2 pb-2">
      {props.changes.slice(0, most).map((c) => {
        const [word, tone] = kinds[c.kind] ?? kinds[ChangeKind.UNSPECIFIED];
        return (
          <li key={c.path} className="flex items-center gap-2 py-0.5">
            <Badge tone={tone}>{word}</Badge>
            <Literal className="min-w-0 font-mono text-xs break-all" text={c.path} />
          </li>
        );
      })}
      {props.changes.length > most && <li className="text-xs text-dim">and {props.changes.length - most} more</li>}
    </ul>
  );
}
