package provider

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// usageOptions are the flags of provider usage.
type usageOptions struct {
	since string
}

func usageCommand(e *env.Env) *cobra.Command {
	var o usageOptions
	cmd := &cobra.Command{
		Use: "usage [PROVIDER]", Short: "Show the usage and cost of models, this month or since a day",
		Example: `deckhand provider usage
deckhand provider usage anthropic --since 2026-01-01`,
		Args: env.Args("[PROVIDER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.GetProviderUsageRequest{}
			if len(args) > 0 {
				request.Name = args[0]
			}
			if o.since != "" {
				at, err := time.Parse(time.DateOnly, o.since)
				if err != nil {
					return env.Usage(cmd, "--since is %q, give a day such as 2026-01-31", o.since)
				}
				request.Since = timestamppb.New(at)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Providers.GetProviderUsage(cmd.Context(), request)
			if err != nil {
				return err
			}
			if len(res.GetModels()) == 0 {
				e.Notef("no model was called since %s", output.Moment(res.GetSince()))
			}
			return output.List(e.Printer(), modelUsageNoun(), res.GetModels())
		},
	}
	cmd.Flags().StringVar(&o.since, "since", "", "from this day on, in UTC, such as 2026-01-31")
	return cmd
}

func modelUsageNoun() output.Noun[*deckhandv1.ModelUsage] {
	name := func(x *deckhandv1.ModelUsage) string { return x.GetProvider() + "/" + x.GetModel() }
	figure := func(header string, of func(*deckhandv1.ModelUsage) int64) output.Column[*deckhandv1.ModelUsage] {
		return output.Column[*deckhandv1.ModelUsage]{Header: header, Value: func(x *deckhandv1.ModelUsage) string { return fmt.Sprint(of(x)) }}
	}
	return output.Noun[*deckhandv1.ModelUsage]{
		Name: name,
		Columns: []output.Column[*deckhandv1.ModelUsage]{
			{Header: "model", Value: name},
			figure("calls", (*deckhandv1.ModelUsage).GetCalls),
			figure("estimated", (*deckhandv1.ModelUsage).GetEstimated),
			figure("input", func(x *deckhandv1.ModelUsage) int64 { return x.GetUsage().GetInputTokens() }),
			figure("output", func(x *deckhandv1.ModelUsage) int64 { return x.GetUsage().GetOutputTokens() }),
			figure("cache read", func(x *deckhandv1.ModelUsage) int64 { return x.GetUsage().GetCacheReadTokens() }),
			figure("cache write", func(x *deckhandv1.ModelUsage) int64 { return x.GetUsage().GetCacheWriteTokens() }),
			{Header: "cost", Value: func(x *deckhandv1.ModelUsage) string { return output.USD(x.GetUsage().GetCostMicros()) }},
		},
	}
}
