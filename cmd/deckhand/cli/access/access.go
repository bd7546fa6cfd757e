// Package access is the command "deckhand access": it sets the networks from
// which the API may be called.
package access

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand access".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("access", "Restrict the networks that API calls may come from", `
Without rules calls may come from everywhere. Calls from the hub's own machine,
by its loopback and through no proxy, are never refused.
`, `
deckhand access set admin 10.20.0.0/16
deckhand access list
`)
	cmd.AddCommand(listCommand(e), setCommand(e), deleteCommand(e))
	return cmd
}

var noun = output.Noun[*deckhandv1.AccessRule]{
	Name: (*deckhandv1.AccessRule).GetWhat,
	Columns: []output.Column[*deckhandv1.AccessRule]{
		{Header: "what", Value: (*deckhandv1.AccessRule).GetWhat},
		{Header: "networks", Value: func(x *deckhandv1.AccessRule) string { return strings.Join(x.GetNetworks(), ", ") }},
		{Header: "by", Value: (*deckhandv1.AccessRule).GetChangedBy, Wide: true},
		{Header: "changed", Value: func(x *deckhandv1.AccessRule) string { return output.Moment(x.GetChangedAt()) }, Wide: true},
	},
}
