import { StateEffect } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";

// colour gives a text the colours of a persona once their parsers have come: the
// text is there before, and can be edited.
export function colour(view: EditorView) {
  void import("./language").then(({ personaLanguage }) => {
    if (view.dom.isConnected) view.dispatch({ effects: StateEffect.appendConfig.of(personaLanguage) });
  });
}
