package task

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func checkpointsCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "checkpoints TASK", Short: "List the checkpoints that a task can be resumed from", Example: "deckhand task checkpoints task_3q9",
		Long: `Lists the checkpoints of a task, the newest first. Phase iterate is the end of an
iteration; select_tool is the point behind it at which the next turn is chosen and none of
its calls was made.`,
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

// keepOptions are the flags of task keep-checkpoint.
type keepOptions struct {
	keepFor time.Duration
	request *deckhandv1.KeepCheckpointRequest
}

func keepCheckpointCommand(e *env.Env) *cobra.Command {
	o := keepOptions{request: &deckhandv1.KeepCheckpointRequest{}}
	cmd := &cobra.Command{
		Use: "keep-checkpoint TASK", Short: "Keep a checkpoint for up to seven days",
		Long: `Keeps the newest checkpoint of a task, or another one, for seven days from now, or for
as long as --for says. The time never becomes shorter.`,
		Example: `deckhand task keep-checkpoint task_3q9
deckhand task keep-checkpoint task_3q9 --iteration 4 --for 72h`,
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.request.GetIteration() < 0:
				return env.Usage(cmd, "--iteration is %d, give the iteration of a checkpoint", o.request.GetIteration())
			case o.keepFor < 0 || o.keepFor > 168*time.Hour:
				return env.Usage(cmd, "--for is %s, give a duration up to 168h, such as 72h", o.keepFor)
			case o.keepFor > 0:
				o.request.KeepFor = durationpb.New(o.keepFor)
			}
			o.request.TaskId = args[0]
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.Change(cmd, e, checkpointNoun(e), client.Tasks.KeepCheckpoint, o.request, (*deckhandv1.KeepCheckpointResponse).GetCheckpoint)
		},
	}
	cmd.Flags().Int32Var(&o.request.Iteration, "iteration", 0, "the checkpoint's; the newest by default")
	cmd.Flags().Lookup("iteration").DefValue = ""
	cmd.Flags().StringVar(&o.request.CheckpointId, "checkpoint", "", "the checkpoint's id, as task checkpoints shows it")
	cmd.MarkFlagsMutuallyExclusive("iteration", "checkpoint")
	cmd.Flags().DurationVar(&o.keepFor, "for", 0, "how long from now, at most 168h; 168h by default")
	cmd.Flags().Lookup("for").DefValue = ""
	return cmd
}

func checkpointNoun(e *env.Env) output.Noun[*deckhandv1.TaskCheckpoint] {
	return output.Noun[*deckhandv1.TaskCheckpoint]{
		Name: func(x *deckhandv1.TaskCheckpoint) string { return fmt.Sprint(x.GetIteration()) },
		Columns: []output.Column[*deckhandv1.TaskCheckpoint]{
			{Header: "id", Value: (*deckhandv1.TaskCheckpoint).GetId},
			{Header: "iteration", Value: func(x *deckhandv1.TaskCheckpoint) string { return fmt.Sprint(x.GetIteration()) }},
			{Header: "phase", Value: (*deckhandv1.TaskCheckpoint).GetPhase},
			{Header: "name", Value: func(x *deckhandv1.TaskCheckpoint) string { return checkpointNames(x) }},
			{Header: "browser", Value: func(x *deckhandv1.TaskCheckpoint) string {
				pages := x.GetBrowser().GetPages()
				switch len(pages) {
				case 0:
					return ""
				case 1:
					return pages[0]
				}
				return fmt.Sprintf("%s and %d more", pages[0], len(pages)-1)
			}},
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
