package trigger

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.ListTriggersRequest{PageSize: 500}
	cmd := &cobra.Command{
		Use: "list", Short: "List triggers", Example: "deckhand trigger list -o wide", Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			var all []*deckhandv1.Trigger
			for {
				res, err := client.Triggers.ListTriggers(cmd.Context(), request)
				if err != nil {
					return err
				}
				all = append(all, res.GetTriggers()...)
				if request.PageToken = res.GetNextPageToken(); request.GetPageToken() == "" {
					break
				}
			}
			if len(all) == 0 {
				e.Notef("there is no trigger: deckhand trigger create NAME --agent AGENT --cron \"30 2 * * *\"")
			}
			return output.List(e.Printer(), noun(), all)
		},
	}
	cmd.Flags().StringVar(&request.AgentId, "agent", "", "only of this agent")
	return cmd
}
