// Package organisation is the command "deckhand organisation": it manages
// organisations and their limits, for the operator of the hub.
package organisation

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand organisation".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("organisation", "Manage organisations, as the hub's operator", `
An organisation has its own users, agents, nodes, workers, keys, budgets and
record, and sees nothing of another one's. The administrators of the first one,
which is called default, are the operators of the hub: they make others, and see
how many users, tasks and nodes these have, and no more. organisation tasks is for
the administrators of each.
`, `
deckhand organisation create research
deckhand organisation limit research --memory 8GiB --undo-window 72h
deckhand organisation list
`)
	cmd.Aliases = []string{"org"}
	cmd.AddCommand(createCommand(e), listCommand(e), limitCommand(e), tasksCommand(e))
	return cmd
}

// limitsText returns the limits of an organisation that are set.
func limitsText(l *deckhandv1.OrganisationLimits) string {
	var out []string
	if n := l.GetJailCpuMillis(); n > 0 {
		out = append(out, fmt.Sprintf("%g cpus", float64(n)/1000)) //nolint:mnd // thousandths
	}
	if n := l.GetJailMemoryBytes(); n > 0 {
		out = append(out, bytesize.Format(n)+" memory")
	}
	if n := l.GetJailPids(); n > 0 {
		out = append(out, fmt.Sprintf("%d pids", n))
	}
	if n := l.GetJailWorkspaceBytes(); n > 0 {
		out = append(out, bytesize.Format(n)+" workspace")
	}
	if l.GetUndoWindow() != nil {
		out = append(out, "undo for "+l.GetUndoWindow().AsDuration().String())
	}
	if l.GetCheckpointTtl() != nil {
		out = append(out, "checkpoints for "+l.GetCheckpointTtl().AsDuration().String())
	}
	return strings.Join(out, ", ")
}

func noun(e *env.Env) output.Noun[*deckhandv1.Organisation] {
	count := func(n func(*deckhandv1.Organisation) int64) func(*deckhandv1.Organisation) string {
		return func(x *deckhandv1.Organisation) string { return strconv.FormatInt(n(x), 10) }
	}
	return output.Noun[*deckhandv1.Organisation]{
		Name: (*deckhandv1.Organisation).GetName,
		Columns: []output.Column[*deckhandv1.Organisation]{
			{Header: "name", Value: (*deckhandv1.Organisation).GetName},
			{Header: "users", Value: count((*deckhandv1.Organisation).GetUsers)},
			{Header: "nodes", Value: count((*deckhandv1.Organisation).GetNodes)},
			{Header: "tasks", Value: count((*deckhandv1.Organisation).GetTasks)},
			{Header: "limits", Value: func(x *deckhandv1.Organisation) string { return limitsText(x.GetLimits()) }, Max: 80},
			{Header: "age", Value: func(x *deckhandv1.Organisation) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "id", Value: (*deckhandv1.Organisation).GetId, Wide: true},
		},
	}
}
