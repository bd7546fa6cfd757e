import { highlightTree, tagHighlighter, tags } from "@lezer/highlight";
import type { Language, Token } from "./languages";
import { scan } from "./scan";

const keyword = "text-info";
const literal = "text-good";
const comment = "text-dim italic";
const name = "text-accent";

const highlighter = tagHighlighter([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.controlKeyword, tags.tagName, tags.unit], class: keyword },
  { tag: [tags.string, tags.special(tags.string), tags.regexp, tags.number, tags.bool, tags.null, tags.attributeValue, tags.monospace], class: literal },
  { tag: [tags.comment, tags.meta, tags.processingInstruction], class: comment },
  { tag: [tags.propertyName, tags.definition(tags.variableName), tags.function(tags.variableName), tags.typeName, tags.className, tags.attributeName], class: name },
  { tag: tags.heading, class: "text-accent font-semibold" },
  { tag: tags.strong, class: "font-semibold" },
  { tag: tags.emphasis, class: "italic" },
]);

type Parser = { parse: (text: string) => Parameters<typeof highlightTree>[0] };

const parsers: Partial<Record<Language, () => Promise<Parser>>> = {
  javascript: async () => (await import("@lezer/javascript")).parser.configure({ dialect: "jsx" }),
  typescript: async () => (await import("@lezer/javascript")).parser.configure({ dialect: "ts jsx" }),
  json: async () => (await import("@lezer/javascript")).parser.configure({ top: "SingleExpression" }),
  css: async () => (await import("@lezer/css")).parser,
  html: async () => (await import("@lezer/html")).parser,
  yaml: async () => (await import("@lezer/yaml")).parser,
  markdown: async () => (await import("@lezer/markdown")).parser,
};

// tokensOf returns the coloured parts of a text, in order and apart from each
// other.
export async function tokensOf(text: string, language: Language): Promise<Token[]> {
  const parser = await parsers[language]?.();
  if (!parser) return scan(text, language, { keyword, literal, comment, name });
  const tokens: Token[] = [];
  highlightTree(parser.parse(text), highlighter, (from, to, style) => tokens.push({ from, to, style }));
  return tokens;
}
