package cli_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/datadir"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func TestWhatIsTypedWrongIsUsage(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an unknown command":           {[]string{"fly"}, "unknown command \"fly\": see `deckhand --help`"},
		"a misspelt subcommand":        {[]string{"task", "lst"}, "unknown command \"lst\": did you mean `deckhand task list"},
		"an unknown flag":              {[]string{"task", "list", "--fast"}, "unknown flag: --fast: see `deckhand task list --help`"},
		"a missing argument":           {[]string{"agent", "show"}, "NAME is missing: see `deckhand agent show --help`"},
		"a goal without quotes":        {[]string{"run", "triage", "look", "here"}, "unexpected argument \"here\" (put text with spaces in quotes): see `deckhand run --help`"},
		"an unknown format":            {[]string{"task", "list", "-o", "xml"}, "use one of table, wide, json, jsonl, yaml, name"},
		"an unknown state":             {[]string{"task", "list", "--state", "lost"}, "there is no task state \"lost\", the states are pending, queued"},
		"a timeout without a wait":     {[]string{"run", "triage", "--timeout", "1s"}, "--timeout is how long --wait waits"},
		"apply without a file":         {[]string{"agent", "apply"}, "-f is missing"},
		"a role with a client's flag":  {[]string{"worker", "--hub", "http://x"}, "this command has no --hub"},
		"names of events":              {[]string{"task", "watch", "task_1", "-o", "name"}, "events have no names"},
		"a log as JSON":                {[]string{"task", "logs", "step_1", "-o", "json"}, "output is bytes"},
		"a hub URL that is none":       {[]string{"task", "list", "--hub", "hub.example"}, "hub URL \"hub.example\""},
		"a token with a line break":    {[]string{"task", "list", "--token", "a\nb"}, "token has spaces"},
		"a goal over 10000 characters": {[]string{"run", "triage", strings.Repeat("x", 11_000)}, "goal must be at most 10000 characters"},
		"two wrong fields":             {[]string{"run", "triage", "--priority", "11", "--title", strings.Repeat("x", 201)}, "; priority must be"},
		"an input that is not there":   {[]string{"run", "triage", "--input", "/nowhere"}, "cannot read /nowhere: no such file or directory"},
		"a folder without personas":    {[]string{"agent", "apply", "-f", t.TempDir()}, "there is no *.md file in "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{}, c.args...)
			for _, flag := range [][2]string{{"--hub", h.url}, {"--token", testToken}} {
				if args[0] != "worker" && !strings.Contains(strings.Join(args, " "), flag[0]) {
					args = append(args, flag[0], flag[1])
				}
			}
			got := execute(t.Context(), args...)
			require.Equal(t, 2, got.code, got.stderr)
			require.Contains(t, got.errorLine(t), c.want)
			require.Empty(t, got.stdout)
			require.Equal(t, 1, strings.Count(got.stderr, "\n"), "one line: %q", got.stderr)
		})
	}
}

func TestAGroupAloneShowsItsHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"task"}, {"agent"}, {"node"}, {"context"}} {
		got := execute(t.Context(), args...)
		require.Equal(t, 0, got.code, got.stderr)
		require.Contains(t, got.stdout, "EXAMPLES")
		require.NotContains(t, got.stdout, "\x1b")
		require.Empty(t, got.stderr)
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"agent apply", "agent list", "agent show", "run", "task list", "task show", "task watch", "task steps", "task logs",
		"task cancel", "task artifacts", "agent files send", "task files send", "node list", "node show", "node token", "node revoke", "node exec", "node shell", "node execs", "node kill", "node logs",
		"node files ls", "node files cat", "node top", "node drain", "node undrain", "node locks", "node lock", "node unlock", "context use", "context list", "version", "up", "hub", "worker",
	} {
		got := execute(t.Context(), append(strings.Fields(line), "--help")...)
		require.Equal(t, 0, got.code, line)
		require.Contains(t, got.stdout, "EXAMPLES", line)
		require.Contains(t, got.stdout, "deckhand "+line, line)
	}
}

