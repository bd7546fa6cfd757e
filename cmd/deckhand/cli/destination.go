package cli

import (
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) destinationCommand() *cobra.Command {
	cmd := group("destination", "Manage notification destinations", `
A destination is told of what happens: by a webhook, in Slack, by mail, or on
NATS. Each thing that is sent to one is a notice, which is sent again for a day
until it is taken, and is kept with how that went.
`, `
deckhand destination create chat --slack --secret-file slack-url
deckhand destination create hooks --webhook https://hooks.example.com/deckhand --events lifecycle
deckhand destination test chat
deckhand destination notices chat --state dead
`)
	cmd.AddCommand(
		a.destinationCreateCommand(), a.destinationUpdateCommand(), a.destinationListCommand(), a.destinationShowCommand(), a.destinationTestCommand(),
		a.destinationEnableCommand(), a.destinationDisableCommand(), a.destinationRotateCommand(), a.destinationDeleteCommand(),
		a.destinationNoticesCommand(), a.destinationNoticeCommand(), a.destinationRedriveCommand(),
	)
	return cmd
}

// destinationFlags say what is sent, and where.
type destinationFlags struct {
	events, agents, email                      []string
	webhook, server, security, user, from, key string
	port                                       int32
	slack, nats                                bool
}

func (f *destinationFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.events, "events", nil, "what is told: groups, types, or beginnings such as agent.*")
	flags.StringSliceVar(&f.agents, "agent", nil, "only of these agents")
	flags.StringVar(&f.webhook, "webhook", "", "send signed CloudEvents to this URL")
	flags.BoolVar(&f.slack, "slack", false, "send texts to an incoming webhook of Slack, whose URL is in --secret-file")
	flags.StringSliceVar(&f.email, "email", nil, "send mail to these addresses; with --smtp-host and --from")
	flags.BoolVar(&f.nats, "nats", false, "send CloudEvents on NATS")
	flags.StringVar(&f.server, "smtp-host", "", "the server that takes mail")
	flags.Int32Var(&f.port, "smtp-port", 0, "its port; 587, or 465 with tls, by default")
	flags.StringVar(&f.security, "smtp-security", "", "starttls (the default), tls or none")
	flags.StringVar(&f.user, "smtp-user", "", "the user at that server, whose password is in --secret-file")
	flags.StringVar(&f.from, "from", "", "the address that mail is from")
	flags.StringVar(&f.key, "secret-file", "", "file that holds the secret; - for standard input")
}

// apply changes what the flags name.
func (f *destinationFlags) apply(cmd *cobra.Command, spec *deckhandv1.DestinationSpec) error {
	changed := cmd.Flags().Changed
	if changed("events") {
		spec.Events = f.events
	}
	if changed("agent") {
		spec.Agents = f.agents
	}
	kinds := 0
	for _, is := range []bool{changed("webhook"), f.slack, changed("email"), f.nats} {
		if is {
			kinds++
		}
	}
	if kinds > 1 {
		return usage(cmd, "give one of --webhook URL, --slack, --email ADDRESS and --nats")
	}
	switch {
	case changed("webhook"):
		spec.To = &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: f.webhook}}
	case f.slack:
		spec.To = &deckhandv1.DestinationSpec_Slack{Slack: &deckhandv1.SlackDestination{}}
	case f.nats:
		spec.To = &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}}
	case changed("email") && spec.GetEmail() == nil:
		spec.To = &deckhandv1.DestinationSpec_Email{Email: &deckhandv1.EmailDestination{}}
	}
	m := spec.GetEmail()
	for name, set := range map[string]func(){
		"email":     func() { m.To = f.email },
		"smtp-host": func() { m.Host = f.server }, "smtp-port": func() { m.Port = f.port }, "smtp-security": func() { m.Security = f.security },
		"smtp-user": func() { m.Username = f.user }, "from": func() { m.From = f.from },
	} {
		if !changed(name) {
			continue
		}
		if m == nil {
			return usage(cmd, "--%s goes with --email ADDRESS", name)
		}
		set()
	}
	return nil
}

const destinationEvents = `--events takes groups (approvals, questions, failures, budgets, escalations,
security, lifecycle, stream), event types (see docs/events.md), or prefixes of types
that end in *. The default is everything that needs a person: the first six groups.
On NATS the default is all events.`

