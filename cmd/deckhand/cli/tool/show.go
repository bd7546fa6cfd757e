package tool

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// showOptions are the flags of tool show.
type showOptions struct{ agent, arguments string }

func showCommand(e *env.Env) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use: "show TOOL", Short: "Show a tool with its schema",
		Example: `deckhand tool show file_write
deckhand tool show shell_exec --agent cleaner --arguments '{"command":"rm -r build"}'`,
		Args: env.Args("TOOL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &deckhandv1.GetToolRequest{Name: args[0], AgentId: o.agent}
			if o.arguments != "" {
				if o.agent == "" {
					return env.Usage(cmd, "--arguments needs --agent, whose call it is")
				}
				var err error
				if req.ArgumentsJson, err = env.ReadArguments(e, cmd, o.arguments); err != nil {
					return err
				}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Show(cmd, e, noun(o.agent != ""), client.Tools.GetTool, req, (*deckhandv1.GetToolResponse).GetTool)
		},
	}
	cmd.Flags().StringVar(&o.agent, "agent", "", "show what a call would get from this agent")
	cmd.Flags().StringVar(&o.arguments, "arguments", "", "the call's arguments as a JSON object, or @FILE (default: the example of the description)")
	return cmd
}
