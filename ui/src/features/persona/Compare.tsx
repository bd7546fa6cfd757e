import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { colour } from "./colours";
import { look } from "./look";

// Compare shows what differs between two texts, and folds what does not.
export function Compare(props: { before: string; after: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const view = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: props.after,
        extensions: [
          lineNumbers(),
          EditorState.readOnly.of(true),
          EditorView.editable.of(false),
          EditorView.lineWrapping,
          look,
          EditorView.contentAttributes.of({ "aria-label": props.label, tabindex: "0" }),
          unifiedMergeView({ original: props.before, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
        ],
      }),
    });
    colour(view);
    return () => view.destroy();
  }, [props.before, props.after, props.label]);
  return <div ref={host} className="h-full min-h-0 overflow-hidden" data-testid="persona-compare" />;
}
