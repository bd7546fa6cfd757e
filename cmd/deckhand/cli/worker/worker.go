// Package worker is the command "deckhand workers": it lists and drains
// workers.
package worker

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand workers".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("workers", "List and drain workers", `
A worker runs agents' loops; deckhand worker starts one. One that is drained
takes no new tasks; those it has go on.
`, `
deckhand workers list
deckhand workers drain worker_3q9 --reason "new kernel"
`)
	cmd.AddCommand(listCommand(e), drainCommand(e), undrainCommand(e))
	return cmd
}

func noun(e *env.Env) output.Noun[*deckhandv1.Worker] {
	return output.Noun[*deckhandv1.Worker]{
		Name: (*deckhandv1.Worker).GetId,
		Columns: []output.Column[*deckhandv1.Worker]{
			{Header: "id", Value: (*deckhandv1.Worker).GetId},
			{Header: "name", Value: (*deckhandv1.Worker).GetName},
			{Header: "pool", Value: (*deckhandv1.Worker).GetPool},
			{Header: "tasks", Value: func(x *deckhandv1.Worker) string { return fmt.Sprintf("%d of %d", x.GetActive(), x.GetSlots()) }},
			{Header: "work", Value: work, Max: 60},
			{Header: "seen", Value: func(x *deckhandv1.Worker) string { return e.Age(x.GetLastSeenAt()) }},
			{Header: "version", Value: (*deckhandv1.Worker).GetVersion, Wide: true},
			{Header: "registered", Value: func(x *deckhandv1.Worker) string { return output.Moment(x.GetRegisteredAt()) }, Wide: true},
		},
	}
}

// work reports whether a worker takes tasks, and why it does not.
func work(x *deckhandv1.Worker) string {
	switch {
	case x.GetDrain() != nil:
		return output.WithReason("drained by "+x.GetDrain().GetBy(), x.GetDrain().GetReason())
	case x.GetPressure() != "":
		return output.WithReason("takes nothing new", x.GetPressure())
	}
	return "takes tasks"
}
