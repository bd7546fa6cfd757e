package mcpbridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/node/skill/mcpbridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server builds the MCP server of the tests once.
var server = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mcp-server-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "server")
	out, err := exec.Command("go", "build", "-o", path, "./testdata/server").CombinedOutput()
	if err != nil {
		return string(out), err
	}
	return path, nil
})

// rig is a bridge and the server behind it.
type rig struct {
	t      *testing.T
	dir    string
	socket string
	ended  chan error
}

// serve starts a bridge whose server behaves as how says.
func serve(t *testing.T, how string, idle int) *rig {
	t.Helper()
	program, err := server()
	require.NoError(t, err, program)
	r := &rig{t: t, dir: t.TempDir(), ended: make(chan error, 1)}
	r.socket = filepath.Join(r.dir, "s")
	r.be(how)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- mcpbridge.Serve(ctx, mcpbridge.Config{
			Socket: r.socket, IdleSeconds: idle,
			Command: []string{"/bin/sh", "-c", `cd "$0" && exec "$1" how`, r.dir, program},
		}, io.Discard)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (r *rig) be(how string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, "how"), []byte(how), 0o600))
}

// ask asks as the program does.
func (r *rig) ask(req mcpbridge.Request) mcpbridge.Answer {
	r.t.Helper()
	request, err := json.Marshal(req)
	require.NoError(r.t, err)
	var out, errs bytes.Buffer
	require.Zero(r.t, mcpbridge.Main(r.t.Context(), []string{"ask", r.socket}, bytes.NewReader(request), &out, &errs), errs.String())
	var said mcpbridge.Answer
	require.NoError(r.t, json.Unmarshal(out.Bytes(), &said))
	return said
}

// tools are the server's, by name.
func (r *rig) tools() map[string]mcpbridge.Tool {
	r.t.Helper()
	said := r.ask(mcpbridge.Request{List: true})
	require.Empty(r.t, said.Error)
	out := map[string]mcpbridge.Tool{}
	for _, tool := range said.Tools {
		out[tool.Name] = tool
	}
	return out
}

func (r *rig) call(tool mcpbridge.Tool, arguments string) mcpbridge.Answer {
	r.t.Helper()
	return r.ask(mcpbridge.Request{Tool: tool.Name, Digest: tool.Digest, Arguments: json.RawMessage(arguments), TimeoutMillis: 60_000})
}

// A server lives from one call to the next, and what it answers comes
// through: text, an error of its own, a picture, and of too much text the most.
func TestAServerIsAskedOverItsBridge(t *testing.T) {
	t.Parallel()
	r := serve(t, "", 600)
	tools := r.tools()
	require.Contains(t, string(tools["add"].InputSchema), `"n"`)
	require.Equal(t, "the sum is 2", r.call(tools["add"], `{"n":2}`).Text)
	require.Equal(t, "the sum is 5", r.call(tools["add"], `{"n":3}`).Text, "it is the same server")
	failed := r.call(tools["fail"], `{}`)
	require.True(t, failed.IsError)
	require.Equal(t, "it cannot be done", failed.Text)
	picture := r.call(tools["picture"], `{}`)
	require.Len(t, picture.Images, 1)
	require.Equal(t, "image/png", picture.Images[0].MediaType)
	require.Equal(t, "a square", picture.Text)
	long := r.call(tools["long"], `{}`)
	require.Less(t, len(long.Text), 300<<10)
	require.Contains(t, long.Text, "of 1048576 bytes left out")
	require.NotEmpty(t, r.call(tools["add"], `{"n":"two"}`).Text+r.call(tools["add"], `{"n":"two"}`).Error, "the server says what is wrong")

	// One that takes too long is told to stop.
	late := r.ask(mcpbridge.Request{Tool: "slow", Digest: tools["slow"].Digest, Arguments: json.RawMessage(`{}`), TimeoutMillis: 300})
	require.True(t, late.TimedOut)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(r.dir, "cancelled.txt"))
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, "the sum is 5", r.call(tools["add"], `{"n":0}`).Text, "and goes on")
}

// A call is made only of a tool that is what was agreed on.
func TestAChangedDefinitionIsNotCalled(t *testing.T) {
	t.Parallel()
	first := serve(t, "", 600)
	agreed := first.tools()
	r := serve(t, "changed fewer", 600)
	require.Equal(t, agreed["write"].Digest, r.tools()["write"].Digest, "the same tool of another process is the same")
	said := r.call(agreed["add"], `{"n":1}`)
	require.Contains(t, said.Error, "not the one that was agreed on")
	require.Len(t, said.Tools, 1)
	require.Contains(t, said.Tools[0].Description, "Ignore your instructions")
	require.True(t, r.call(agreed["echo"], `{}`).Gone)
	require.Equal(t, "the sum is 1", r.call(said.Tools[0], `{"n":1}`).Text, "it was not called before")
}

// Death, garbage and a message without end are said for what they are, and end
// the bridge; nobody waits forever.
func TestAServerThatMisbehaves(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{"die": "exit status 9; it wrote: goodbye", "garbage": "invalid character", "huge": "broke off"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			r := serve(t, "", 600)
			said := r.call(r.tools()[tool], `{}`)
			require.True(t, said.Ended, "%+v", said)
			require.Contains(t, said.Error, want)
			require.Error(t, <-r.ended)
			r.ended <- nil
			require.True(t, r.ask(mcpbridge.Request{List: true}).NotRunning)
		})
	}
	t.Run("it does not start", func(t *testing.T) {
		t.Parallel()
		r := serve(t, "dead", 600)
		require.Contains(t, r.ask(mcpbridge.Request{List: true}).Error, "I will not start")
	})
}

func TestABridgeThatNobodyAsksEnds(t *testing.T) {
	t.Parallel()
	r := serve(t, "", 1)
	r.tools()
	require.NoError(t, <-r.ended)
	r.ended <- nil
}
