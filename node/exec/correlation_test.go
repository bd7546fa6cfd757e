package exec_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/node/exec"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// lines is a log that a test reads while it is written.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// The end of a command is in the node's log with the correlation id of who
// asked for it.
func TestTheLogSaysForWhomACommandRan(t *testing.T) {
	t.Parallel()
	out := &lines{}
	n := newNode(t, func(c *exec.Config) {
		c.Log = hclog.New(&hclog.LoggerOptions{Output: out, JSONFormat: true})
	})
	id := n.ensure()
	// As the link hands it on; the API of this test has no link before it.
	_, err := n.svc.StartExec(logging.WithCorrelation(t.Context(), "corr_9"), &nodev1.StartExecRequest{
		Spec: &nodev1.ExecSpec{ExecId: "correlated", JailId: id, Argv: []string{"true"}},
	})
	require.NoError(t, err)
	n.wait("correlated")
	n.eventually(func() bool {
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, `"exec_id":"correlated"`) && strings.Contains(line, `"correlation_id":"corr_9"`) &&
				strings.Contains(line, "a command ended") {
				return true
			}
		}
		return false
	}, "the end to be logged")
}
