package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// persona returns a persona file that is right.
func persona(name, provider, more string) string {
	return "---\nname: " + name + "\ndescription: Looks.\nprovider: " + provider + "\n" + more +
		"tools: [shell_exec]\nlimits:\n  iterations: 10\n---\nLook around.\n"
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

// An agent is one file.
func TestAFolderOfPersonasIsApplied(t *testing.T) {
	t.Parallel()
	h, dir := newHub(t), t.TempDir()
	write(t, dir, map[string]string{
		"a.md":       persona("alpha", "anthropic", "model: claude-test\n"),
		"sub/b.md":   persona("beta", "script", "script: b.yaml\n"),
		"sub/b.yaml": "turns: []\n",
		"README.md":  "About these.\n", "notes.txt": "x", ".git/c.md": "x",
	})
	got := h.run(t, "agent", "apply", "-f", dir)
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "NAME   CHANGE   VERSION  MODEL\nalpha  created  1        anthropic/claude-test\nbeta   created  1        anthropic/claude-test\n", got.stdout)
	require.Empty(t, got.stderr)
	require.Len(t, h.applied, 2)
	require.Equal(t, persona("alpha", "anthropic", "model: claude-test\n"), h.applied[0].GetMarkdown())
	require.Equal(t, filepath.Join(dir, "a.md"), h.applied[0].GetFilename())
	require.Equal(t, "turns: []\n", h.applied[1].GetScript())

	got = h.run(t, "agent", "apply", "-f", filepath.Join(dir, "a.md"), "--dry-run", "-o", "name")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "alpha\n", got.stdout)
	require.Equal(t, "Dry run: nothing stored.\n", got.stderr)
	require.Len(t, h.applied, 2)
}

// Every problem has its line, and nothing is stored while there is one.
func TestEveryProblemOfEveryPersonaIsShown(t *testing.T) {
	t.Parallel()
	h, dir := newHub(t), t.TempDir()
	write(t, dir, map[string]string{
		"bad1.md": strings.Replace(persona("one", "anthropic", "model: m\n"), "description", "descripton", 1),
		"bad2.md": "---\nname: [\n---\nBody.\n",
		"good.md": persona("good", "anthropic", "model: m\n"),
	})
	got := h.run(t, "agent", "apply", "-f", dir)
	require.Equal(t, 2, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, filepath.Join(dir, "bad1.md")+":3: ")
	require.Contains(t, got.stderr, "descripton")
	require.Regexp(t, `bad2\.md:\d+: .*not valid YAML`, got.stderr)
	require.NotContains(t, got.stderr, "good.md")
	require.Equal(t, "error: 2 of 3 persona files cannot be used and nothing was stored: correct the lines above and apply again", got.errorLine(t))
	require.Empty(t, h.applied)

	one := h.run(t, "agent", "apply", "-f", filepath.Join(dir, "bad2.md"))
	require.Equal(t, 2, one.code)
	require.Regexp(t, `^error: \S+bad2\.md:\d+: .*not valid YAML.*\n$`, one.stderr)
}

func TestWhatTheHubFindsWrongIsShownLineByLine(t *testing.T) {
	t.Parallel()
	h, dir := newHub(t), t.TempDir()
	h.wrongTools = true
	write(t, dir, map[string]string{"a.md": persona("a", "anthropic", "model: m\n"), "b.md": persona("b", "anthropic", "model: m\n")})
	got := h.run(t, "agent", "apply", "-f", dir)
	require.Equal(t, 2, got.code)
	a, b := filepath.Join(dir, "a.md"), filepath.Join(dir, "b.md")
	require.Equal(t, a+":5: unknown tool \"shel\"\n"+a+":6: unknown tool \"fly\"\n"+b+":5: unknown tool \"shel\"\n"+b+":6: unknown tool \"fly\"\n"+
		"error: 2 of 2 persona files cannot be used and nothing was stored: correct the lines above and apply again\n", got.stderr)
	require.Empty(t, h.applied)
}

func TestAScriptIsReadFromThePersonasFolderOnly(t *testing.T) {
	t.Parallel()
	h, dir := newHub(t), t.TempDir()
	write(t, dir, map[string]string{
		"secret.yaml": "secret", "in/missing.md": persona("a", "script", "script: gone.yaml\n"),
		"in/link.md": persona("b", "script", "script: link.yaml\n"),
	})
	require.NoError(t, os.Symlink("../secret.yaml", filepath.Join(dir, "in", "link.yaml")))
	for _, name := range []string{"missing", "link"} {
		got := h.run(t, "agent", "apply", "-f", filepath.Join(dir, "in", name+".md"))
		require.Equal(t, 2, got.code)
		require.Regexp(t, name+`\.md:5: script ".*" cannot be read \(.*\): put the file beside the persona`, got.errorLine(t))
	}
	require.Empty(t, h.applied)
}

func TestAgentsAreListedAndShown(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	empty := h.run(t, "agent", "list")
	require.Equal(t, 0, empty.code)
	require.Empty(t, empty.stdout)
	require.Equal(t, "no agents yet; make one from a persona file: deckhand agent apply -f FILE\n", empty.stderr)
	require.Equal(t, "[]\n", h.run(t, "agent", "list", "-o", "json").stdout)

	h.agents = []*deckhandv1.Agent{
		{Id: "agent_1", Name: "triage", Status: deckhandv1.AgentStatus_AGENT_STATUS_IDLE, Version: 3, Provider: "anthropic", Model: "claude-test", Owner: "user:ann", Description: "Reads\x1b[2J logs"},
		{Id: "agent_2", Name: "demo", Status: deckhandv1.AgentStatus_AGENT_STATUS_ACTIVE, Version: 1, Provider: "script", Model: "scripted", Owner: "team:ops"},
	}
	require.Equal(t, `NAME    STATUS  VERSION  MODEL                  AGE  OWNER     DESCRIPTION
triage  idle    3        anthropic/claude-test  -    ann       Reads logs
demo    active  1        scripted (no model)    -    team:ops  -
`, h.run(t, "agent", "list").stdout)
	require.Equal(t, "triage\ndemo\n", h.run(t, "agent", "list", "-o", "name").stdout)

	show := h.run(t, "agent", "show", "triage", "--version", "2")
	require.Equal(t, 0, show.code)
	require.Regexp(t, `(?m)^name +triage$`, show.stdout)
	require.Regexp(t, `(?m)^shown version +2$`, show.stdout)
	require.Contains(t, show.stdout, "\npersona\n---\nname: triage\n---\nLook.␛]0;pwned␇\n")
	require.NotContains(t, show.stdout, "\x1b")
}
