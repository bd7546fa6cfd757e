package cli

import (
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) nodeCommand() *cobra.Command {
	cmd := group("node", "Add, see, use and revoke machines", `
A node is a machine that runs deckhand-node, on which agents' commands run.
People's commands run there too, in an agent's jail or, for administrators, on
the machine itself.
`, `
deckhand node token
deckhand node list
deckhand node exec web-1 --agent log-triage -- ls -l
`)
	cmd.AddCommand(
		a.nodeListCommand(), a.nodeShowCommand(), a.nodeTokenCommand(), a.nodeRevokeCommand(),
		a.nodeExecCommand(), a.nodeShellCommand(), a.nodeExecsCommand(), a.nodeKillCommand(), a.nodeUndoCommand(), a.nodeLogsCommand(), a.nodeFilesCommand(),
		a.nodeTopCommand(),
		a.nodeDrainCommand(), a.nodeUndrainCommand(), a.nodeLocksCommand(), a.nodeLockCommand(), a.nodeUnlockCommand(),
	)
	return cmd
}

func (a *app) nodeListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the nodes", Example: "deckhand node list -o wide",
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			var nodes []*deckhandv1.Node
			if err := sdk.Pages(func(token string) (string, error) {
				res, err := client.Nodes.ListNodes(cmd.Context(), connect.NewRequest(&deckhandv1.ListNodesRequest{PageToken: token}))
				if err != nil {
					return "", err
				}
				nodes = append(nodes, res.Msg.GetNodes()...)
				return res.Msg.GetNextPageToken(), nil
			}); err != nil {
				return err
			}
			if len(nodes) == 0 {
				a.notef("no nodes yet; add this machine or another: deckhand node token")
			}
			return output.List(a.printer(), a.nodeNoun(), nodes)
		},
	}
}

func (a *app) nodeShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NODE", Short: "Show a node", Example: "deckhand node show web-1",
		Args: takes("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Nodes.GetNode(cmd.Context(), connect.NewRequest(&deckhandv1.GetNodeRequest{NodeId: args[0]}))
			if err != nil {
				return err
			}
			return output.One(a.printer(), a.nodeNoun(), res.Msg.GetNode())
		},
	}
}

func (a *app) nodeTokenCommand() *cobra.Command {
	var ttl time.Duration
	var labels map[string]string
	cmd := &cobra.Command{
		Use: "token", Short: "Make a join token, which enrols one node",
		Long: `Makes a token that enrols one machine, once. It is shown this one time; the hub
keeps only its hash.`,
		Example: `deckhand node token
deckhand node token --ttl 10m --label zone=eu --label disk=ssd`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			request := &deckhandv1.CreateJoinTokenRequest{Labels: labels}
			if ttl != 0 {
				request.Ttl = durationpb.New(ttl)
			}
			res, err := client.Nodes.CreateJoinToken(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			token := res.Msg.GetToken()
			a.notef("valid once, until %s; on the new machine run:", moment(res.Msg.GetExpiresAt()))
			a.notef("  DECKHAND_JOIN_TOKEN=%s deckhand-node --hub-url %s", termsafe.Line(token), client.URL())
			if !a.format.ForPeople() {
				return output.One(a.printer(), tokenNoun, res.Msg)
			}
			_, err = fmt.Fprintln(a.out, termsafe.Line(token))
			return err
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long it can be used, at most 168h; 1h by default")
	cmd.Flags().Lookup("ttl").DefValue = "" // the help says it in words
	cmd.Flags().StringToStringVar(&labels, "label", nil, "label that the node gets, as key=value; may be given more than once")
	return cmd
}

var tokenNoun = output.Noun[*deckhandv1.CreateJoinTokenResponse]{Name: (*deckhandv1.CreateJoinTokenResponse).GetToken}

func (a *app) nodeRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NODE", Short: "End a node's right to connect and drop its link", Example: "deckhand node revoke web-1",
		Args: takes("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Nodes.RevokeNode(cmd.Context(), connect.NewRequest(&deckhandv1.RevokeNodeRequest{NodeId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.nodeNoun(), res.Msg.GetNode())
		},
	}
}
