package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// machineScript works on the machine itself: a command that must not run twice.
const machineScript = `turns:
  - text: I lock the node.
    calls:
      - tool: node_lock
        arguments: {node: %[1]q, reason: "count", minutes: 10}
  - text: I count and print.
    calls:
      - tool: host_exec
        arguments: {command: "echo ran >> %[2]s; for i in $(seq 1500); do echo line $i of the output; done; sleep 0.2; echo end"}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: counted}}
`

// Whichever process dies while an agent takes the lock of a node, or works on the machine under
// it, the command runs once, its output is whole, the lock is taken once, and ends with the task.
func TestTheMachineAndItsLockSurviveKills(t *testing.T) {
	t.Parallel()
	needRoot(t)
	r := newMatrixRig(t)
	nodes, err := r.client.Nodes.ListNodes(t.Context(), &deckhandv1.ListNodesRequest{})
	require.NoError(t, err)
	name := nodes.GetNodes()[0].GetName()
	for i, c := range []struct {
		victim string
		at     crashpoint.Point
	}{
		{"hub", crashpoint.BeforeOutcome},       // the lock is taken, and its step does not say so
		{"node daemon", crashpoint.AfterLedger}, // the command is recorded, and not started
		{"hub", crashpoint.AfterLedger},
	} {
		what := fmt.Sprintf("%s killed at %s", c.victim, c.at)
		counter := filepath.Join(t.TempDir(), "counter")
		agent := fmt.Sprintf("machinist-%d", i)
		all := r.points.arm(c.at, 1)
		r.retry("apply "+agent, func(ctx context.Context) error {
			_, err := r.client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{
				Filename: agent + ".md", Script: fmt.Sprintf(machineScript, name, counter), Markdown: fmt.Sprintf(`---
name: %[1]s
description: For tests.
provider: script
script: %[1]s.script.yaml
tools: [node_lock, host_exec, complete_task]
host: {nodes: [%[2]q], paths: [%[3]q]}
---
Do what the script says.
`, agent, name, filepath.Dir(counter)),
			})
			return err
		})
		id := r.submit(agent, fmt.Sprintf("%s-machine-%d", r.id, i))
		killed := false
		r.eventually(2*time.Minute, what+": the task to end", func() bool {
			r.approveAll(id)
			if !killed {
				select {
				case <-all:
					r.victim(c.victim).kill()
					require.Equal(t, []string{id}, r.points.release(), what)
					killed = true
				default:
				}
			}
			now := r.tasks([]string{id})
			require.NotContains(t, []string{"failed", "escalated", "cancelled", "timed_out"}, now[0].State, "%s: %+v", what, now[0])
			return killed && now[0].State == "succeeded"
		})
		ran, err := os.ReadFile(counter)
		require.NoError(t, err, what)
		require.Equal(t, "ran\n", string(ran), "%s: the command ran exactly once", what)
		var command step
		for _, one := range r.steps(id) {
			if one.Tool == "host_exec" {
				require.Empty(t, command.ID, "%s: it was called once", what)
				command = one
			}
		}
		require.Equal(t, digest(matrixOutput()), digest(r.output(command.ID)), what)
		locks := rows[struct {
			ID       string
			Released string
		}](r, `SELECT id, released_by FROM node_locks WHERE task_id = $1`, id)
		require.Len(t, locks, 1, "%s: the lock was taken once", what)
		require.Equal(t, "the end of its task", locks[0].Released, what)
	}
}

// approveAll approves what waits of a task; a hub that is down is asked again later.
func (r *rig) approveAll(taskID string) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	list, err := r.client.Inbox.ListInbox(ctx, &deckhandv1.ListInboxRequest{TaskId: taskID})
	if err != nil {
		return
	}
	for _, one := range list.GetItems() {
		item, err := r.client.Inbox.GetInboxItem(ctx, &deckhandv1.GetInboxItemRequest{ItemId: one.GetId()})
		if err != nil {
			return
		}
		_, _ = r.client.Inbox.AnswerInboxItem(ctx, &deckhandv1.AnswerInboxItemRequest{
			ItemId: one.GetId(), ShownDigest: item.GetItem().GetShownDigest(),
			Answer: &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: &deckhandv1.AnswerInboxItemRequest_Approve{}},
		})
	}
}
