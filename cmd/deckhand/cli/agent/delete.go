package agent

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func deleteCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.DeleteAgentRequest{}
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete an agent; for 7 days this can be undone",
		Long: `Nothing starts a deleted agent: its webhooks return 410, its schedules stop, and
submissions are refused. Its tasks and versions are kept. For 7 days the deletion
can be undone with agent undelete, and the name stays the agent's; then the name
is free. You are asked to type the agent's name, unless --confirm has it. If it
has tasks that have not ended, say with --tasks what becomes of them.`,
		Example: `deckhand agent delete log-triage
deckhand agent delete log-triage --confirm log-triage --tasks finish`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.AgentId = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			if request.GetConfirm() == "" {
				if _, err := fmt.Fprintf(e.Err, "Type the agent's name to delete it: "); err != nil {
					return err
				}
				line, _ := bufio.NewReader(e.In).ReadString('\n') // what was typed before the end counts
				request.Confirm = strings.TrimSpace(line)
			}
			res, err := client.Agents.DeleteAgent(cmd.Context(), request)
			if err != nil {
				return err
			}
			if ended := res.GetCancelledTaskIds(); len(ended) > 0 {
				e.Notef("cancelled %d tasks: %s", len(ended), termsafe.Line(strings.Join(ended, ", ")))
			}
			e.Notef("until %s this can be undone: deckhand agent undelete %s", output.Moment(res.GetAgent().GetUndeleteUntil()), termsafe.Line(res.GetAgent().GetName()))
			return output.Brief(e.Printer(), noun(e), res.GetAgent())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Confirm, "confirm", "", "the agent's name, instead of typing it")
	flags.StringVar(&request.Tasks, "tasks", "", "tasks that have not ended: cancel ends them, finish lets those end that have started")
	flags.StringVar(&request.Reason, "reason", "", "why, for the record")
	return cmd
}