func TestARoleDoesNotOfferClientFlags(t *testing.T) {
	t.Parallel()
	got := execute(t.Context(), "worker", "--help")
	require.Contains(t, got.stdout, "--hub-url")
	require.NotContains(t, got.stdout, "--hub ")
	require.NotContains(t, got.stdout, "--output")
}

func TestARoleThatIsMisconfiguredSaysWhat(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, []byte("slot: 3\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		want string
		code int
	}{
		"no token":       {[]string{"--hub-url", "http://127.0.0.1:1"}, "token is empty", 78},
		"too many slots": {[]string{"--slots", "99999"}, "slots is 99999", 78},
		"log level":      {[]string{"--log-level", "loud"}, "log-level \"loud\": use trace", 78},
		"config file":    {[]string{"--config", file}, "unknown key \"slot\"", 78},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute(t.Context(), append([]string{"worker"}, c.args...)...)
			require.Equal(t, c.code, got.code)
			require.Contains(t, got.errorLine(t), c.want)
		})
	}
}

func TestCompletionIsPrinted(t *testing.T) {
	t.Parallel()
	got := execute(t.Context(), "completion", "bash")
	require.Equal(t, 0, got.code)
	require.Contains(t, got.stdout, "deckhand")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^version +\S+\ngo +go\S+\nplatform +\w+/\w+\n$`, execute(t.Context(), "version").stdout)
	require.Regexp(t, `^\{"commit":"[0-9a-f]*","go":"go[^"]+","platform":"[^"]+","version":"[^"]+"\}\n$`, execute(t.Context(), "version", "-o", "jsonl").stdout)
	require.Contains(t, execute(t.Context(), "version", "--json").stdout, `"platform"`)
	require.Contains(t, execute(t.Context(), "--version").stdout, "deckhand version ")
}

func TestADeadHubIsNamed(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, args := range [][]string{
		{"task", "list"}, {"agent", "list"}, {"node", "list"}, {"run", "triage", "look", "--wait"},
		{"task", "watch", "task_1"}, {"task", "logs", "step_1"}, {"task", "logs", "task_1"},
	} {
		got := execute(t.Context(), append(args, "--hub", url)...)
		require.Equal(t, 5, got.code, args)
		line := got.errorLine(t)
		require.Contains(t, line, "cannot reach the hub at "+url)
		require.Contains(t, line, "connection refused")
		require.Contains(t, line, "start one on this machine with `deckhand up`, or name yours with --hub URL")
		require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
		require.Empty(t, got.stdout)
	}
}

// A person waits, and sees at once that a hub is not there.
func TestACallIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"a read": {"task", "list"}, "a change": {"token", "create", "ci"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				calls.Add(1)
				panic(http.ErrAbortHandler) // breaks the connection
			}))
			t.Cleanup(server.Close)
			got := execute(t.Context(), append(args, "--hub", server.URL)...)
			require.Equal(t, 5, got.code, got.stderr)
			require.EqualValues(t, 1, calls.Load())
		})
	}
}

func TestAServerThatIsNoHubIsNamed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	got := execute(t.Context(), "task", "list", "--hub", server.URL)
	require.Equal(t, 5, got.code)
	require.Contains(t, got.errorLine(t), "what answers at "+server.URL+" is not a Deckhand hub")
}

// Without a good token nothing is answered.
func TestAWrongTokenIsRefused(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, args := range [][]string{{"task", "list"}, {"task", "watch", "task_1"}, {"task", "logs", "step_1"}} {
		got := execute(t.Context(), append(args, "--hub", h.url, "--token", "dhu_wrong")...)
		require.Equal(t, 4, got.code)
		require.Equal(t, "error: the token is unknown, expired or revoked: give this hub's token with --token or DECKHAND_TOKEN, "+
			"or choose its context with `deckhand context use NAME`", got.errorLine(t))
		require.NotContains(t, got.stderr, "dhu_wrong")
	}
}

