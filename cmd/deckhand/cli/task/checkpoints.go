package task

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func checkpointsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "checkpoints TASK", Short: "List the checkpoints that a task can be resumed from", Example: "deckhand task checkpoints task_3q9",
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.List(cmd, e, checkpointNoun(e), "no checkpoints: each finished iteration makes one, and it is kept for a day", client.Tasks.ListCheckpoints, func(token string) *deckhandv1.ListCheckpointsRequest {
				return &deckhandv1.ListCheckpointsRequest{TaskId: args[0], PageToken: token}
			}, (*deckhandv1.ListCheckpointsResponse).GetCheckpoints)
		},
	}
}

func checkpointNoun(e *env.Env) output.Noun[*deckhandv1.TaskCheckpoint] {
	return output.Noun[*deckhandv1.TaskCheckpoint]{
		Name: func(x *deckhandv1.TaskCheckpoint) string { return fmt.Sprint(x.GetIteration()) },
		Columns: []output.Column[*deckhandv1.TaskCheckpoint]{
			{Header: "iteration", Value: func(x *deckhandv1.TaskCheckpoint) string { return fmt.Sprint(x.GetIteration()) }},
			{Header: "name", Value: func(x *deckhandv1.TaskCheckpoint) string { return checkpointNames(x) }},
			{Header: "reason", Value: (*deckhandv1.TaskCheckpoint).GetReason},
			{Header: "age", Value: func(x *deckhandv1.TaskCheckpoint) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "expires", Value: func(x *deckhandv1.TaskCheckpoint) string { return output.Moment(x.GetExpiresAt()) }},
		},
	}
}

// checkpointNames lists what a checkpoint can be called: the agent's name, and the points
// before calls of the next iteration.
func checkpointNames(x *deckhandv1.TaskCheckpoint) string {
	var names []string
	if x.GetName() != "" {
		names = append(names, literal.Line(x.GetName()))
	}
	for _, number := range x.GetBeforeSteps() {
		names = append(names, fmt.Sprint(persona.BeforeStep, number))
	}
	return strings.Join(names, ", ")
}