func (a *app) destinationCreateCommand() *cobra.Command {
	request := &deckhandv1.CreateDestinationRequest{Spec: &deckhandv1.DestinationSpec{}}
	flags := &destinationFlags{}
	cmd := &cobra.Command{
		Use: "create NAME (--webhook URL | --slack | --email ADDRESS | --nats)", Short: "Create a destination",
		Long: destinationEvents + "\n\nThe secret that a webhook's messages are signed with is shown this once.",
		Example: `deckhand destination create hooks --webhook https://hooks.example.com/deckhand --events lifecycle
deckhand destination create chat --slack --secret-file slack-url --agent log-triage
deckhand destination create mail --email ops@example.com --smtp-host smtp.example.com --smtp-user deckhand --secret-file password --from deckhand@example.com
deckhand destination create bus --nats --events "agent.*,task.*"`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			if err := flags.apply(cmd, request.GetSpec()); err != nil {
				return err
			}
			if request.GetSpec().GetTo() == nil {
				return usage(cmd, "give one of --webhook URL, --slack, --email ADDRESS and --nats")
			}
			var err error
			if request.Secret, err = a.readKey(flags.key); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.CreateDestination(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			if secret := res.Msg.GetSecret(); secret != "" {
				a.notef("give the receiver this secret; it is not shown again:\n%s", secret)
			}
			return output.Brief(a.printer(), a.destinationNoun(), res.Msg.GetDestination())
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&request.Disabled, "disabled", false, "make it without anything being sent")
	return cmd
}

func (a *app) destinationUpdateCommand() *cobra.Command {
	request := &deckhandv1.UpdateDestinationRequest{}
	flags := &destinationFlags{}
	cmd := &cobra.Command{
		Use: "update DESTINATION", Short: "Change what is sent to a destination",
		Long:    "Changes what the flags name; the rest stays as it is, and so does its kind.\n\n" + destinationEvents,
		Example: `deckhand destination update chat --events failures,escalations`,
		Args:    takes("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			is, err := client.Destinations.GetDestination(cmd.Context(), connect.NewRequest(&deckhandv1.GetDestinationRequest{DestinationId: args[0]}))
			if err != nil {
				return err
			}
			request.DestinationId, request.Spec = is.Msg.GetDestination().GetId(), is.Msg.GetDestination().GetSpec()
			if err := flags.apply(cmd, request.GetSpec()); err != nil {
				return err
			}
			if request.Secret, err = a.readKey(flags.key); err != nil {
				return err
			}
			res, err := client.Destinations.UpdateDestination(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.destinationNoun(), res.Msg.GetDestination())
		},
	}
	flags.register(cmd)
	return cmd
}

func (a *app) destinationListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List destinations", Example: "deckhand destination list -o wide", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			destinations, err := sdk.All(cmd.Context(), client.Destinations.ListDestinations, func(token string) *deckhandv1.ListDestinationsRequest {
				return &deckhandv1.ListDestinationsRequest{PageToken: token}
			}, (*deckhandv1.ListDestinationsResponse).GetDestinations)
			if err != nil {
				return err
			}
			if len(destinations) == 0 {
				a.notef("No destinations yet. Create one: deckhand destination create NAME --webhook URL")
			}
			return output.List(a.printer(), a.destinationNoun(), destinations)
		},
	}
}

func (a *app) destinationShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show DESTINATION", Short: "Show a destination", Example: "deckhand destination show chat", Args: takes("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.GetDestination(cmd.Context(), connect.NewRequest(&deckhandv1.GetDestinationRequest{DestinationId: args[0]}))
			if err != nil {
				return err
			}
			return output.One(a.printer(), a.destinationNoun(), res.Msg.GetDestination())
		},
	}
}

func (a *app) destinationTestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test DESTINATION", Short: "Send a notice at once, and say how that went",
		Long: "Exit code 1 when it was not taken.", Example: "deckhand destination test chat", Args: takes("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.TestDestination(cmd.Context(), connect.NewRequest(&deckhandv1.TestDestinationRequest{DestinationId: args[0]}))
			if err != nil {
				return err
			}
			if err := output.Brief(a.printer(), a.noticeNoun(), res.Msg.GetNotice()); err != nil {
				return err
			}
			if n := res.Msg.GetNotice(); n.GetState() != deckhandv1.NoticeState_NOTICE_STATE_DELIVERED {
				a.notef("it was not taken: %s", n.GetError())
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
}

func (a *app) destinationEnableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "enable DESTINATION", Short: "Have a destination told again",
		Long:    "It is told of what happens from now on, and gets what was pending.",
		Example: "deckhand destination enable chat", Args: takes("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.EnableDestination(cmd.Context(), connect.NewRequest(&deckhandv1.EnableDestinationRequest{DestinationId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.destinationNoun(), res.Msg.GetDestination())
		},
	}
}

