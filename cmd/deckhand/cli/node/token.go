package node

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// tokenOptions are the flags of node token.
type tokenOptions struct {
	ttl    time.Duration
	labels map[string]string
}

func tokenCommand(e *env.Env) *cobra.Command {
	var o tokenOptions
	cmd := &cobra.Command{
		Use: "token", Short: "Create a join token, which enrols one node",
		Long: `Makes a token that enrols one machine, once, and shows the command that installs
deckhand-node on the machine with it. It is shown this one time; the hub keeps
only its hash.`,
		Example: `deckhand node token
deckhand node token --ttl 10m --label zone=eu --label disk=ssd`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			request := &deckhandv1.CreateJoinTokenRequest{Labels: o.labels}
			if o.ttl != 0 {
				request.Ttl = durationpb.New(o.ttl)
			}
			res, err := client.Nodes.CreateJoinToken(cmd.Context(), request)
			if err != nil {
				return err
			}
			token := res.GetToken()
			e.Notef("valid once, until %s; on the new machine run:", output.Moment(res.GetExpiresAt()))
			e.Notef("  "+installCommand, termsafe.Line(token), client.URL())
			if !e.Format.ForPeople() {
				return output.One(e.Printer(), tokenNoun, res)
			}
			_, err = fmt.Fprintln(e.Out, termsafe.Line(token))
			return err
		},
	}
	cmd.Flags().DurationVar(&o.ttl, "ttl", 0, "how long it can be used, at most 168h; 1h by default")
	cmd.Flags().Lookup("ttl").DefValue = "" // the help says it in words
	cmd.Flags().StringToStringVar(&o.labels, "label", nil, "label that the node gets, as key=value; may be given more than once")
	return cmd
}

// installCommand makes a machine a node. The token is in the environment and not among
// sudo's arguments, which every user of the machine can read and sudo writes to its log.
const installCommand = "curl -fsSL %[2]s/install/node | DECKHAND_HUB_URL=%[2]s DECKHAND_JOIN_TOKEN=%[1]s sudo --preserve-env=DECKHAND_HUB_URL,DECKHAND_JOIN_TOKEN sh"

var tokenNoun = output.Noun[*deckhandv1.CreateJoinTokenResponse]{Name: (*deckhandv1.CreateJoinTokenResponse).GetToken}
