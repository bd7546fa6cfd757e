// Package open is the command "deckhand open": it prints a link to the console,
// with a login.
package open

import (
	"cmp"
	"net"
	"net/url"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/greeting"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/remote"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// options are the flags of open.
type options struct {
	qr bool
}

// Command returns the command "deckhand open".
func Command(e *env.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "open", Short: "Show a link that opens the console, logged in",
		Long: `Show a link that opens the console, logged in as you and with the rights of your
token. It works once, within two minutes. The code in it is after the #, which
browsers do not send, so that no server writes it into its log.

Over SSH the hub may be reachable from this machine only. The command then also
shows how to forward its port to the machine that you sit at.`,
		Example: `deckhand open
# for a phone
deckhand open --qr
xdg-open "$(deckhand open -o name)"`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Sessions.CreateLoginCode(cmd.Context(), &deckhandv1.CreateLoginCodeRequest{})
			if err != nil {
				return err
			}
			address := greeting.LoginLink(cmp.Or(res.GetPublicUrl(), client.URL()), res.GetCode())
			link, err := structpb.NewStruct(map[string]any{
				"url":        address,
				"expires_at": output.Moment(res.GetExpiresAt()),
			})
			if err != nil {
				return err
			}
			if err := output.One(e.Printer(), noun, link); err != nil {
				return err
			}
			if e.Format.ForPeople() {
				explain(e, client.URL(), address, o.qr)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.qr, "qr", false, "also show the link as a QR code, for a phone")
	return cmd
}

// explain says how the link is opened from elsewhere.
func explain(e *env.Env, hubURL, link string, qr bool) {
	if qr {
		qrterminal.GenerateHalfBlock(link, qrterminal.M, e.Err)
	}
	if !local(hubURL) {
		return
	}
	if forward := greeting.Forward(hubURL, remote.Target()); forward != "" {
		e.Notef("The hub listens on this machine only. On the machine that you sit at, run this, and open the link there:\n  %s", forward)
	} else if qr {
		e.Notef("The hub listens on this machine only: a phone reaches it at an address of the network, with HTTPS. See \"Phone\" in docs/console.md.")
	}
}

// local reports whether a hub is reached from its own machine only.
func local(hubURL string) bool {
	u, err := url.Parse(hubURL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

var noun = output.Noun[*structpb.Struct]{
	Name: func(s *structpb.Struct) string { return s.GetFields()["url"].GetStringValue() },
	Columns: []output.Column[*structpb.Struct]{
		{Header: "link", Value: func(s *structpb.Struct) string { return s.GetFields()["url"].GetStringValue() }},
		{Header: "until", Value: func(s *structpb.Struct) string { return s.GetFields()["expires_at"].GetStringValue() }},
	},
}
