// SearchSearch is what the address of the search says.
export type SearchSearch = { q?: string };

const longest = 500;

// parseSearchSearch reads an address; what it does not know is left out.
export function parseSearchSearch(search: Record<string, unknown>): SearchSearch {
  // An address of digits is read as a number.
  const q = typeof search.q === "number" ? String(search.q) : search.q;
  return { q: typeof q === "string" && q.trim() !== "" ? q.slice(0, longest) : undefined };
}

// A filter of a query: its key, a colon, and a value that may be quoted.
const filter = (key: string) => new RegExp(`(^|\\s)${key}:("[^"]*"?|\\S*)`, "g");

// valueOf returns the value of a filter in a query; empty where there is none.
export function valueOf(query: string, key: string): string {
  const found = outside(query).match(filter(key))?.[0];
  return found ? found.trim().slice(key.length + 1).replaceAll('"', "") : "";
}

// withFilter returns a query with that filter, instead of what it had; an empty value
// removes it. Text in quotes is left as it is.
export function withFilter(query: string, key: string, value: string): string {
  const kept = query
    .split(phrases)
    .map((part, i) => (i % 2 ? part : part.replace(filter(key), "$1")))
    .join("")
    .replace(/\s+/g, " ")
    .trim();
  if (!value) return kept;
  return `${kept} ${key}:${/\s/.test(value) ? `"${value}"` : value}`.trim();
}

// Phrases in quotes, but not those that are a filter's value.
const phrases = /((?<!:)"[^"]*"?)/;

const outside = (query: string) =>
  query
    .split(phrases)
    .filter((_, i) => i % 2 === 0)
    .join(" ");
