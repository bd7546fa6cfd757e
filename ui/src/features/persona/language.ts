import { yaml, yamlFrontmatter } from "@codemirror/lang-yaml";
import {
  defineLanguageFacet,
  HighlightStyle,
  Language,
  LanguageSupport,
  languageDataProp,
  syntaxHighlighting,
} from "@codemirror/language";
import { tags } from "@lezer/highlight";
import { parser } from "@lezer/markdown";

// Markdown without what is embedded in it: instructions hold no HTML, and its
// parser would be larger than all else.
const data = defineLanguageFacet({ commentTokens: { block: { open: "<!--", close: "-->" } } });
const markdown = new Language(
  data,
  parser.configure({ props: [languageDataProp.add((type) => (type.isTop ? data : undefined))] }),
  [],
  "markdown",
);

const colours = syntaxHighlighting(
    HighlightStyle.define([
      { tag: tags.heading, fontWeight: "600", color: "var(--accent)" },
      { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--info)" },
      { tag: [tags.string, tags.monospace], color: "var(--good)" },
      { tag: [tags.comment, tags.meta, tags.processingInstruction], color: "var(--dim)" },
      { tag: tags.emphasis, fontStyle: "italic" },
      { tag: tags.strong, fontWeight: "600" },
      { tag: tags.link, textDecoration: "underline" },
    ]),
  );

// personaLanguage is Markdown behind YAML front matter, in the colours of the
// theme.
export const personaLanguage = [yamlFrontmatter({ content: new LanguageSupport(markdown) }), colours];

// yamlLanguage is YAML in the same colours.
export const yamlLanguage = [yaml(), colours];
