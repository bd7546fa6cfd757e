import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { inert } from "@/components/inert";
import { look } from "@/features/persona/look";

// Merge shows what differs between two texts of an agent's, and folds what does
// not. They are text here, whatever is in them.
export function Merge(props: { before: string; after: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const view = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: inert(props.after),
        extensions: [
          lineNumbers(),
          EditorState.readOnly.of(true),
          EditorView.editable.of(false),
          EditorView.lineWrapping,
          look,
          EditorView.contentAttributes.of({ "aria-label": props.label, tabindex: "0" }),
          unifiedMergeView({ original: inert(props.before), mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
        ],
      }),
    });
    return () => view.destroy();
  }, [props.before, props.after, props.label]);
  return <div ref={host} className="max-h-96 overflow-auto rounded border" data-testid="merge" />;
}
