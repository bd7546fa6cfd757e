// Package destination is the command "deckhand destination": it manages the
// destinations of notifications, and what was sent to them.
package destination

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand destination".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("destination", "Manage notification destinations", `
A destination is told of what happens: by a webhook, in Slack, by mail, or on
NATS. Each thing that is sent to one is a notification, which is sent again for a day
until it is taken, and is kept with how that went.
`, `
deckhand destination create chat --slack --secret-file slack-url
deckhand destination create hooks --webhook https://hooks.example.com/deckhand --events lifecycle
deckhand destination test chat
deckhand destination notifications chat --state dead
`)
	cmd.AddCommand(
		createCommand(e), updateCommand(e), listCommand(e), showCommand(e), testCommand(e),
		enableCommand(e), disableCommand(e), rotateCommand(e), deleteCommand(e),
		notificationsCommand(e), notificationCommand(e), redriveCommand(e),
	)
	return cmd
}

func noun() output.Noun[*deckhandv1.Destination] {
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
			{Header: "state", Value: func(x *deckhandv1.Destination) string { return output.EnumName(x.GetState()) }},
			{Header: "pending", Value: func(x *deckhandv1.Destination) string { return fmt.Sprint(x.GetPending()) }},
			{Header: "dead", Value: func(x *deckhandv1.Destination) string { return fmt.Sprint(x.GetDead()) }},
			{Header: "id", Value: (*deckhandv1.Destination).GetId, Wide: true},
			{Header: "agents", Value: func(x *deckhandv1.Destination) string { return strings.Join(x.GetSpec().GetAgents(), ",") }, Wide: true},
			{Header: "reason", Value: (*deckhandv1.Destination).GetReason, Wide: true},
			{Header: "by", Value: (*deckhandv1.Destination).GetCreatedBy, Wide: true},
			{Header: "since", Value: func(x *deckhandv1.Destination) string { return output.Moment(x.GetStateSince()) }, Alone: true},
			{Header: "secret", Value: func(x *deckhandv1.Destination) string {
				if x.GetSecretEndsIn() == "" {
					return ""
				}
				return "…" + x.GetSecretEndsIn()
			}, Alone: true},
			{Header: "created", Value: func(x *deckhandv1.Destination) string { return output.Moment(x.GetCreatedAt()) }, Alone: true},
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
