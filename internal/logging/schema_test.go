package logging_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/logging"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	before := time.Now().Truncate(time.Microsecond)
	log, err := logging.New("up", logging.Config{Level: "debug", Format: "json"}, &out, &redact.Redactor{})
	require.NoError(t, err)
	log.Named("hub").Named("api").Warn("call failed", logging.TaskID, "task_1", logging.Attempt, 2)
	line, err := logging.Parse(out.Bytes())
	require.NoError(t, err)
	require.Equal(t, "up.hub.api", line.Component)
	require.Equal(t, "hub", line.Role())
	require.Equal(t, hclog.Warn, line.Level)
	require.Equal(t, "call failed", line.Message)
	require.Equal(t, "task_1", line.Text(logging.TaskID))
	require.Equal(t, "2", line.Text(logging.Attempt))
	require.Empty(t, line.Text(logging.StepID))
	require.WithinRange(t, line.At, before, time.Now())
	for text, role := range map[string]string{"up": "up", "up.systemd": "up", "worker": "worker", "deckhand-node.link": "node"} {
		require.Equal(t, role, logging.Line{Component: text}.Role(), text)
	}
	for _, text := range []string{"", "panic: x", "{}", `{"@level":"info"}`, `{"@timestamp":"2026-01-01T00:00:00Z","@level":"loud"}`} {
		_, err := logging.Parse([]byte(text))
		require.Error(t, err, text)
	}
}

func TestTheDocumentationHasEveryKey(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	for _, f := range logging.Fields() {
		require.Contains(t, string(page), fmt.Sprintf("| `%s` | %s |\n", f.Key, f.What))
	}
}
