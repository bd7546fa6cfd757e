package cli

import (
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// defaultTokenTTL has a token that nobody thinks of any more end by itself.
const defaultTokenTTL = 90 * 24 * time.Hour

func (a *app) tokenCommand() *cobra.Command {
	cmd := group("token", "Keep API tokens", `
A token lets a program call the hub as its user, with all of the user's rights or
fewer: a lower role, reading only, some services only. A worker's token does a
worker's part and nothing else. Nodes join with tokens of "deckhand node token".
`, `
deckhand token create ci --role basic --service TaskService --service EventService
deckhand token list
deckhand token revoke token_3q9
`)
	list := &cobra.Command{
		Use: "list", Short: "List tokens that are not revoked, newest first", Example: "deckhand token list --all -o wide", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := cmd.Flags().GetBool("all")
			if err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			var tokens []*deckhandv1.Token
			if err := sdk.Pages(func(token string) (string, error) {
				res, err := client.Tokens.ListTokens(cmd.Context(), connect.NewRequest(&deckhandv1.ListTokensRequest{All: all, PageToken: token}))
				if err != nil {
					return "", err
				}
				tokens = append(tokens, res.Msg.GetTokens()...)
				return res.Msg.GetNextPageToken(), nil
			}); err != nil {
				return err
			}
			return output.List(a.printer(), a.tokenNoun(), tokens)
		},
	}
	list.Flags().Bool("all", false, "everybody's, as an administrator")
	revoke := &cobra.Command{
		Use: "revoke TOKEN...", Short: "End tokens", Long: "Ends them within two seconds, and the sessions that were made with them. Tokens\nare named by their ids, see deckhand token list.",
		Example: "deckhand token revoke token_3q9", Args: takes("TOKEN..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			for _, id := range args {
				if _, err := client.Tokens.RevokeToken(cmd.Context(), connect.NewRequest(&deckhandv1.RevokeTokenRequest{TokenId: id})); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.AddCommand(a.tokenCreateCommand(), list, revoke, a.tokenLimitsCommand())
	return cmd
}

func (a *app) tokenCreateCommand() *cobra.Command {
	request := &deckhandv1.CreateTokenRequest{}
	var ttl time.Duration
	var worker bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a token", Long: "Make a token. It is printed this once; the hub keeps its hash.",
		Example: `deckhand token create ci --role basic --service TaskService --service EventService
deckhand token create dashboard --read-only --ttl 720h
deckhand token create alice-laptop --user alice
deckhand token create rack-2 --worker --pool dmz --ttl 0`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			if worker {
				request.Kind = deckhandv1.TokenKind_TOKEN_KIND_WORKER
			}
			if ttl < 0 {
				return usage(cmd, "--ttl is %s, give 0 for ever or a positive time", ttl)
			}
			if ttl > 0 {
				request.Ttl = durationpb.New(ttl)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Tokens.CreateToken(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			a.notef("this is the token; it is not shown again:\n%s", res.Msg.GetSecret())
			return output.Brief(a.printer(), a.tokenNoun(), res.Msg.GetToken())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&worker, "worker", false, "for a worker")
	flags.StringVar(&request.UserId, "user", "", "whose it is; your own by default")
	flags.StringVar(&request.Role, "role", "", "the most that it may: viewer, basic, advanced or admin")
	flags.BoolVar(&request.ReadOnly, "read-only", false, "it may only read")
	flags.StringSliceVar(&request.Services, "service", nil, "it may call these services only, such as TaskService")
	flags.StringSliceVar(&request.Pools, "pool", nil, "of a worker's: it may be of these pools only")
	flags.DurationVar(&ttl, "ttl", defaultTokenTTL, "how long it can be used; 0 for ever")
	return cmd
}

func (a *app) tokenLimitsCommand() *cobra.Command {
	var maxTTL, loginWithin time.Duration
	cmd := &cobra.Command{
		Use: "limits", Short: "Show or change how long the organisation's tokens may be used",
		Long: `Shows the limits, or as an administrator changes those that are given. They hold
also for the tokens that there are. Tokens of workers, and those that a hub keeps
in its data folder, have no limit.`,
		Example: `deckhand token limits
deckhand token limits --max-ttl 2160h --login-within 168h`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if maxTTL < 0 || loginWithin < 0 {
				return usage(cmd, "--max-ttl and --login-within are 0 or more")
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			got, err := client.Tokens.GetTokenLimits(cmd.Context(), connect.NewRequest(&deckhandv1.GetTokenLimitsRequest{}))
			if err != nil {
				return err
			}
			limits := got.Msg.GetLimits()
			changes := false
			for flag, value := range map[string]**durationpb.Duration{"max-ttl": &limits.MaxTtl, "login-within": &limits.LoginWithin} {
				if !cmd.Flags().Changed(flag) {
					continue
				}
				changes = true
				if *value = nil; maxTTL > 0 && flag == "max-ttl" {
					*value = durationpb.New(maxTTL)
				} else if loginWithin > 0 && flag == "login-within" {
					*value = durationpb.New(loginWithin)
				}
			}
			if changes {
				res, err := client.Tokens.SetTokenLimits(cmd.Context(), connect.NewRequest(&deckhandv1.SetTokenLimitsRequest{Limits: limits}))
				if err != nil {
					return err
				}
				limits = res.Msg.GetLimits()
			}
			return output.One(a.printer(), a.limitsNoun(), limits)
		},
	}
	cmd.Flags().DurationVar(&maxTTL, "max-ttl", 0, "the age at which people's tokens end; 0 for none")
	cmd.Flags().DurationVar(&loginWithin, "login-within", 0, "how often people of the identity provider have to log in there; 0 for 720h")
	return cmd
}

func (a *app) limitsNoun() output.Noun[*deckhandv1.TokenLimits] {
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

func (a *app) tokenNoun() output.Noun[*deckhandv1.Token] {
	return output.Noun[*deckhandv1.Token]{
		Name: (*deckhandv1.Token).GetId,
		Columns: []output.Column[*deckhandv1.Token]{
			{Header: "id", Value: (*deckhandv1.Token).GetId},
			{Header: "name", Value: (*deckhandv1.Token).GetName, Max: 60},
			{Header: "kind", Value: func(x *deckhandv1.Token) string { return enumName(x.GetKind()) }},
			{Header: "user", Value: (*deckhandv1.Token).GetUserName},
			{Header: "may", Value: func(x *deckhandv1.Token) string {
				may := x.GetServices()
				if x.GetReadOnly() {
					may = append([]string{"read"}, may...)
				}
				if x.GetRole() != "" {
					may = append([]string{x.GetRole()}, may...)
				}
				for _, pool := range x.GetPools() {
					may = append(may, "pool "+pool)
				}
				return strings.Join(may, ", ")
			}, Max: 60},
			{Header: "until", Value: func(x *deckhandv1.Token) string { return moment(x.GetExpiresAt()) }},
			{Header: "used", Value: func(x *deckhandv1.Token) string { return moment(x.GetUsedAt()) }, Wide: true},
			{Header: "by", Value: (*deckhandv1.Token).GetCreatedBy, Wide: true},
			{Header: "age", Value: func(x *deckhandv1.Token) string { return a.age(x.GetCreatedAt()) }, Wide: true},
		},
	}
}