// What happened, what to do, code.
func TestErrorsOfTheHubAreOneLine(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	denied := h.run(t, "node", "revoke", "web-1")
	require.Equal(t, 4, denied.code)
	require.Equal(t, "error: only admins may revoke node web-1: ask an admin (AGENT_002)\n", denied.stderr)
	for _, args := range [][]string{{"agent", "show", "nobody"}, {"run", "nobody", "look"}} {
		missing := h.run(t, args...)
		require.Equal(t, 3, missing.code)
		require.Equal(t, "error: there is no agent \"nobody\": see `deckhand agent list`\n", missing.stderr)
	}
	require.Equal(t, 3, h.run(t, "task", "show", "task_9").code)
	require.Equal(t, 3, h.run(t, "task", "watch", "task_9").code)
	require.Equal(t, 3, h.run(t, "node", "show", "web-9").code)
}

func TestTheHubIsFoundByFlagsThenEnvironmentThenContextThenDataFolder(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	h, other := newHub(t), newHub(t)
	h.tasks = []*deckhandv1.Task{{Id: "task_here"}}
	other.tasks = []*deckhandv1.Task{{Id: "task_there"}}
	list := []string{"task", "list", "-o", "name"}

	dir := t.TempDir()
	got := execute(t.Context(), append(list, "--data-dir", dir)...)
	require.Equal(t, 5, got.code)
	require.Contains(t, got.errorLine(t), "tells of no hub: start one there with `deckhand up --data-dir "+dir+"`")

	require.NoError(t, os.WriteFile(filepath.Join(dir, datadir.URLFile), []byte(h.url+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, datadir.AdminTokenFile), []byte(testToken+"\n"), 0o600))
	require.Equal(t, "task_here\n", execute(t.Context(), append(list, "--data-dir", dir)...).stdout)
	t.Setenv("DECKHAND_DATA_DIR", dir)
	require.Equal(t, "task_here\n", execute(t.Context(), list...).stdout)
	t.Setenv("DECKHAND_DATA_DIR", "")

	got = execute(t.Context(), "context", "use", "prod")
	require.Equal(t, 3, got.code)
	got = execute(t.Context(), "context", "list")
	require.Equal(t, 0, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "deckhand context use NAME")

	require.Equal(t, 0, execute(t.Context(), "context", "use", "prod", "--hub", other.url+"/", "--token", testToken).code)
	require.Equal(t, 0, execute(t.Context(), "context", "use", "lab", "--hub", h.url, "--token", testToken).code)
	got = execute(t.Context(), "context", "list")
	require.Equal(t, "CURRENT  NAME  HUB\n*        lab   "+h.url+"\n-        prod  "+other.url+"\n", got.stdout)
	require.NotContains(t, got.stdout, testToken)
	info, err := os.Stat(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "deckhand", "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.Equal(t, "task_here\n", execute(t.Context(), list...).stdout)
	require.Equal(t, 0, execute(t.Context(), "context", "use", "prod").code)
	require.Equal(t, "task_there\n", execute(t.Context(), list...).stdout)
	// A data folder that is named beats the context; a hub that is named gets
	// the token that was stored for it and no other.
	require.Equal(t, "task_here\n", execute(t.Context(), append(list, "--data-dir", dir)...).stdout)
	require.Equal(t, "task_here\n", execute(t.Context(), append(list, "--hub", h.url)...).stdout)
	stranger := newHub(t)
	require.Equal(t, 4, execute(t.Context(), append(list, "--hub", stranger.url)...).code)

	t.Setenv("DECKHAND_HUB_URL", h.url)
	require.Equal(t, "task_here\n", execute(t.Context(), list...).stdout)
	t.Setenv("DECKHAND_TOKEN", "dhu_wrong")
	require.Equal(t, 4, execute(t.Context(), list...).code)
	require.Equal(t, "task_there\n", execute(t.Context(), append(list, "--hub", other.url, "--token", testToken)...).stdout)
}

func TestMalformedContextsAreNamed(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	path := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "deckhand", "config.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("contexts: [\n"), 0o600))
	got := execute(t.Context(), "context", "list")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.errorLine(t), path+" is malformed")
}
