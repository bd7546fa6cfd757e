package token

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// limitsOptions are the flags of token limits.
type limitsOptions struct {
	maxTTL      time.Duration
	loginWithin time.Duration
}

func limitsCommand(e *env.Env) *cobra.Command {
	var o limitsOptions
	cmd := &cobra.Command{
		Use: "limits", Short: "Show or change how long the organisation's tokens may be used",
		Long: `Shows the limits, or as an administrator changes those that are given. They hold
also for the tokens that there are. Tokens of workers, and those that a hub keeps
in its data folder, have no limit.`,
		Example: `deckhand token limits
deckhand token limits --max-ttl 2160h --login-within 168h`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.maxTTL < 0 || o.loginWithin < 0 {
				return env.Usage(cmd, "--max-ttl and --login-within are 0 or more")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			got, err := client.Tokens.GetTokenLimits(cmd.Context(), &deckhandv1.GetTokenLimitsRequest{})
			if err != nil {
				return err
			}
			limits := got.GetLimits()
			changes := false
			for flag, value := range map[string]**durationpb.Duration{"max-ttl": &limits.MaxTtl, "login-within": &limits.LoginWithin} {
				if !cmd.Flags().Changed(flag) {
					continue
				}
				changes = true
				if *value = nil; o.maxTTL > 0 && flag == "max-ttl" {
					*value = durationpb.New(o.maxTTL)
				} else if o.loginWithin > 0 && flag == "login-within" {
					*value = durationpb.New(o.loginWithin)
				}
			}
			if changes {
				res, err := client.Tokens.SetTokenLimits(cmd.Context(), &deckhandv1.SetTokenLimitsRequest{Limits: limits})
				if err != nil {
					return err
				}
				limits = res.GetLimits()
			}
			return output.One(e.Printer(), limitsNoun(), limits)
		},
	}
	cmd.Flags().DurationVar(&o.maxTTL, "max-ttl", 0, "maximum age of users' tokens (0 = no limit)")
	cmd.Flags().DurationVar(&o.loginWithin, "login-within", 0, "how often people of the identity provider have to log in there; 0 for 720h")
	return cmd
}

func limitsNoun() output.Noun[*deckhandv1.TokenLimits] {
	type limits = *deckhandv1.TokenLimits
	return output.Noun[limits]{
		Name: func(limits) string { return "limits" },
		Columns: []output.Column[limits]{
			{Header: "max ttl", Value: func(x limits) string {
				if x.GetMaxTtl() == nil {
					return "none"
				}
				return x.GetMaxTtl().AsDuration().String()
			}},
			{Header: "login within", Value: func(x limits) string { return x.GetLoginWithin().AsDuration().String() }},
		},
	}
}
