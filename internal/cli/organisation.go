package cli

import (
	"strconv"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (a *app) organisationCommand() *cobra.Command {
	cmd := group("organisation", "Keep organisations, as the hub's operator", `
An organisation has its own users, agents, nodes, workers, keys, budgets and
record, and sees nothing of another one's. The administrators of the first one,
which is called default, are the operators of the hub: they make others, and see
how many users, tasks and nodes these have, and no more.
`, `
deckhand organisation create research
deckhand organisation list
`)
	cmd.Aliases = []string{"org"}
	list := &cobra.Command{
		Use: "list", Short: "List organisations by name", Example: "deckhand organisation list", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Organisations.ListOrganisations(cmd.Context(), connect.NewRequest(&deckhandv1.ListOrganisationsRequest{}))
			if err != nil {
				return err
			}
			return output.List(a.printer(), a.organisationNoun(), res.Msg.GetOrganisations())
		},
	}
	request := &deckhandv1.CreateOrganisationRequest{}
	create := &cobra.Command{
		Use: "create NAME", Short: "Make an organisation, and its administrator",
		Long: `The administrator's token is printed this once. With it they make other users, and
tokens for their workers: deckhand token create NAME --worker.`,
		Example: "deckhand organisation create research\ndeckhand organisation create research --admin alice", Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Organisations.CreateOrganisation(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			a.notef("this is the administrator's token; it is not shown again:\n%s", res.Msg.GetToken())
			return output.Brief(a.printer(), a.organisationNoun(), res.Msg.GetOrganisation())
		},
	}
	create.Flags().StringVar(&request.Admin, "admin", "", "the administrator's name; admin by default")
	cmd.AddCommand(create, list)
	return cmd
}

func (a *app) organisationNoun() output.Noun[*deckhandv1.Organisation] {
	count := func(n func(*deckhandv1.Organisation) int64) func(*deckhandv1.Organisation) string {
		return func(x *deckhandv1.Organisation) string { return strconv.FormatInt(n(x), 10) }
	}
	return output.Noun[*deckhandv1.Organisation]{
		Name: (*deckhandv1.Organisation).GetName,
		Columns: []output.Column[*deckhandv1.Organisation]{
			{Header: "name", Value: (*deckhandv1.Organisation).GetName},
			{Header: "users", Value: count((*deckhandv1.Organisation).GetUsers)},
			{Header: "nodes", Value: count((*deckhandv1.Organisation).GetNodes)},
			{Header: "tasks", Value: count((*deckhandv1.Organisation).GetTasks)},
			{Header: "age", Value: func(x *deckhandv1.Organisation) string { return a.age(x.GetCreatedAt()) }},
			{Header: "id", Value: (*deckhandv1.Organisation).GetId, Wide: true},
		},
	}
}
