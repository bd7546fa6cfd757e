// PolicySearch is what a link to the policy asks for: whose policy, a version to
// compare with, and a call to make a rule of.
export type PolicySearch = {
  // An agent's name; unset for the organisation's policy.
  agent?: string;
  version?: number;
  // The call: its tool, its command or its arguments as JSON, and who made it.
  tool?: string;
  command?: string;
  args?: string;
  by?: string;
};

const mostText = 4_000;
const text = (v: unknown, most: number) => (typeof v === "string" && v !== "" && v.length <= most ? v : undefined);

// parsePolicySearch reads an address and ignores unknown parameters. A call that
// does not fit is left out as a whole: a part of it would be another one.
export function parsePolicySearch(search: Record<string, unknown>): PolicySearch {
  const version = Number(search.version);
  return {
    agent: text(search.agent, 128),
    version: Number.isInteger(version) && version > 0 ? version : undefined,
    tool: text(search.tool, 128),
    command: text(search.command, mostText),
    args: text(search.args, mostText),
    by: text(search.by, 128),
  };
}

// ruleFor writes a rule about a call, for a person to look at and to narrow: the
// text of YAML that is put at the end of the rules.
export function ruleFor(call: { tool: string; command?: string; args?: string; by?: string }): string {
  const quoted = (s: string) => JSON.stringify(s);
  const name = `rule-${(call.by ?? "all").toLowerCase().replace(/[^a-z0-9-]+/g, "-")}-${call.tool.replaceAll("_", "-")}`.slice(0, 60);
  const lines = [`  - name: ${name}`, "    effect: ask", `    reason: ${quoted("Say here why.")}`, `    tool: ${call.tool}`];
  if (call.by) lines.push(`    agent: ${quoted(call.by)}`);
  const first = call.command?.trim().split("\n")[0]?.trim();
  if (first) lines.push(`    command: ${quoted(first)}`);
  else {
    const path = pathOf(call.args);
    if (path) lines.push(`    path: ${quoted(path)}`);
  }
  return `${lines.join("\n")}\n`;
}

function pathOf(args: string | undefined): string | undefined {
  try {
    const parsed: unknown = JSON.parse(args ?? "");
    const path = (parsed as { path?: unknown }).path;
    return typeof path === "string" && path !== "" ? path : undefined;
  } catch {
    return undefined;
  }
}

// withRule returns a policy's text with a rule at the end of its rules.
export function withRule(yaml: string, rule: string): string {
  const lines = yaml.replace(/\n*$/, "\n");
  const at = /^rules:[ \t]*(\[\])?[ \t]*(#.*)?$/m.exec(lines);
  if (!at) return `${yaml.trim() === "" ? "" : `${lines}\n`}rules:\n${rule}`;
  const head = at.index + at[0].length;
  if (at[1]) return `${lines.slice(0, at.index)}rules:\n${rule}${lines.slice(head + 1)}`;
  // The section ends at the next key of the first level.
  const next = /^[A-Za-z_]/m.exec(lines.slice(head + 1));
  const end = next ? head + 1 + next.index : lines.length;
  return lines.slice(0, end) + rule + lines.slice(end);
}
