package tool

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// listOptions are the flags of tool list.
type listOptions struct {
	agent, kind, query string
	listed             bool
}

func listCommand(e *env.Env) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use: "list", Short: "List tools",
		Long: `Lists the tools of this hub, and with --agent those of its MCP servers. What the agent
gets is said for the call that the tool's description shows: see another one with
deckhand tool show NAME --agent AGENT --arguments JSON.`,
		Example: `deckhand tool list --kind communication
deckhand tool list --agent log-triage --listed -o wide`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			kind, err := parseKind(cmd, o.kind)
			if err != nil {
				return err
			}
			if o.listed && o.agent == "" {
				return env.Usage(cmd, "--listed needs --agent")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, noun(o.agent != ""), "No such tools.", client.Tools.ListTools, func(token string) *deckhandv1.ListToolsRequest {
				return &deckhandv1.ListToolsRequest{AgentId: o.agent, Kind: kind, Listed: o.listed, Query: o.query, PageToken: token}
			}, (*deckhandv1.ListToolsResponse).GetTools)
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "show what calls would get from this agent")
	cmd.Flags().StringVar(&o.kind, "kind", "", "only tools of a kind: "+strings.Join(kinds(), ", "))
	cmd.Flags().StringVar(&o.query, "search", "", "only tools whose name or description has this text")
	cmd.Flags().BoolVar(&o.listed, "listed", false, "only tools that the agent has")
	return cmd
}
