import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { nameOf } from "@/components/characters";
import { hidden } from "@/components/marks";
import { look } from "@/features/persona/look";
import { shellLanguage } from "./shellLanguage";

// TextEditor edits a text of a call. Characters that would not be seen are chips with
// their names. Tab leaves it, as it leaves every other control.
export function TextEditor(props: { label: string; value: string; shell?: boolean; onChange: (value: string) => void }) {
  const host = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const { label, value, shell } = latest.current;
    const view = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: value,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          highlightSpecialChars({ addSpecialChars: hidden, render: (code) => chipOf(String.fromCodePoint(code)) }),
          EditorView.lineWrapping,
          // A carriage return is a character of its line.
          EditorState.lineSeparator.of("\n"),
          keymap.of([...defaultKeymap.filter((k) => k.key !== "Mod-Enter"), ...historyKeymap]),
          look,
          ...(shell ? shellLanguage : []),
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
          EditorView.updateListener.of((u) => {
            if (u.docChanged) latest.current.onChange(u.state.sliceDoc());
          }),
        ],
      }),
    });
    view.focus();
    return () => view.destroy();
  }, []);
  // What is typed here is no news of the card.
  return <div ref={host} data-clock className="max-h-[50vh] overflow-auto rounded-md border" />;
}

function chipOf(char: string): HTMLElement {
  const chip = document.createElement("span");
  chip.className = "chip";
  chip.title = chip.dataset.mark = nameOf(char);
  chip.setAttribute("role", "img");
  chip.setAttribute("aria-label", chip.title);
  return chip;
}
