import { StateEffect } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";

// colour gives a text the colours of a persona, or of YAML, once their parsers have come: the
// text is there before, and can be edited.
export function colour(view: EditorView, language?: "yaml") {
  void import("./language").then(
    ({ personaLanguage, yamlLanguage }) => {
      if (view.dom.isConnected) view.dispatch({ effects: StateEffect.appendConfig.of(language ? yamlLanguage : personaLanguage) });
    },
    () => undefined, // without colours it is edited just as well
  );
}
