package drain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/drain"
)

// lines is a log, which calls seen with each line.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	seen func(line map[string]any)
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := map[string]any{}
	if err := json.Unmarshal(p, &line); err != nil {
		return 0, err
	}
	if l.seen != nil {
		l.seen(line)
	}
	return l.text.Write(p)
}

func TestWhatRunsIsNamedUntilItEnds(t *testing.T) {
	t.Parallel()
	var calls drain.Calls
	one := calls.Enter("task_1")
	require.Equal(t, 1, calls.Len())
	done := make(chan struct{})
	said := 0
	out := &lines{seen: func(line map[string]any) {
		if line["@message"] != drain.Waiting {
			return
		}
		require.Equal(t, "task_1", line["what"])
		if said++; said == 3 { // at once, and then at each tick
			one()
			close(done)
		}
	}}
	log := hclog.New(&hclog.LoggerOptions{JSONFormat: true, Output: out})
	require.True(t, drain.Config{Timeout: time.Minute, Every: time.Millisecond, Running: calls.Running, Log: log}.Wait(done))
	require.Empty(t, calls.Running())
	require.Zero(t, calls.Len())
	require.Contains(t, out.text.String(), "everything in progress has ended")
}

func TestTheTimeToEndIsOver(t *testing.T) {
	t.Parallel()
	var calls drain.Calls
	for i := range 12 {
		calls.Enter(fmt.Sprintf("task_%02d", i))
	}
	out := &lines{}
	log := hclog.New(&hclog.LoggerOptions{JSONFormat: true, Output: out})
	never := make(chan struct{})
	require.False(t, drain.Config{Timeout: 10 * time.Millisecond, Running: calls.Running, Log: log}.Wait(never))
	require.Contains(t, out.text.String(), "the drain timeout is reached")
	require.Contains(t, out.text.String(), "task_09, and 2 more")
	require.False(t, drain.Config{Running: calls.Running, Log: log}.Wait(never))
	require.Error(t, drain.Check(-time.Second))
	require.Error(t, drain.Check(2*time.Hour))
	require.NoError(t, drain.Check(0))
}
