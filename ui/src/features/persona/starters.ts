// The personas that come with Deckhand, as they are in personas/: the console
// and the hub that serves it are of the same version.
const files = import.meta.glob<string>("../../../../personas/*.md", { query: "?raw", import: "default", eager: true });
const scripts = import.meta.glob<string>("../../../../personas/*.yaml", { query: "?raw", import: "default", eager: true });

// Starter is a persona to begin with.
export type Starter = {
  name: string;
  description: string;
  provider: string;
  markdown: string;
  // The scripted model's text; empty for other providers.
  script: string;
};

const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
const value = (markdown: string, key: string) => new RegExp(`^${key}: *(.*)$`, "m").exec(markdown)?.[1]?.trim() ?? "";
const scriptOf = new Map(Object.entries(scripts).map(([path, text]) => [nameOf(path), text]));

// starters are all of them, by name.
export const starters: Starter[] = Object.entries(files)
  .map(([path, markdown]) => ({
    name: nameOf(path).replace(/\.md$/, ""),
    description: value(markdown, "description"),
    provider: value(markdown, "provider"),
    markdown,
    script: scriptOf.get(value(markdown, "script")) ?? "",
  }))
  .sort((a, b) => a.name.localeCompare(b.name));
