import { expect, test } from "vitest";
import { parsePolicySearch, ruleFor, withRule } from "./search";
import { sums } from "./sums";

test("a rule goes to the end of the rules, before what follows them", () => {
  const rule = "  - name: r\n";
  expect(withRule("", rule)).toBe("rules:\n  - name: r\n");
  expect(withRule("default: ask\n", rule)).toBe("default: ask\n\nrules:\n  - name: r\n");
  expect(withRule("rules: []\ndefault: ask\n", rule)).toBe("rules:\n  - name: r\ndefault: ask\n");
  expect(withRule("rules: # ours\n  - name: a\n    effect: deny\nlimits:\n  - x\n", rule)).toBe(
    "rules: # ours\n  - name: a\n    effect: deny\n  - name: r\nlimits:\n  - x\n",
  );
});

test("a rule of a call asks, names what it is about, and quotes what an agent wrote", () => {
  expect(ruleFor({ tool: "shell_exec", command: 'git push: "x"\nrm -rf /', by: "coder" })).toBe(
    '  - name: rule-coder-shell-exec\n    effect: ask\n    reason: "Say here why."\n    tool: shell_exec\n    agent: "coder"\n    command: "git push: \\"x\\""\n',
  );
  expect(ruleFor({ tool: "file_delete", args: '{"path":"old"}' })).toContain('    path: "old"\n');
  expect(ruleFor({ tool: "file_delete", args: "no JSON" })).not.toContain("path");
});

test("a call in an address that is too long is left out, and not cut", () => {
  expect(parsePolicySearch({ tool: "shell_exec", command: "x".repeat(5000), version: "3" })).toEqual({ tool: "shell_exec", version: 3 });
  expect(parsePolicySearch({ version: "-1", agent: 7 })).toEqual({});
});

test("a replay is summed up by what becomes what", () => {
  const c = (was: string, wouldBe: string) => ({ was: { effect: was }, wouldBe: { effect: wouldBe } });
  expect(sums([c("ask", "allow"), c("ask", "allow"), c("", "deny")])).toBe("2 asks → allowed, 1 up to the persona → denied");
});
