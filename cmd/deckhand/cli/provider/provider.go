// Package provider is the command "deckhand provider": it connects model
// providers and search engines, and shows what models cost.
package provider

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand provider".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("provider", "Manage model providers, search engines and prices", `
Keys are kept by the hub, sealed, and never leave it: workers ask models through
it, and so does web_search. Providers are
`+strings.Join(provider.Connectable(), ", ")+`.
`, `
deckhand provider connect anthropic --key-file key.txt
deckhand provider list
deckhand provider usage
`)
	cmd.AddCommand(connectCommand(e), listCommand(e), catalogueCommand(e), disconnectCommand(e), usageCommand(e),
		priceCommand(e))
	return cmd
}

func noun(e *env.Env) output.Noun[*deckhandv1.Provider] {
	return output.Noun[*deckhandv1.Provider]{
		Name: (*deckhandv1.Provider).GetName,
		Columns: []output.Column[*deckhandv1.Provider]{
			{Header: "name", Value: (*deckhandv1.Provider).GetName},
			{Header: "key", Value: func(x *deckhandv1.Provider) string {
				switch {
				case x.GetRefusedAt() != nil:
					return "refused since " + output.Moment(x.GetRefusedAt())
				case x.GetLogin():
					return "login, renewed"
				case x.GetKeyEndsIn() == "":
					return "-"
				}
				return "…" + x.GetKeyEndsIn()
			}},
			{Header: "connected", Value: func(x *deckhandv1.Provider) string { return e.Age(x.GetConnectedAt()) }},
			{Header: "used", Value: func(x *deckhandv1.Provider) string { return e.Age(x.GetLastUsedAt()) }},
			{Header: "expires", Value: func(x *deckhandv1.Provider) string { return output.Moment(x.GetExpiresAt()) }},
			{Header: "by", Value: (*deckhandv1.Provider).GetConnectedBy},
			{Header: "address", Value: (*deckhandv1.Provider).GetBaseUrl, Wide: true},
		},
	}
}
