import { ToolKind } from "@/gen/deckhand/v1/step_pb";

// kinds are the kinds of tools by their words in an address, in the order of a menu.
export const kinds: Record<string, ToolKind> = {
  file: ToolKind.FILE,
  search: ToolKind.SEARCH,
  analysis: ToolKind.ANALYSIS,
  work: ToolKind.WORK,
  web: ToolKind.WEB,
  communication: ToolKind.COMMUNICATION,
  fleet: ToolKind.FLEET,
};

// kindWord is a kind in a word.
export const kindWord = (kind: ToolKind): string => Object.keys(kinds).find((word) => kinds[word] === kind) ?? "";

// ToolSearch is what a link to the tools asks for.
export type ToolSearch = {
  // An agent's name: what calls would get from it is shown.
  agent?: string;
  kind?: string;
  text?: string;
  // The tool that is open.
  tool?: string;
};

const word = (v: unknown, most: number) => (typeof v === "string" && v !== "" && v.length <= most ? v : undefined);

// parseToolSearch reads an address and ignores what there is not.
export function parseToolSearch(search: Record<string, unknown>): ToolSearch {
  const kind = word(search.kind, 32);
  return {
    agent: word(search.agent, 128),
    kind: kind !== undefined && kind in kinds ? kind : undefined,
    text: word(search.text, 200),
    tool: word(search.tool, 128),
  };
}
