package quota

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func callsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "calls PROVIDER N|none", Short: "Set the rate limit of a provider, in calls a minute",
		Long: `A call that comes too early waits for its turn, and for 20 seconds at most; then
its task tries again later. A tenth of a minute's calls may come together.`,
		Example: "deckhand quota calls anthropic 60\ndeckhand quota calls anthropic none", Args: env.Args("PROVIDER", "N"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := &deckhandv1.SetCallRateRequest{Provider: args[0]}
			if args[1] != "none" {
				n, err := strconv.ParseInt(args[1], 10, 32)
				if err != nil || n < 1 {
					return env.Usage(cmd, "%q is no number of calls: give one of 1 or more, or none", args[1])
				}
				request.CallsPerMinute = int32(n)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, noun(), client.Plans.SetCallRate, request, (*deckhandv1.SetCallRateResponse).GetPlan)
		},
	}
}
