import { describe, expect, test } from "vitest";
import { settingsOf, withSettings } from "./frontmatter";
import { starters } from "./starters";

const persona = `---
name: log-triage # of the logs
description: Reads logs.
provider: anthropic
model: claude-sonnet-5-5
tools: [shell_exec, complete_task]
limits:
  iterations: 30
---
# Role

You read logs: --- is no end.
`;

describe("L7: settings of a persona", () => {
  test("what the form does not change stays as it is, comments too", () => {
    const changed = withSettings(persona, { name: "reader", nodes: ["web-1"], labels: { zone: "a" } });
    expect(changed).toBe(
      persona
        .replace("name: log-triage #", "name: reader #")
        .replace("  iterations: 30\n", "  iterations: 30\nnodes:\n  names: [web-1]\n  labels: {zone: a}\n"),
    );
    expect(withSettings(changed, { nodes: [], labels: {}, name: "log-triage" })).toBe(persona);
  });

  test("a trigger is named, changed to another kind, and taken away", () => {
    const hook = withSettings(persona, {
      trigger: { name: "t", kind: "webhook", sender: "token", schedule: "", timeZone: "", pause: "", goal: "Look: {{ payload.x }}" },
    });
    expect(hook).toContain('triggers:\n  - name: t\n    webhook: token\n    goal: "Look: {{ payload.x }}"\n---\n# Role');
    const read = settingsOf(hook)!;
    expect(read.trigger).toMatchObject({ name: "t", kind: "webhook", sender: "token", goal: "Look: {{ payload.x }}" });
    const cron = withSettings(hook, { trigger: { ...read.trigger!, kind: "cron", schedule: "0 8 * * *" } });
    expect(cron).not.toContain("webhook");
    expect(settingsOf(cron)?.trigger).toMatchObject({ kind: "cron", schedule: "0 8 * * *" });
    expect(withSettings(cron, { trigger: undefined })).toBe(persona);
  });

  test("mode, tools, approvals and limits are changed, and a group goes with its last key", () => {
    const read = settingsOf(persona)!;
    expect(read).toMatchObject({ mode: "", tools: ["shell_exec", "complete_task"], asked: [], iterations: "30", costUsd: "" });
    const changed = withSettings(persona, { mode: "supervised", tools: ["file_read"], asked: ["file_read"], iterations: "", costUsd: "2.5" });
    expect(settingsOf(changed)).toMatchObject({ mode: "supervised", tools: ["file_read"], asked: ["file_read"], iterations: "", costUsd: "2.5" });
    expect(changed).toContain("tools: [file_read]\n");
    expect(changed).toContain("approvals:\n  tools: [file_read]\n");
    expect(changed).toContain("limits:\n  cost_usd: 2.5\n");
    const back = withSettings(changed, { mode: "", tools: ["shell_exec", "complete_task"], asked: [], iterations: "30", costUsd: "" });
    expect(settingsOf(back)).toEqual(read);
    expect(back).not.toContain("approvals");
    // What is no number stays as it was typed, for the hub to say what is wrong.
    expect(settingsOf(withSettings(persona, { iterations: "many" }))?.iterations).toBe("many");
  });

  test("text that comes from people is quoted, never YAML of its own", () => {
    const said = "a: b\n---\ntools: [all]";
    const changed = withSettings(persona, { description: said });
    expect(settingsOf(changed)?.description).toBe(said);
    expect(settingsOf(changed)?.name).toBe("log-triage");
  });

  test("a file that cannot be read is left alone", () => {
    for (const odd of ["", "no front matter", "---\nname: [\n---\n", "---\n- a list\n---\n"]) {
      expect(settingsOf(odd)).toBeUndefined();
      expect(withSettings(odd, { name: "x" })).toBe(odd);
    }
  });
});

test("A3: every persona that comes with Deckhand can be begun with", () => {
  expect(starters.map((s) => s.name)).toEqual(
    expect.arrayContaining(["coder", "log-triage", "reviewer", "qa-tester", "db-migrator", "claude", "gpt", "gemini", "qwen", "mistral"]),
  );
  for (const s of starters) {
    expect(settingsOf(s.markdown), s.name).toMatchObject({ name: s.name, provider: s.provider, description: s.description });
    expect(s.script !== "", s.name).toBe(s.provider === "script");
    // Changing nothing changes nothing.
    expect(withSettings(s.markdown, {}), s.name).toBe(s.markdown);
  }
});
