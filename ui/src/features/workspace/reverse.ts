// reverse returns the text before a unified diff was applied; undefined when the
// text has changed since.
export function reverse(unified: string, now: string): string | undefined {
  const current = now.split("\n");
  const before: string[] = [];
  let at = 0;
  let hunks = 0;
  for (const line of unified.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk) {
      hunks++;
      // A hunk without lines of the new text stands behind the line it names.
      const start = Number(hunk[2]) - (hunk[3] === "0" ? 0 : 1);
      if (start < at || start > current.length) return undefined;
      before.push(...current.slice(at, start));
      at = start;
      continue;
    }
    if (hunks === 0 || line.startsWith("\\")) continue; // the names of the files, or that the last line does not end
    const text = line.slice(1);
    if (line.startsWith("-")) before.push(text);
    else if (current[at] !== text) return undefined;
    else {
      if (!line.startsWith("+")) before.push(text);
      at++;
    }
  }
  if (hunks === 0) return undefined;
  before.push(...current.slice(at));
  return before.join("\n");
}
