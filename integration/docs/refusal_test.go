package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// Bad input gives one clear line that says what to do, and the right exit code.
func TestBadInputIsOneClearLine(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	unknownKey := file("unknown.md", "---\nname: a\ndescription: d\nprovider: anthropic\nmodel: m\nlimits: {iterations: 3}\ntoools: [shell_exec]\n---\nGo.\n")
	malformed := file("malformed.md", "---\nname: a\nlimits: {iterations: 3\n---\nGo.\n")
	f.Persona("known", "turns:\n  - text: hello\n")

	for what, c := range map[string]struct {
		env  []string
		args []string
		code int
		text []string
	}{
		"an unknown key of the front matter": {args: []string{"agent", "apply", "-f", unknownKey}, code: 2, text: []string{"unknown.md:7", "toools", "tools"}},
		"malformed YAML":                     {args: []string{"agent", "apply", "-f", malformed}, code: 2, text: []string{"malformed.md:"}},
		"a goal of 11 000 characters":        {args: []string{"run", "known", strings.Repeat("x", 11000)}, code: 2, text: []string{"goal", "10000"}},
		"an unknown agent":                   {args: []string{"run", "nobody", "go"}, code: 3, text: []string{`no agent "nobody"`, "deckhand agent list"}},
		"an unknown task":                    {args: []string{"task", "show", "task_zzzzzz"}, code: 3, text: []string{"no task"}},
		"a dead hub":                         {args: []string{"--hub", "http://127.0.0.1:9", "--token", "dhu_x", "task", "list"}, code: 5, text: []string{"http://127.0.0.1:9"}},
		"a wrong token":                      {args: []string{"--hub", f.URL(), "--token", "dhu_" + strings.Repeat("0", 40), "task", "list"}, code: 4, text: []string{"token"}},
		"no token":                           {args: []string{"--hub", f.URL() + "/", "task", "list"}, code: 4, text: []string{"token"}},
		"an unknown command":                 {args: []string{"tusk", "list"}, code: 2, text: []string{"task"}},
		"a wrong database": {
			env:  []string{"DECKHAND_DATABASE_URL=postgres://nobody:hunter2hunter2@127.0.0.1:9/nothing"},
			args: []string{"hub", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"},
			code: 1, text: []string{"nothing", "127.0.0.1:9", "database-url"},
		},
		"a database URL that is none": {
			env:  []string{"DECKHAND_DATABASE_URL=postgres://a:hunter2hunter2@[::1"},
			args: []string{"hub", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"},
			code: 78, text: []string{"database-url", "postgres://"},
		},
		"a hub without a bus": {
			env:  []string{"DECKHAND_DATABASE_URL=postgres://x@127.0.0.1:9/x"},
			args: []string{"hub", "--data-dir", t.TempDir()}, code: 78, text: []string{"--nats-url", "--nats-listen"},
		},
		"plain HTTP for everybody": {
			env:  []string{"DECKHAND_DATABASE_URL=postgres://x@127.0.0.1:9/x"},
			args: []string{"hub", "--data-dir", t.TempDir(), "--listen", "0.0.0.0:0", "--nats-listen", "127.0.0.1:0"}, code: 78, text: []string{"--tls-cert"},
		},
	} {
		env := c.env
		if !strings.Contains(strings.Join(c.args, " "), "--hub") && len(env) == 0 {
			env = []string{"DECKHAND_DATA_DIR=" + f.Dir}
		}
		r := harness.Run(t, env, c.args...)
		require.Equal(t, c.code, r.Code, "%s\nstdout: %s\nstderr: %s", what, r.Out, r.Err)
		require.Empty(t, r.Out, what)
		for _, text := range c.text {
			require.Contains(t, r.Err, text, what)
		}
		require.NotContains(t, r.Err, "hunter2", what)
		require.NotContains(t, r.Err, "goroutine", what)
		last := strings.TrimSpace(r.Err)
		require.True(t, strings.HasPrefix(last[strings.LastIndex(last, "\n")+1:], "error: ") || strings.Contains(last, "error: "), "%s: %s", what, r.Err)
	}
}

// A join token enrols one machine, for its time.
func TestJoinTokensEnrolOneMachineInTime(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	enrol := func(token string) *harness.Process {
		return harness.Start(t, []string{"DECKHAND_JOIN_TOKEN=" + token}, harness.Binary(t, "deckhand-node"),
			"--data-dir", jailtest.Dir(t), "--hub-url", f.URL(), "--containerd", f.Containerd, "--name", "n"+token[4:10])
	}
	refused := func(p *harness.Process, text string) {
		t.Helper()
		select {
		case <-p.Done:
		case <-time.After(30 * time.Second):
			t.Fatalf("the node goes on: %s", p.Output.String())
		}
		require.Equal(t, 4, p.Cmd.ProcessState.ExitCode(), p.Output.String())
		require.Contains(t, p.Output.String(), text)
		require.NotContains(t, p.Output.String(), "dhj_", "the token is a secret")
	}
	token := func(args ...string) string {
		return strings.TrimSpace(f.CLI(0, append([]string{"node", "token"}, args...)...).Out)
	}

	used := token()
	first := enrol(used)
	waittest.Until(t, 30*time.Second, "the first machine to be connected", func() bool {
		return strings.Contains(f.CLI(0, "node", "list").Out, "connected")
	})
	refused(enrol(used), "already used by another machine")
	first.Stop(t)

	short := token("--ttl", "1s")
	<-time.After(1100 * time.Millisecond) // the token's own time
	refused(enrol(short), "expired")
}