func (a *app) destinationDisableCommand() *cobra.Command {
	request := &deckhandv1.DisableDestinationRequest{}
	cmd := &cobra.Command{
		Use: "disable DESTINATION", Short: "Send nothing to a destination",
		Long:    "What is pending waits, until its time is over.",
		Example: `deckhand destination disable chat --reason "nobody is there until Monday"`, Args: takes("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.DestinationId = args[0]
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.DisableDestination(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.destinationNoun(), res.Msg.GetDestination())
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for others to read")
	return cmd
}

func (a *app) destinationRotateCommand() *cobra.Command {
	request := &deckhandv1.RotateDestinationSecretRequest{}
	cmd := &cobra.Command{
		Use: "rotate DESTINATION", Short: "Give a webhook another secret",
		Long:    "For a day, or as long as --keep says, messages are signed with the one before too.",
		Example: "deckhand destination rotate hooks --keep 1h", Args: takes("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.DestinationId = args[0]
			if cmd.Flags().Changed("keep") {
				keep, err := cmd.Flags().GetDuration("keep")
				if err != nil {
					return err
				}
				request.Keep = durationpb.New(keep)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.RotateDestinationSecret(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			a.notef("give the receiver this secret; it is not shown again:\n%s", res.Msg.GetSecret())
			return output.Brief(a.printer(), a.destinationNoun(), res.Msg.GetDestination())
		},
	}
	cmd.Flags().Duration("keep", 0, "how long the secret before counts too, such as 1h; 0s ends it at once")
	return cmd
}

func (a *app) destinationDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete DESTINATION", Short: "Delete a destination for good",
		Long:    "What is pending is not sent. Its notices are kept as long as any.",
		Example: "deckhand destination delete chat", Args: takes("DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := client.Destinations.DeleteDestination(cmd.Context(), connect.NewRequest(&deckhandv1.DeleteDestinationRequest{DestinationId: args[0]})); err != nil {
				return err
			}
			a.notef("destination %s is deleted", args[0])
			return nil
		},
	}
}

func (a *app) destinationNoticesCommand() *cobra.Command {
	request := &deckhandv1.ListNoticesRequest{}
	var states []string
	cmd := &cobra.Command{
		Use: "notices [DESTINATION]", Short: "List what was sent, and how that went", Example: `deckhand destination notices chat
deckhand destination notices --state dead -o wide`,
		Args: takes("[DESTINATION]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				request.DestinationId = args[0]
			}
			for _, state := range states {
				value, ok := deckhandv1.NoticeState_value["NOTICE_STATE_"+strings.ToUpper(state)]
				if !ok || value == 0 {
					return usage(cmd, "--state is %q, use pending, delivered or dead", state)
				}
				request.States = append(request.States, deckhandv1.NoticeState(value))
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.ListNotices(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			if res.Msg.GetNextPageToken() != "" {
				a.notef("there are older ones: --page-token %s", res.Msg.GetNextPageToken())
			}
			return output.List(a.printer(), a.noticeNoun(), res.Msg.GetNotices())
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only those that are pending, delivered or dead")
	cmd.Flags().Int32Var(&request.PageSize, "limit", 50, "at most this many")
	cmd.Flags().StringVar(&request.PageToken, "page-token", "", "go on where a list ended")
	return cmd
}

func (a *app) destinationNoticeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "notice NOTICE", Short: "Show a notice with what it says", Example: "deckhand destination notice ntc_3q9", Args: takes("NOTICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.GetNotice(cmd.Context(), connect.NewRequest(&deckhandv1.GetNoticeRequest{NoticeId: args[0]}))
			if err != nil {
				return err
			}
			return output.One(a.printer(), a.noticeNoun(), res.Msg.GetNotice())
		},
	}
}

func (a *app) destinationRedriveCommand() *cobra.Command {
	var all string
	cmd := &cobra.Command{
		Use: "redrive (NOTICE | --all DESTINATION)", Short: "Send again what was given up",
		Long: "Under the same ids, for another day.", Example: `deckhand destination redrive ntc_3q9
deckhand destination redrive --all chat`,
		Args: takes("[NOTICE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (all == "") {
				return usage(cmd, "give a NOTICE, or --all DESTINATION")
			}
			request := &deckhandv1.RedriveNoticesRequest{Which: &deckhandv1.RedriveNoticesRequest_DestinationId{DestinationId: all}}
			if all == "" {
				request.Which = &deckhandv1.RedriveNoticesRequest_NoticeId{NoticeId: args[0]}
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Destinations.RedriveNotices(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			a.notef("%d notices are sent again", res.Msg.GetRedriven())
			return nil
		},
	}
	cmd.Flags().StringVar(&all, "all", "", "all dead notices of this destination")
	return cmd
}

// How destinations and notices are shown.

func (a *app) destinationNoun() output.Noun[*deckhandv1.Destination] {
	return output.Noun[*deckhandv1.Destination]{
		Name: (*deckhandv1.Destination).GetName,
		Columns: []output.Column[*deckhandv1.Destination]{
			{Header: "name", Value: (*deckhandv1.Destination).GetName},
			{Header: "kind", Value: (*deckhandv1.Destination).GetKind},
			{Header: "to", Value: sentTo, Max: 50},
			{Header: "events", Value: func(x *deckhandv1.Destination) string {
				if events := x.GetSpec().GetEvents(); len(events) > 0 {
					return strings.Join(events, ",")
				}
				return "-"
			}, Max: 40},
			{Header: "state", Value: func(x *deckhandv1.Destination) string { return enumName(x.GetState()) }},
			{Header: "pending", Value: func(x *deckhandv1.Destination) string { return fmt.Sprint(x.GetPending()) }},
			{Header: "dead", Value: func(x *deckhandv1.Destination) string { return fmt.Sprint(x.GetDead()) }},
			{Header: "id", Value: (*deckhandv1.Destination).GetId, Wide: true},
			{Header: "agents", Value: func(x *deckhandv1.Destination) string { return strings.Join(x.GetSpec().GetAgents(), ",") }, Wide: true},
			{Header: "reason", Value: (*deckhandv1.Destination).GetReason, Wide: true},
			{Header: "by", Value: (*deckhandv1.Destination).GetCreatedBy, Wide: true},
			{Header: "since", Value: func(x *deckhandv1.Destination) string { return moment(x.GetStateSince()) }, Alone: true},
			{Header: "secret", Value: func(x *deckhandv1.Destination) string {
				if x.GetSecretEndsIn() == "" {
					return ""
				}
				return "…" + x.GetSecretEndsIn()
			}, Alone: true},
			{Header: "created", Value: func(x *deckhandv1.Destination) string { return moment(x.GetCreatedAt()) }, Alone: true},
		},
	}
}

func sentTo(x *deckhandv1.Destination) string {
	switch spec := x.GetSpec(); {
	case spec.GetWebhook() != nil:
		return spec.GetWebhook().GetUrl()
	case spec.GetEmail() != nil:
		return strings.Join(spec.GetEmail().GetTo(), ",")
	case spec.GetNats() != nil:
		return "lifecycle.>"
	}
	return "…" + x.GetSecretEndsIn()
}

func (a *app) noticeNoun() output.Noun[*deckhandv1.Notice] {
	return output.Noun[*deckhandv1.Notice]{
		Name: (*deckhandv1.Notice).GetId,
		Columns: []output.Column[*deckhandv1.Notice]{
			{Header: "id", Value: (*deckhandv1.Notice).GetId},
			{Header: "destination", Value: (*deckhandv1.Notice).GetDestinationName},
			{Header: "type", Value: (*deckhandv1.Notice).GetType},
			{Header: "state", Value: func(x *deckhandv1.Notice) string { return enumName(x.GetState()) }},
			{Header: "tries", Value: func(x *deckhandv1.Notice) string { return fmt.Sprint(x.GetAttempts()) }},
			{Header: "age", Value: func(x *deckhandv1.Notice) string { return a.age(x.GetCreatedAt()) }},
			{Header: "task", Value: (*deckhandv1.Notice).GetTaskId},
			{Header: "error", Value: (*deckhandv1.Notice).GetError, Max: 60},
			{Header: "next", Value: func(x *deckhandv1.Notice) string {
				if x.GetState() != deckhandv1.NoticeState_NOTICE_STATE_PENDING {
					return ""
				}
				return moment(x.GetNextAt())
			}, Wide: true},
			{Header: "until", Value: func(x *deckhandv1.Notice) string { return moment(x.GetExpiresAt()) }, Wide: true},
			{Header: "handled", Value: func(x *deckhandv1.Notice) string { return moment(x.GetHandledAt()) }, Alone: true},
			{Header: "tried", Value: func(x *deckhandv1.Notice) string {
				var lines []string
				for _, t := range x.GetTries() {
					said := t.GetError()
					if said == "" {
						said = "taken"
					}
					lines = append(lines, fmt.Sprintf("%s  %d  %s  %s", moment(t.GetAt()), t.GetStatus(), t.GetTook().AsDuration(), said))
				}
				return strings.Join(lines, "\n")
			}, Block: true},
			{Header: "event", Value: func(x *deckhandv1.Notice) string {
				if len(x.GetEvent().GetFields()) == 0 {
					return ""
				}
				return protojson.MarshalOptions{Multiline: true}.Format(x.GetEvent())
			}, Block: true},
		},
	}
}
