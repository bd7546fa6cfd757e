package provider

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func catalogueCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "catalogue", Short: "List all providers that can be connected, with this month's usage",
		Long:    "Lists model providers and search engines, connected or not: how each is connected, its documentation, and what its models cost since the beginning of the month, in UTC.",
		Example: "deckhand provider catalogue -o wide", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Providers.GetProviderCatalogue(cmd.Context(), &deckhandv1.GetProviderCatalogueRequest{})
			if err != nil {
				return err
			}
			return output.List(e.Printer(), catalogueNoun(e), res.GetProviders())
		},
	}
}

func catalogueNoun(e *env.Env) output.Noun[*deckhandv1.CatalogueProvider] {
	return output.Noun[*deckhandv1.CatalogueProvider]{
		Name: (*deckhandv1.CatalogueProvider).GetName,
		Columns: []output.Column[*deckhandv1.CatalogueProvider]{
			{Header: "name", Value: (*deckhandv1.CatalogueProvider).GetName},
			{Header: "state", Value: func(x *deckhandv1.CatalogueProvider) string {
				switch {
				case x.GetConnected() == nil:
					return "not connected"
				case x.GetConnected().GetRefusedAt() != nil:
					return "key refused"
				}
				return "connected"
			}},
			{Header: "connect with", Value: func(x *deckhandv1.CatalogueProvider) string {
				switch {
				case x.GetLogin():
					return "key or login"
				case x.GetKeyOptional():
					return "key, or none"
				}
				return "key"
			}},
			{Header: "calls", Value: func(x *deckhandv1.CatalogueProvider) string { return fmt.Sprint(x.GetCalls()) }},
			{Header: "cost", Value: func(x *deckhandv1.CatalogueProvider) string { return output.USD(x.GetUsage().GetCostMicros()) }},
			{Header: "used", Value: func(x *deckhandv1.CatalogueProvider) string { return e.Age(x.GetConnected().GetLastUsedAt()) }},
			{Header: "documentation", Value: (*deckhandv1.CatalogueProvider).GetDocsUrl},
			{Header: "address", Value: (*deckhandv1.CatalogueProvider).GetBaseUrl, Wide: true},
			{Header: "keys", Value: (*deckhandv1.CatalogueProvider).GetKeysUrl, Wide: true},
		},
	}
}
