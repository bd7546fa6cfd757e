import { useMemo, useState } from "react";
import { cx } from "@/components/cx";
import { DiffRows } from "@/components/Diff";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import type { InboxItem } from "@/gen/deckhand/v1/inbox_pb";
import { ApproveEdited, type Approve } from "./ApproveEdited";
import type { Choices } from "./someChanges";

// SomeChanges approves those changes of a call that the person keeps. What is left out is
// not written: below the changes stands what the hub would write, from the call that is
// sent to it.
export function SomeChanges(props: { item: InboxItem; choices: Choices; busy: boolean; disabled: boolean; onApprove: Approve; onBack: () => void }) {
  const { choices } = props;
  const all = choices.hunks.length;
  const [kept, setKept] = useState<ReadonlySet<number>>(() => new Set(choices.hunks.keys()));
  const text = useMemo(() => JSON.stringify(choices.keep(kept)), [choices, kept]);
  const toggle = (i: number) =>
    setKept((now) => {
      const then = new Set(now);
      if (!then.delete(i)) then.add(i);
      return then;
    });
  return (
    <section aria-label="Approve some changes" className="space-y-3 rounded-md border p-3">
      <p>Clear what should not be written. The agent is told which call ran.</p>
      <ol className="space-y-2">
        {choices.hunks.map((h, i) => (
          <li key={i} className="space-y-1">
            <label className="flex min-h-6 items-center gap-2 max-sm:min-h-11">
              <input type="checkbox" className="size-4 accent-accent" checked={kept.has(i)} onChange={() => toggle(i)} />
              <Literal className={cx("min-w-0 break-all", !kept.has(i) && "text-dim line-through")} text={h.label} />
              {!kept.has(i) && <span className="text-xs text-dim">left out</span>}
            </label>
            <DiffRows rows={h.rows} label={line(`${h.label}, ${i + 1} of ${all}`)} />
          </li>
        ))}
      </ol>
      {kept.size === 0 && <p role="alert" className="text-warn">Nothing is left to approve: reject the call instead.</p>}
      <ApproveEdited
        item={props.item}
        text={text}
        invalid={kept.size === 0}
        label={kept.size === all ? "Approve all changes" : `Approve ${kept.size} of ${all} changes`}
        busy={props.busy}
        disabled={props.disabled}
        onApprove={props.onApprove}
        onBack={props.onBack}
      />
    </section>
  );
}
