// Package hold is the command "deckhand hold": it lists and releases the holds
// that stop new work.
package hold

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/kill"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand hold".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("hold", "List and release holds", `
A hold keeps everything of an agent, trigger, node, lineage or organisation from
starting. The kill switch makes one; an administrator releases it.
`, `
deckhand hold list
deckhand hold release hold_3q9
`)
	cmd.AddCommand(listCommand(e), releaseCommand(e))
	return cmd
}

func noun() output.Noun[*deckhandv1.Hold] {
	return output.Noun[*deckhandv1.Hold]{
		Name: (*deckhandv1.Hold).GetId,
		Columns: []output.Column[*deckhandv1.Hold]{
			{Header: "id", Value: (*deckhandv1.Hold).GetId},
			{Header: "scope", Value: func(x *deckhandv1.Hold) string { return kill.ScopeName(x.GetScope()) }},
			{Header: "of", Value: (*deckhandv1.Hold).GetObjectId},
			{Header: "by", Value: (*deckhandv1.Hold).GetHeldBy},
			{Header: "since", Value: func(x *deckhandv1.Hold) string { return output.Moment(x.GetCreatedAt()) }},
			{Header: "until", Value: func(x *deckhandv1.Hold) string { return output.Moment(x.GetReleasedAt()) }},
			{Header: "reason", Value: (*deckhandv1.Hold).GetReason, Max: 60},
			{Header: "released", Value: (*deckhandv1.Hold).GetReleasedBy, Wide: true},
		},
	}
}
