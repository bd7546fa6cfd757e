// Package open is the command "deckhand open": it prints a link to the console,
// with a login.
package open

import (
	"cmp"
	"net/url"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand open".
func Command(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "open", Short: "Show a link that opens the console, logged in",
		Long: `Show a link that opens the console, logged in as you and with the rights of your
token. It works once, within two minutes. The code in it is after the #, which
browsers do not send, so that no server writes it into its log.`,
		Example: `deckhand open
xdg-open "$(deckhand open -o name)"`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Sessions.CreateLoginCode(cmd.Context(), connect.NewRequest(&deckhandv1.CreateLoginCodeRequest{}))
			if err != nil {
				return err
			}
			link, err := structpb.NewStruct(map[string]any{
				"url":        cmp.Or(res.Msg.GetPublicUrl(), client.URL()) + "/login#code=" + url.QueryEscape(res.Msg.GetCode()),
				"expires_at": output.Moment(res.Msg.GetExpiresAt()),
			})
			if err != nil {
				return err
			}
			return output.One(e.Printer(), noun, link)
		},
	}
}

var noun = output.Noun[*structpb.Struct]{
	Name: func(s *structpb.Struct) string { return s.GetFields()["url"].GetStringValue() },
	Columns: []output.Column[*structpb.Struct]{
		{Header: "link", Value: func(s *structpb.Struct) string { return s.GetFields()["url"].GetStringValue() }},
		{Header: "until", Value: func(s *structpb.Struct) string { return s.GetFields()["expires_at"].GetStringValue() }},
	},
}
