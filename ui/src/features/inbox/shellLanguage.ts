import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const keywords = /^(?:if|then|else|elif|fi|for|in|do|done|while|until|case|esac|function|return|exit|export|local|set|sudo|eval|exec|source)\b/;

// shellLanguage gives a shell script its colours while it is edited: comments, quoted
// text, variables, options and the words of the language.
export const shellLanguage = [
  StreamLanguage.define<{ quote: string; start: boolean }>({
    name: "shell",
    startState: () => ({ quote: "", start: true }),
    token: (s, state) => {
      if (state.quote) {
        while (!s.eol()) {
          const c = s.next();
          if (c === "\\" && state.quote === '"') s.next();
          else if (c === state.quote) {
            state.quote = "";
            break;
          }
        }
        return "string";
      }
      if (s.sol()) state.start = true;
      if (s.eatSpace()) return null;
      if (s.peek() === "#" && (s.pos === 0 || /\s/.test(s.string[s.pos - 1]!))) {
        s.skipToEnd();
        return "comment";
      }
      const c = s.peek()!;
      if (c === "'" || c === '"' || c === "`") {
        s.next();
        state.quote = c;
        state.start = false;
        return "string";
      }
      if (s.match(/^\$(?:\{[^}]*\}|\w+|[?!#@*$-])/)) return "variableName";
      if (s.match(/^(?:\|\||&&|[|&;<>()]+)/)) {
        state.start = true;
        return "operator";
      }
      if (state.start && s.match(keywords)) return "keyword";
      if (s.match(/^--?[\w-]+/)) return "attributeName";
      const first = state.start;
      if (!s.match(/^[^\s'"`$|&;<>()#\\]+/)) {
        s.next();
        return null;
      }
      state.start = false;
      return first ? "typeName" : null;
    },
  }),
  syntaxHighlighting(
    HighlightStyle.define([
      { tag: tags.keyword, color: "var(--info)" },
      { tag: tags.typeName, color: "var(--accent)" },
      { tag: tags.string, color: "var(--good)" },
      { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
      { tag: [tags.variableName, tags.attributeName], color: "var(--info)" },
    ]),
  ),
];
