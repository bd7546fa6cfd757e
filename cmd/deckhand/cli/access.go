package cli

import (
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) accessCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List from where calls may come", Example: "deckhand access list", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			rules, err := sdk.All(cmd.Context(), client.Access.ListAccessRules, func(token string) *deckhandv1.ListAccessRulesRequest {
				return &deckhandv1.ListAccessRulesRequest{PageToken: token}
			}, (*deckhandv1.ListAccessRulesResponse).GetRules)
			if err != nil {
				return err
			}
			if len(rules) == 0 {
				a.notef("calls may come from everywhere")
			}
			return output.List(a.printer(), accessNoun, rules)
		},
	}
	request := &deckhandv1.SetAccessRuleRequest{}
	set := &cobra.Command{
		Use: "set WHAT NETWORK...", Short: "Have calls come from some networks only",
		Long: `WHAT is "*" for every call of users, admin for those that need an administrator, a
service such as NodeExecService, or one procedure such as
NodeExecService/StartNodeExec. A call has to be within every rule that is about
it. A rule that would refuse yourself needs --force.`,
		Example: "deckhand access set admin 10.20.0.0/16 192.0.2.7", Args: takes("WHAT", "NETWORK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(cmd, "NETWORK is missing")
			}
			request.What, request.Networks = args[0], args[1:]
			client, err := a.connect()
			if err != nil {
				return err
			}
			_, err = client.Access.SetAccessRule(cmd.Context(), connect.NewRequest(request))
			return err
		},
	}
	set.Flags().BoolVar(&request.Force, "force", false, "even if it refuses yourself")
	end := &cobra.Command{
		Use: "delete WHAT", Short: "Take a rule away", Example: "deckhand access delete admin", Args: takes("WHAT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			_, err = client.Access.DeleteAccessRule(cmd.Context(), connect.NewRequest(&deckhandv1.DeleteAccessRuleRequest{What: args[0]}))
			return err
		},
	}
	cmd := group("access", "Say from which networks calls may come", `
Without rules calls may come from everywhere. Calls from the hub's own machine,
by its loopback and through no proxy, are never refused.
`, `
deckhand access set admin 10.20.0.0/16
deckhand access list
`)
	cmd.AddCommand(list, set, end)
	return cmd
}

var accessNoun = output.Noun[*deckhandv1.AccessRule]{
	Name: (*deckhandv1.AccessRule).GetWhat,
	Columns: []output.Column[*deckhandv1.AccessRule]{
		{Header: "what", Value: (*deckhandv1.AccessRule).GetWhat},
		{Header: "networks", Value: func(x *deckhandv1.AccessRule) string { return strings.Join(x.GetNetworks(), ", ") }},
		{Header: "by", Value: (*deckhandv1.AccessRule).GetChangedBy, Wide: true},
		{Header: "changed", Value: func(x *deckhandv1.AccessRule) string { return moment(x.GetChangedAt()) }, Wide: true},
	},
}
