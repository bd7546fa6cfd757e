package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// asks is an answer of a model that makes one call.
func asks(tool, id, input string) anthropictest.Answer {
	return anthropictest.Answer{Blocks: []anthropictest.Block{{Tool: tool, ID: id, Input: input}}, Usage: anthropictest.Usage{Input: 1000, Output: 100}}
}

// withModel starts a fleet with a node, a worker and one agent, whose model a provider plays.
func withModel(t *testing.T, provider *anthropictest.Server, agent, tools string) *harness.Fleet {
	t.Helper()
	f := harness.NewWith(t, []string{"DECKHAND_ANTHROPIC_BASE_URL=" + provider.URL, "DECKHAND_ANTHROPIC_API_KEY=sk-ant-test"})
	f.StartNode()
	f.StartWorker()
	persona := filepath.Join(t.TempDir(), agent+".md")
	require.NoError(t, os.WriteFile(persona, fmt.Appendf(nil, `---
name: %s
description: For tests.
provider: anthropic
model: claude-sonnet-5-5
limits: {iterations: 20}
tools: [%s]
---
You work.
`, agent, tools), 0o600))
	f.CLI(0, "agent", "apply", "-f", persona)
	return f
}
