package destination

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// notificationsOptions are the flags of destination notifications.
type notificationsOptions struct {
	request *deckhandv1.ListNotificationsRequest
	states  []string
}

func notificationsCommand(e *env.Env) *cobra.Command {
	o := notificationsOptions{request: &deckhandv1.ListNotificationsRequest{}}
	cmd := &cobra.Command{
		Use: "notifications [DESTINATION]", Short: "List notifications and their delivery status", Example: `deckhand destination notifications chat
deckhand destination notifications --state dead -o wide`,
		Args: env.Args("[DESTINATION]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.request.DestinationId = args[0]
			}
			for _, state := range o.states {
				value, ok := deckhandv1.NotificationState_value["NOTIFICATION_STATE_"+strings.ToUpper(state)]
				if !ok || value == 0 {
					return env.Usage(cmd, "--state is %q, use pending, delivered or dead", state)
				}
				o.request.States = append(o.request.States, deckhandv1.NotificationState(value))
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.ListPage(cmd, e, notificationNoun(e), client.Destinations.ListNotifications, o.request, (*deckhandv1.ListNotificationsResponse).GetNotifications)
		},
	}
	cmd.Flags().StringSliceVar(&o.states, "state", nil, "only those that are pending, delivered or dead")
	cmd.Flags().Int32Var(&o.request.PageSize, "limit", 50, "at most this many")
	cmd.Flags().StringVar(&o.request.PageToken, "page-token", "", "continue from this page token")
	return cmd
}

func notificationNoun(e *env.Env) output.Noun[*deckhandv1.Notification] {
	return output.Noun[*deckhandv1.Notification]{
		Name: (*deckhandv1.Notification).GetId,
		Columns: []output.Column[*deckhandv1.Notification]{
			{Header: "id", Value: (*deckhandv1.Notification).GetId},
			{Header: "destination", Value: (*deckhandv1.Notification).GetDestinationName},
			{Header: "type", Value: (*deckhandv1.Notification).GetType},
			{Header: "state", Value: func(x *deckhandv1.Notification) string { return output.EnumName(x.GetState()) }},
			{Header: "tries", Value: func(x *deckhandv1.Notification) string { return fmt.Sprint(x.GetAttempts()) }},
			{Header: "age", Value: func(x *deckhandv1.Notification) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "task", Value: (*deckhandv1.Notification).GetTaskId},
			{Header: "error", Value: (*deckhandv1.Notification).GetError, Max: 60},
			{Header: "next", Value: func(x *deckhandv1.Notification) string {
				if x.GetState() != deckhandv1.NotificationState_NOTIFICATION_STATE_PENDING {
					return ""
				}
				return output.Moment(x.GetNextAt())
			}, Wide: true},
			{Header: "until", Value: func(x *deckhandv1.Notification) string { return output.Moment(x.GetExpiresAt()) }, Wide: true},
			{Header: "handled", Value: func(x *deckhandv1.Notification) string { return output.Moment(x.GetHandledAt()) }, Alone: true},
			{Header: "tried", Value: func(x *deckhandv1.Notification) string {
				var lines []string
				for _, t := range x.GetTries() {
					said := t.GetError()
					if said == "" {
						said = "taken"
					}
					lines = append(lines, fmt.Sprintf("%s  %d  %s  %s", output.Moment(t.GetAt()), t.GetStatus(), t.GetTook().AsDuration(), said))
				}
				return strings.Join(lines, "\n")
			}, Block: true},
			{Header: "event", Value: func(x *deckhandv1.Notification) string {
				if len(x.GetEvent().GetFields()) == 0 {
					return ""
				}
				return protojson.MarshalOptions{Multiline: true}.Format(x.GetEvent())
			}, Block: true},
		},
	}
}
