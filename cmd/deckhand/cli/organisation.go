package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) organisationCommand() *cobra.Command {
	cmd := group("organisation", "Keep organisations, as the hub's operator", `
An organisation has its own users, agents, nodes, workers, keys, budgets and
record, and sees nothing of another one's. The administrators of the first one,
which is called default, are the operators of the hub: they make others, and see
how many users, tasks and nodes these have, and no more.
`, `
deckhand organisation create research
deckhand organisation limit research --memory 8GiB --undo-window 72h
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
			all, err := sdk.All(cmd.Context(), client.Organisations.ListOrganisations, func(token string) *deckhandv1.ListOrganisationsRequest {
				return &deckhandv1.ListOrganisationsRequest{PageToken: token}
			}, (*deckhandv1.ListOrganisationsResponse).GetOrganisations)
			if err != nil {
				return err
			}
			return output.List(a.printer(), a.organisationNoun(), all)
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
	cmd.AddCommand(create, list, a.organisationLimitCommand())
	return cmd
}

func (a *app) organisationLimitCommand() *cobra.Command {
	var cpus float64
	var memory, workspace string
	var pids int64
	var window time.Duration
	cmd := &cobra.Command{
		Use: "limit NAME", Short: "Say what an organisation's jails may have, and how long its tasks can be undone",
		Long: `Each flag changes one limit, and those that are not given stay. 0 ends a limit: then
the nodes' own ceilings hold alone, and the hub's --undo-window. A version of an
agent that asks for more is refused, and so is the start of a task whose agent
asked for it before.`,
		Example: "deckhand organisation limit research --cpus 4 --memory 8GiB --pids 1024 --workspace 50GiB\ndeckhand organisation limit research --undo-window 72h",
		Args:    takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			limits := &deckhandv1.OrganisationLimits{}
			changed := cmd.Flags().Changed
			if changed("cpus") {
				limits.JailCpuMillis = proto.Int64(int64(math.Round(cpus * 1000))) //nolint:mnd // thousandths
			}
			if changed("pids") {
				limits.JailPids = &pids
			}
			if changed("undo-window") {
				limits.UndoWindow = durationpb.New(window)
			}
			for flag, to := range map[string]struct {
				text string
				set  **int64
			}{"memory": {memory, &limits.JailMemoryBytes}, "workspace": {workspace, &limits.JailWorkspaceBytes}} {
				if !changed(flag) {
					continue
				}
				bytes, ok := bytesize.Parse(to.text)
				if !ok && to.text != "0" || bytes < 0 {
					return usage(cmd, "--%s is %q, give a size with its unit, such as 512MiB or 4GiB, or 0 for no limit", flag, to.text)
				}
				*to.set = &bytes
			}
			if proto.Equal(limits, &deckhandv1.OrganisationLimits{}) {
				return usage(cmd, "nothing is given that is to change")
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Organisations.SetOrganisationLimits(cmd.Context(), connect.NewRequest(&deckhandv1.SetOrganisationLimitsRequest{Name: args[0], Limits: limits}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.organisationNoun(), res.Msg.GetOrganisation())
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&cpus, "cpus", 0, "processors of a jail, for example 1.5")
	flags.StringVar(&memory, "memory", "", "memory of a jail, for example 8GiB")
	flags.Int64Var(&pids, "pids", 0, "processes and threads of a jail")
	flags.StringVar(&workspace, "workspace", "", "size of a workspace, for example 50GiB")
	flags.DurationVar(&window, "undo-window", 0, "how long after its end what a task changed can be taken back")
	return cmd
}

// limitsText says what of an organisation's limits is set.
func limitsText(l *deckhandv1.OrganisationLimits) string {
	var out []string
	if n := l.GetJailCpuMillis(); n > 0 {
		out = append(out, fmt.Sprintf("%g cpus", float64(n)/1000)) //nolint:mnd // thousandths
	}
	if n := l.GetJailMemoryBytes(); n > 0 {
		out = append(out, bytesize.Format(n)+" memory")
	}
	if n := l.GetJailPids(); n > 0 {
		out = append(out, fmt.Sprintf("%d pids", n))
	}
	if n := l.GetJailWorkspaceBytes(); n > 0 {
		out = append(out, bytesize.Format(n)+" workspace")
	}
	if l.GetUndoWindow() != nil {
		out = append(out, "undo for "+l.GetUndoWindow().AsDuration().String())
	}
	return strings.Join(out, ", ")
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
			{Header: "limits", Value: func(x *deckhandv1.Organisation) string { return limitsText(x.GetLimits()) }, Max: 80},
			{Header: "age", Value: func(x *deckhandv1.Organisation) string { return a.age(x.GetCreatedAt()) }},
			{Header: "id", Value: (*deckhandv1.Organisation).GetId, Wide: true},
		},
	}
}
