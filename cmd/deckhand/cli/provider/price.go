package provider

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// priceOptions are the flags of provider price.
type priceOptions struct {
	request    *deckhandv1.SetPriceRequest
	cacheRead  float64
	cacheWrite float64
}

func priceCommand(e *env.Env) *cobra.Command {
	o := priceOptions{request: &deckhandv1.SetPriceRequest{}}
	cmd := &cobra.Command{
		Use: "price PROVIDER MODEL --input USD --output USD", Short: "Set the price of a model, for a million tokens",
		Long: `Goes before the price that is shipped. A model without a price is not called;
0 suits a model on a server of your own.`,
		Example: `deckhand provider price ollama qwen3:8b --input 0 --output 0
deckhand provider price openai gpt-5 --input 1.25 --output 10 --cache-read 0.125`,
		Args: env.Args("PROVIDER", "MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.Provider, o.request.Model = args[0], args[1]
			if cmd.Flags().Changed("cache-read") {
				o.request.CacheRead = &o.cacheRead
			}
			if cmd.Flags().Changed("cache-write") {
				o.request.CacheWrite = &o.cacheWrite
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			if _, err := client.Providers.SetPrice(cmd.Context(), o.request); err != nil {
				return err
			}
			e.Notef("model %s of %s costs $%g for a million tokens of input and $%g of output from its next call on", args[1], args[0], o.request.GetInput(), o.request.GetOutput())
			return nil
		},
	}
	cmd.Flags().Float64Var(&o.request.Input, "input", 0, "US dollars for a million tokens of input")
	cmd.Flags().Float64Var(&o.request.Output, "output", 0, "US dollars for a million tokens of output")
	cmd.Flags().Float64Var(&o.cacheRead, "cache-read", 0, "of input read from the provider's cache; as input if left out")
	cmd.Flags().Float64Var(&o.cacheWrite, "cache-write", 0, "of input written to the provider's cache; as input if left out")
	for _, name := range []string{"input", "output"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}
