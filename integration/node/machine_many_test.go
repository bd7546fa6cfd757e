package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// One command runs on several nodes of which some are lost. One that is lost before is refused;
// one whose daemon dies and comes back has the command's whole output and its end; one that
// does not come back is given up, and does not keep the result of the others from the agent. The
// command runs once on each. When the task is killed, the command ends everywhere, on a node that
// is away as soon as it is back.
func TestACommandOnSeveralNodesOfWhichSomeAreLost(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	first := f.NodeName()
	back, backDir := harness.AddNodeIn(f, "back")
	gone, goneDir := harness.AddNodeIn(f, "gone")
	absent, _ := harness.AddNodeIn(f, "absent")
	f.StartWorker()
	away := func(name string) {
		t.Helper()
		waittest.Until(t, time.Minute, name+" to be disconnected", func() bool {
			res, err := f.Client().Nodes.ListNodes(t.Context(), &deckhandv1.ListNodesRequest{})
			require.NoError(t, err)
			for _, node := range res.GetNodes() {
				if node.GetName() == name {
					return node.GetStatus() != "connected"
				}
			}
			return false
		})
	}
	absent.Kill()
	away("absent")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	persona := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(persona, "many.md"), fmt.Appendf(nil, `---
name: many
description: Runs commands on machines.
provider: script
script: many.script.yaml
tools: [node_exec_many, complete_task]
host: {nodes: [%q, back, gone, absent]}
---
Do what the script says.
`, first), 0o600))
	script := func(command string, timeout int) {
		require.NoError(t, os.WriteFile(filepath.Join(persona, "many.script.yaml"), fmt.Appendf(nil, `
turns:
  - text: I run it everywhere.
    calls: [{tool: node_exec_many, arguments: {nodes: [%q, back, gone, absent], command: %q, timeout_seconds: %d, at_most_at_once: 4}}]
  - text: All done.
    calls: [{tool: complete_task, arguments: {summary: "ran"}}]
`, first, command, timeout), 0o600))
		f.CLI(0, "agent", "apply", "-f", persona)
	}
	ran := func() int {
		text, err := os.ReadFile(in("ran"))
		if err != nil {
			return 0
		}
		return strings.Count(string(text), "\n")
	}
	begin := func(n int) string {
		t.Helper()
		id := f.Submit("many")
		f.CLI(0, "inbox", "approve", f.Item(id, ""))
		waittest.Until(t, time.Minute, "the command to run everywhere", func() bool { return ran() == n })
		return id
	}

	script(fmt.Sprintf("echo begun; echo ran >> %s; while [ ! -e %s ]; do sleep 0.05; done; echo ended", in("ran"), in("go")), 20)
	id := begin(3)
	back.Kill()
	gone.Kill()
	away("gone")
	require.NoError(t, os.WriteFile(in("go"), nil, 0o600))
	harness.RestartNode(f, backDir, "--name", "back")
	f.Ended(id)
	require.Equal(t, 3, ran(), "once on each")
	steps := observations(f, id)
	require.Contains(t, steps[0].GetObservation(), "2 of 4 succeeded")
	outcomes := map[string]string{}
	rows := steps[0].GetOutcome().AsMap()["nodes"].([]any) //nolint:forcetypeassert // of this tool
	for _, row := range rows {
		r := row.(map[string]any)                            //nolint:forcetypeassert // a table
		outcomes[r["node"].(string)] = r["outcome"].(string) //nolint:forcetypeassert // a table of texts
	}
	require.Equal(t, map[string]string{first: "exited", "back": "exited", "gone": "lost", "absent": "refused"}, outcomes)
	require.Equal(t, 2, strings.Count(steps[0].GetObservation(), "begun\nended"), steps[0].GetObservation())

	// The kill.
	require.NoError(t, os.Remove(in("ran")))
	gone = harness.RestartNode(f, goneDir, "--name", "gone")
	waittest.Until(t, time.Minute, "the lock of the node that was given up to end", func() bool { return !strings.Contains(f.CLI(0, "node", "locks").Out, "many") })
	script(fmt.Sprintf("echo ran >> %s; exec tail -f -s 2718 /dev/null", in("ran")), 600)
	id = begin(3)
	require.Equal(t, 3, running(t, "tail -f -s 2718 /dev/null"))
	gone.Kill()
	away("gone")
	// It is not confirmed as long as the node is away.
	harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, "kill", "task", id, "--yes")
	waittest.Until(t, time.Minute, "the command to end where the node is connected", func() bool { return running(t, "tail -f -s 2718 /dev/null") == 1 })
	harness.RestartNode(f, goneDir, "--name", "gone")
	waittest.Until(t, time.Minute, "the command to end on the node that is back", func() bool { return running(t, "tail -f -s 2718 /dev/null") == 0 })
	require.Equal(t, 3, ran())
}
