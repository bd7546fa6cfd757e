import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { nameOf } from "@/components/characters";
import { hidden } from "@/components/marks";
import { colour } from "./colours";
import { look } from "./look";
import type { Remark } from "./problems";

// Editor edits a persona, or a policy. What is wrong with it is marked at its lines. Tab
// leaves it, as it leaves every other control.
export function Editor(props: {
  value: string;
  onChange: (value: string) => void;
  remarks: Remark[];
  // A line to go to; a new object goes there again.
  goTo?: { line: number } | undefined;
  // What is edited; a persona where unset.
  label?: string;
  language?: "yaml";
}) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const v = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: latest.current.value,
        extensions: [
          lineNumbers(),
          lintGutter(),
          history(),
          drawSelection(),
          // What would not be seen is a chip with its name.
          highlightSpecialChars({ addSpecialChars: hidden, render: (code) => chipOf(String.fromCodePoint(code)) }),
          highlightActiveLine(),
          EditorView.lineWrapping,
          keymap.of([...defaultKeymap.filter((k) => k.key !== "Mod-Enter"), ...historyKeymap]), // that key deploys
          look,
          EditorView.contentAttributes.of({ "aria-label": latest.current.label ?? "Persona", spellcheck: "false", tabindex: "0" }),
          EditorView.updateListener.of((u) => {
            if (u.docChanged) latest.current.onChange(u.state.doc.toString());
          }),
        ],
      }),
    });
    colour(v, latest.current.language);
    view.current = v;
    return () => v.destroy();
  }, []);

  useEffect(() => {
    const v = view.current;
    const now = v?.state.doc.toString();
    if (!v || now === undefined || now === props.value) return;
    // Only what differs, so that the cursor stays where it is.
    let from = 0;
    while (from < now.length && from < props.value.length && now[from] === props.value[from]) from++;
    let end = 0;
    while (
      end < now.length - from &&
      end < props.value.length - from &&
      now[now.length - 1 - end] === props.value[props.value.length - 1 - end]
    ) {
      end++;
    }
    v.dispatch({ changes: { from, to: now.length - end, insert: props.value.slice(from, props.value.length - end) } });
  }, [props.value]);

  useEffect(() => {
    const v = view.current;
    if (v) v.dispatch(setDiagnostics(v.state, props.remarks.map((r) => diagnostic(v, r))));
  }, [props.remarks]);

  useEffect(() => {
    const v = view.current;
    if (!v || !props.goTo) return;
    const at = v.state.doc.line(lineIn(v, props.goTo.line)).from;
    v.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
    v.focus();
  }, [props.goTo]);

  return <div ref={host} data-testid={props.label ? `${props.label.toLowerCase()}-editor` : "persona-editor"} className="h-full min-h-0 overflow-hidden" />;
}

function chipOf(char: string): HTMLElement {
  const chip = document.createElement("span");
  chip.className = "chip";
  chip.title = chip.dataset.mark = nameOf(char);
  chip.setAttribute("role", "img");
  chip.setAttribute("aria-label", chip.title);
  return chip;
}

const lineIn = (v: EditorView, line: number) => Math.min(Math.max(line, 1), v.state.doc.lines);

function diagnostic(v: EditorView, r: Remark): Diagnostic {
  const line = v.state.doc.line(lineIn(v, r.line));
  return { from: line.from, to: line.to, severity: "error", message: r.message };
}
