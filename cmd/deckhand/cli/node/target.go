package node

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// target is where a person's command runs: one of the three.
type target struct {
	agent string
	task  string
	host  bool
}

func (t *target) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.agent, "agent", "", "run it in this agent's jail")
	cmd.Flags().StringVar(&t.task, "task", "", "run it in this task's jail, where each task has its own")
	cmd.Flags().BoolVar(&t.host, "host", false, "run it on the machine itself: administrators only, under the node's lock")
}

func (t *target) check(cmd *cobra.Command) error {
	given := 0
	for _, flag := range []bool{t.agent != "", t.task != "", t.host} {
		if flag {
			given++
		}
	}
	if given != 1 {
		return env.Usage(cmd, "say where with --agent AGENT, --task TASK or --host, one of them")
	}
	return nil
}
