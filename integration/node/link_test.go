package node

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// cable is what lies between a node and the hub's edge; it can be cut.
type cable struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	cut    bool
	conns  []net.Conn
}

func newCable(t testing.TB) *cable {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cable{listener: l}
	t.Cleanup(func() {
		_ = l.Close()
		c.set("", true)
	})
	go c.serve()
	return c
}

// set sets where the cable leads, and whether it is cut.
func (c *cable) set(target string, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target, c.cut = target, cut
	if cut {
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.conns = nil
	}
}

func (c *cable) serve() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		if c.cut || c.target == "" {
			c.mu.Unlock()
			_ = near.Close()
			continue
		}
		far, err := net.Dial("tcp", c.target)
		if err != nil {
			c.mu.Unlock()
			_ = near.Close()
			continue
		}
		c.conns = append(c.conns, near, far)
		c.mu.Unlock()
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1]) // ends when either end is closed
				_ = pair[0].Close()
				_ = pair[1].Close()
			}()
		}
	}
}

// A link that is cut for much longer than it takes both ends to notice costs
// none of a command's output, and the task ends right.
func TestALinkThatIsCutDuringOutput(t *testing.T) {
	t.Parallel()
	cut := time.Duration(jailtest.Sized(30, 60)) * time.Second
	require.Greater(t, cut, nodelink.PingAfter+nodelink.PingTimeout)
	link := newCable(t)
	f := harness.NewOn(t, "--edge-address", link.listener.Addr().String())
	_, edge, _ := f.Hub.Addresses(t)
	require.Equal(t, link.listener.Addr().String(), edge, "nodes are told of the cable")
	link.set(f.EdgeListener(), false)
	f.StartNode()
	f.StartWorker()
	seconds := int(cut/time.Second) + 10
	f.Persona("printer", fmt.Sprintf(`
turns:
  - text: I print for a while.
    calls:
      - tool: shell_exec
        arguments: {command: "echo ran >> counter; for i in $(seq %d); do echo line $i; sleep 1; done", timeout_seconds: 300}
  - text: How often?
    calls:
      - {tool: shell_exec, arguments: {command: cat counter}}
  - text: Done.
    calls:
      - {tool: complete_task, arguments: {summary: printed}}
`, seconds))
	id := f.Submit("printer")
	f.Started(id)
	link.set("", true)
	<-time.After(cut)
	link.set(f.EdgeListener(), false)
	f.Ended(id)
	var want strings.Builder
	for i := 1; i <= seconds; i++ {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	steps := f.Steps(id)
	require.Equal(t, want.String(), f.CLI(0, "task", "logs", steps[0].ID).Out)
	require.Equal(t, "ran\n", f.CLI(0, "task", "logs", steps[1].ID).Out, "it ran once")
}

// A command whose node is cut off for longer than the persona's offline grace is stopped
// by the node, and not before. Its result, with the reason, arrives once when the node is
// back, and the task continues from it.
func TestALinkThatIsCutBeyondTheOfflineGrace(t *testing.T) {
	t.Parallel()
	link := newCable(t)
	f := harness.NewOn(t, "--edge-address", link.listener.Addr().String())
	link.set(f.EdgeListener(), false)
	f.StartNode()
	f.StartWorker()
	const grace = 15 * time.Second
	f.Persona("printer", `
turns:
  - text: I print for ever.
    calls:
      - tool: shell_exec
        arguments: {command: "echo ran >> counter; (setsid sh -c 'while :; do date +%s > next; mv next alive; sleep 0.2; done' &); while :; do echo .; sleep 0.2; done", timeout_seconds: 600}
  - text: How often, and until when?
    calls:
      - {tool: shell_exec, arguments: {command: "cat counter alive; sleep 1; cat alive"}}
  - text: Done.
    calls:
      - {tool: complete_task, arguments: {summary: printed}}
`, "offline_grace: "+grace.String())
	id := f.Submit("printer")
	waittest.Until(t, 30*time.Second, "the command to run", func() bool {
		steps := f.Steps(id)
		return len(steps) == 1 && steps[0].State == "STEP_STATE_STARTED" && len(f.CLI(0, "task", "logs", steps[0].ID).Out) > 4
	})
	cut := time.Now()
	link.set("", true)
	data := filepath.Join(f.NodeDir, "jails")
	var exits []string
	waittest.Until(t, 2*time.Minute, "the node to stop the command by itself", func() bool {
		exits, _ = filepath.Glob(filepath.Join(data, "*", "state", "execs", f.Steps(id)[0].ID, "exit"))
		return len(exits) == 1
	})
	require.GreaterOrEqual(t, time.Since(cut), grace-heartbeatSlack, "it had its grace")
	ended, err := os.Stat(exits[0])
	require.NoError(t, err)
	require.Equal(t, "STEP_STATE_STARTED", f.Steps(id)[0].State, "the hub cannot know yet")

	link.set(f.EdgeListener(), false)
	f.Ended(id)
	steps := f.Steps(id)
	require.Len(t, steps, 3)
	require.Equal(t, "STEP_STATE_FAILED", steps[0].State)
	require.Contains(t, f.CLI(0, "task", "steps", id, "-o", "json").Out, "cut off from the hub for longer than its offline grace")
	lines := strings.Fields(f.CLI(0, "task", "logs", steps[1].ID).Out)
	require.Len(t, lines, 3)
	require.Equal(t, "ran", lines[0], "it ran once")
	require.Equal(t, lines[1], lines[2], "what it left behind was stopped too")
	last, err := strconv.ParseInt(lines[1], 10, 64)
	require.NoError(t, err)
	require.LessOrEqual(t, last, ended.ModTime().Unix()+1)
	require.NotEmpty(t, f.CLI(0, "task", "logs", steps[0].ID).Out, "its output arrived")
}

// heartbeatSlack is how long before the cut the last contact may have been.
const heartbeatSlack = 6 * time.Second
