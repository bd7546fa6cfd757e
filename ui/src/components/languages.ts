// Token is a part of a text that has a colour: the classes of style.
export type Token = { from: number; to: number; style: string };

// Language is one that can be highlighted.
export type Language =
  | "c" | "css" | "diff" | "docker" | "go" | "html" | "ini" | "java" | "javascript" | "json" | "markdown"
  | "php" | "python" | "ruby" | "rust" | "shell" | "sql" | "toml" | "typescript" | "yaml";

// What languages are called, by people and by the ends of files' names.
const names: Record<Language, string> = {
  c: "c cc cpp cxx c++ h hh hpp cs csharp m swift scala dart proto protobuf glsl zig",
  css: "css scss less",
  diff: "diff patch",
  docker: "dockerfile docker containerfile",
  go: "go golang",
  html: "html htm xml svg vue svelte",
  ini: "ini cfg conf properties env service timer socket editorconfig gitconfig",
  java: "java kt kotlin groovy gradle",
  javascript: "javascript js jsx mjs cjs",
  json: "json jsonc json5 jsonl ndjson webmanifest",
  markdown: "markdown md mdx",
  php: "php",
  python: "python py pyi pyw starlark bzl",
  ruby: "ruby rb rake gemspec",
  rust: "rust rs",
  shell: "shell sh bash zsh ksh console shellsession shell-session profile bashrc make makefile mk",
  sql: "sql psql pgsql mysql sqlite",
  toml: "toml",
  typescript: "typescript ts tsx mts cts",
  yaml: "yaml yml",
};

const byName = new Map(Object.entries(names).flatMap(([language, all]) => all.split(" ").map((n) => [n, language as Language] as const)));

// languageOf returns the language of a name, or else of a file's path; undefined
// if neither is known.
export function languageOf(name?: string, path?: string): Language | undefined {
  const named = name && byName.get(name.toLowerCase());
  if (named || !path) return named || undefined;
  const file = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return byName.get(file.slice(file.lastIndexOf(".") + 1)) ?? byName.get(file.split(".")[0]!);
}
