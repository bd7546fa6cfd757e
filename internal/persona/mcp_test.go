package persona_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/persona"
)

func mcpFile(front string) []byte {
	return []byte("---\nname: a\ndescription: d\nprovider: anthropic\nmodel: m\nlimits: {iterations: 3}\ntools: [shell_exec]\n" + front + "\n---\nGo.\n")
}

// A persona names its MCP servers; what it leaves out has a default.
func TestAPersonaNamesItsMCPServers(t *testing.T) {
	t.Parallel()
	p, err := persona.Parse("a.md", mcpFile(`context: {summary_model: {provider: openai, model: gpt-5-mini}}
approvals: {tools: [mcp__notes__add]}
mcp:
  - name: notes
    command: [python3, notes.py, 1, true, 1]
    env: {LANG: C, A: 1}
    tools: [add, list]
    category: safe
    timeout: 5m
  - {name: other-1, command: [other]}
  - {name: far, url: "https://mcp.example.com/mcp"}
egress: {allow: [mcp.example.com]}`), persona.Vocabulary{})
	require.NoError(t, err)
	require.Equal(t, []persona.MCPServer{
		{Name: "notes", Command: []string{"python3", "notes.py", "1", "true", "1"}, Env: []string{"A=1", "LANG=C"}, Tools: []string{"add", "list"}, Category: "safe", Timeout: 5 * time.Minute},
		{Name: "other-1", Command: []string{"other"}, Category: "moderate", Timeout: time.Minute},
		{Name: "far", URL: "https://mcp.example.com/mcp", Category: "moderate", Timeout: time.Minute},
	}, p.MCP)
	require.Equal(t, "notes", p.MCPServerOf("mcp__notes__add").Name)
	require.Nil(t, p.MCPServerOf("mcp__note__add"))
	require.Nil(t, p.MCPServerOf("shell_exec"))
	require.Equal(t, persona.Fallback{Provider: "openai", Model: "gpt-5-mini"}, p.Context.SummaryModel)
}

func TestEveryProblemOfAnMCPServerIsReported(t *testing.T) {
	t.Parallel()
	_, err := persona.Parse("a.md", mcpFile(`mcp:
  - name: My Notes
    command: []
    env: {"A B": c, LIST: [1]}
    category: harmless
    timeout: 2h
    url: http://far.example:8080/mcp
  - {name: twice, command: [x]}
  - {name: twice, command: [""]}
  - {command: [x]}
  - {name: far, url: "https://a:b@far.example/"}
  - {name: none}
context: {summary_model: {provider: script, model: m}}
approvals: {tools: [mcp__absent__add]}`), persona.Vocabulary{})
	require.Error(t, err)
	for _, want := range []string{
		`a.md:9: mcp.name is "My Notes": use lower-case letters`,
		"a.md:10: mcp.command must be a list of 1 to 64 words",
		`a.md:11: mcp.env has "A B", which is no name of a variable`,
		"a.md:11: mcp.env.LIST must be one word",
		`a.md:12: mcp.category is "harmless": write one of safe, moderate, dangerous`,
		"a.md:13: mcp.timeout is 2h0m0s: at most 1h is allowed",
		"a.md:9: mcp has a server with neither command nor url, or with both",
		`a.md:14: mcp.url leads to far.example:8080, which egress does not allow: write egress: {allow: ["far.example:8080"]}`,
		`a.md:18: mcp.url is "https://a:b@far.example/": write an address without a password`,
		"a.md:19: mcp has a server with neither command nor url",
		`a.md:16: mcp has two servers named "twice"`,
		"a.md:16: mcp.command names no program",
		"a.md:17: name is missing",
		"a.md:20: context.summary_model has provider script",
		`a.md:21: approvals.tools has "mcp__absent__add", which tools does not list`,
	} {
		require.Contains(t, err.Error(), want)
	}
}
