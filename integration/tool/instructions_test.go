package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// What a model is told of the place that it works in: where its commands run, what Git says
// of the files, the skills of the node, and the instructions of a folder once it touches
// something there.
func TestWhatAnAgentIsToldOfItsPlace(t *testing.T) {
	t.Parallel()
	provider := anthropictest.New(t, func(r anthropictest.Request) anthropictest.Answer {
		data, err := json.Marshal(r.Body["messages"])
		require.NoError(t, err)
		said := string(data)
		n := strings.Count(said, "tool_output step=")
		calls := []anthropictest.Answer{
			{Blocks: []anthropictest.Block{
				{Tool: "file_read", ID: "toolu_1", Input: `{"path":"web/src/app.js"}`}, {Tool: "file_read", ID: "toolu_5", Input: `{"path":"web/src/app.js"}`},
			}, Usage: anthropictest.Usage{Input: 1000, Output: 100}},
			{}, // they come in one turn
			asks("file_edit", "toolu_2", `{"path":"/workspace/web/src/app.js","old_string":"1","new_string":"2"}`),
			asks("file_write", "toolu_3", `{"path":"api/new/main.go","content":"package main"}`),
			asks("shell_exec", "toolu_4", `{"command":"head -4 /.deckhand-skills/git/SKILL.md"}`),
		}
		if strings.Contains(said, "Prepare it") {
			calls = []anthropictest.Answer{asks("shell_exec", "toolu_1", `{"command":"`+strings.Join([]string{
				"git init -q -b feature", "mkdir -p web/src web/node_modules/x api", "echo 1 > web/src/app.js", "echo 1 > kept", "git add .",
				"echo 2 > kept", "echo x > new", "echo Use tabs. > web/AGENTS.md", "echo Never call eval. > web/src/AGENTS.md", "echo Wrap errors. > api/AGENTS.md",
			}, "; ")+`"}`)}
		}
		if n < len(calls) {
			return calls[n]
		}
		return asks("complete_task", "toolu_9", `{"summary":"done"}`)
	})
	f := withModel(t, provider, "builder", "shell_exec, file_read, file_edit, file_write, complete_task")
	f.Ended(strings.TrimSpace(f.CLI(0, "run", "builder", "Prepare it", "-o", "name").Out))
	id := f.Submit("builder")
	f.Ended(id)

	var first string
	for _, r := range provider.Requests() {
		data, err := json.Marshal(r.Body["messages"])
		require.NoError(t, err)
		if !strings.Contains(string(data), "Prepare it") {
			first = string(data)
			break
		}
	}
	require.Regexp(t, `- Working folder: /workspace, on linux/[a-z0-9]+, [A-Z]`, first)
	require.Contains(t, first, `- Git branch: feature\n`)
	require.Contains(t, first, `- Git status of the files (what is staged is not shown; run git status for that): 1 changed: kept; 4 not tracked: api/, new, web/AGENTS.md, web/src/AGENTS.md\n`)
	require.Contains(t, first, "- git (/.deckhand-skills/git/SKILL.md): How to work in a Git repository")
	require.NotContains(t, first, "Use tabs.")

	var steps []struct {
		State, Observation string
		Outcome            map[string]any
	}
	f.JSON(&steps, "task", "steps", id)
	require.Len(t, steps, 6)
	read, beside, edited, written, skill := steps[0].Observation, steps[1].Observation, steps[2].Observation, steps[3].Observation, steps[4].Observation
	require.Regexp(t, `(?s)^\[web/AGENTS.md says how work is to be done in web\..*Use tabs\..*\[web/src/AGENTS.md says .*Never call eval\..*web/src/app.js: 1 lines`, read)
	require.Equal(t, []any{"web/AGENTS.md", "web/src/AGENTS.md"}, steps[0].Outcome["instructions"])
	require.NotContains(t, beside, "AGENTS.md", "the call that runs at the same time tells them")
	require.NotContains(t, edited, "AGENTS.md", "they were told")
	require.Contains(t, written, "Wrap errors.")
	require.Contains(t, skill, "name: git")
}
