package quota

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func historyCommand(e *env.Env) *cobra.Command {
	request, users := &deckhandv1.GetQuotaHistoryRequest{}, false
	cmd := &cobra.Command{
		Use: "history", Short: "Show what was used in this billing period and in those before it",
		Long: `Shows runs, iterations, tokens and tool calls of the organisation, or with --user of one
user, by billing period. A run counts when it begins, everything else when the run has ended.
With --by-user it shows what each user used in the current period. Users who are not
administrators can ask about the organisation and about themselves.`,
		Example: `deckhand quota history
deckhand quota history --user bob --periods 3
deckhand quota history --by-user`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n := request.GetPeriods(); n < 1 || n > 24 {
				return env.Usage(cmd, "--periods is %d, give 1 to 24", n)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Plans.GetQuotaHistory(cmd.Context(), request)
			if err != nil {
				return err
			}
			if users {
				return output.List(e.Printer(), pastNoun("user", (*deckhandv1.QuotaPeriod).GetUserName), res.GetUsers())
			}
			return output.List(e.Printer(), pastNoun("period", (*deckhandv1.QuotaPeriod).GetPeriod), res.GetPeriods())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.UserName, "user", "", "what this user has used; the organisation by default")
	flags.Int32Var(&request.Periods, "periods", 12, "how many billing periods, at most 24")
	flags.BoolVar(&users, "by-user", false, "what each user used in the current period; for administrators")
	cmd.MarkFlagsMutuallyExclusive("user", "by-user")
	return cmd
}

func pastNoun(what string, name func(*deckhandv1.QuotaPeriod) string) output.Noun[*deckhandv1.QuotaPeriod] {
	number := func(header string, of func(*deckhandv1.QuotaPeriod) int64) output.Column[*deckhandv1.QuotaPeriod] {
		return output.Column[*deckhandv1.QuotaPeriod]{Header: header, Value: func(x *deckhandv1.QuotaPeriod) string { return fmt.Sprint(of(x)) }}
	}
	return output.Noun[*deckhandv1.QuotaPeriod]{
		Name: name,
		Columns: []output.Column[*deckhandv1.QuotaPeriod]{
			{Header: what, Value: name},
			number("runs", (*deckhandv1.QuotaPeriod).GetRuns), number("iterations", (*deckhandv1.QuotaPeriod).GetIterations),
			number("tokens", (*deckhandv1.QuotaPeriod).GetTokens), number("tool calls", (*deckhandv1.QuotaPeriod).GetToolCalls),
		},
	}
}
