// Package run is the command "deckhand run": it submits a task, and waits for
// its end where asked to.
package run

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/file"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/override"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/task"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand run".
func Command(e *env.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "run [AGENT] [GOAL]", Short: "Start a task",
		Long: `Starts a task: one run of an agent towards a goal. Without a goal the agent
follows its persona's own instructions.

With --wait the phases are shown on standard error, the result is printed on
standard output, and the exit code is 0 when the task succeeded, 1 when it did
not, 8 when it is still pending at --timeout, and 130 when interrupted; the
task itself goes on in the last two cases.`,
		Example: `deckhand run log-triage "What went wrong last night?" --wait
deckhand run log-triage --input /var/log/dpkg.log --wait --timeout 10m
deckhand run log-triage "Check the backups" -o name
deckhand run log-triage "Write the summary" --after task_3q9 --priority 8
deckhand run reviewer "Review it" --artifact 'task_3q9:src/**/*.go'
deckhand run reviewer "Review it" --share task_3q9:src
deckhand run coder "Fix the tests" --mode review --budget 2 --limit iterations=30
deckhand run --assign @human:bob "Swap the failing disk"`,
		Args: env.Args("[AGENT]", "[GOAL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.assign == "" && len(args) == 0:
				return env.Usage(cmd, "AGENT is missing")
			case o.assign != "" && len(args) != 1:
				return env.Usage(cmd, "with --assign give the goal alone, in quotes")
			}
			o.wait = o.wait || o.watch
			switch {
			case o.timeout < 0:
				return env.Usage(cmd, "--timeout is %s, give a positive duration such as 10m", o.timeout)
			case o.timeout > 0 && !o.wait:
				return env.Usage(cmd, "--timeout is how long --wait waits, give both")
			}
			request := &deckhandv1.SubmitTaskRequest{
				TaskType: o.taskType, Title: o.title, Priority: o.priority, After: o.after, AssignTo: o.assign, Context: o.context,
				// A request that is sent twice on its way is one task.
				IdempotencyKey: ident.New("run"),
			}
			if o.assign != "" {
				request.Goal = args[0]
			} else {
				request.AgentId = args[0]
				if len(args) > 1 {
					request.Goal = args[1]
				}
			}
			var err error
			if request.Override, err = o.with.Message(cmd); err != nil {
				return err
			}
			if request.Inputs, err = readInputs(e, o.inputs); err != nil {
				return err
			}
			if request.Artifacts, err = o.given(cmd); err != nil {
				return err
			}
			return submit(cmd.Context(), e, request, o)
		},
	}
	o.with.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.title, "title", "", "short title for lists")
	flags.StringVar(&o.taskType, "task-type", "", "what the task is counted under in statistics; by default what the persona says, else the agent's name")
	flags.Int32Var(&o.priority, "priority", 0, "1 to 10, 10 first; 5 by default")
	flags.StringSliceVar(&o.after, "after", nil, "tasks that must have succeeded first; when one does not, this one is cancelled")
	flags.StringVar(&o.assign, "assign", "", "instead of AGENT: @human:NAME, @agent:NAME, or none (unassigned)")
	flags.StringVar(&o.context, "context", "", "extra context for the agent")
	flags.StringArrayVar(&o.inputs, "input", nil, "put FILE into the workspace, as FILE or FILE=PATH; input/<its name> by default, - for standard input; may be given more than once")
	flags.StringArrayVar(&o.artifacts, "artifact", nil, "begin with files of another task's workspace, as TASK:PATH or TASK:PATTERN; in artifacts/TASK; may be given more than once")
	flags.StringArrayVar(&o.shared, "share", nil, "like --artifact, for reading only; in shared/TASK")
	flags.BoolVar(&o.wait, "wait", false, "wait for the end and print the result")
	flags.BoolVar(&o.watch, "watch", false, "as --wait, and show reasoning and tool calls too")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long --wait waits, for example 10m; for ever by default")
	flags.Lookup("timeout").DefValue = "" // the help says it in words
	return cmd
}

// options are the flags of run.
type options struct {
	title    string
	taskType string
	priority int32
	after    []string
	assign   string
	context  string
	inputs   []string
	// artifacts are files of other tasks, as TASK:PATH.
	artifacts []string
	// shared are such files for reading only.
	shared  []string
	wait    bool
	watch   bool
	timeout time.Duration
	with    override.Run
}

// given returns the files of other tasks that the task begins with.
func (o options) given(cmd *cobra.Command) ([]*deckhandv1.TaskArtifacts, error) {
	copied, err := file.ReadArtifacts(cmd, "artifact", o.artifacts, false)
	if err != nil {
		return nil, err
	}
	shared, err := file.ReadArtifacts(cmd, "share", o.shared, true)
	return append(copied, shared...), err
}

func submit(ctx context.Context, e *env.Env, request *deckhandv1.SubmitTaskRequest, o options) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	if request.GetAgentId() != "" {
		task.NoteEstimate(ctx, e, client, &deckhandv1.GetEstimateRequest{AgentId: request.GetAgentId()})
	}
	res, err := client.Tasks.SubmitTask(ctx, request)
	if err != nil {
		return err
	}
	t := res.GetTask()
	if o.wait {
		e.Notef("%s is %s", termsafe.Line(t.GetId()), queued(res))
		return wait(ctx, e, client, t.GetId(), o)
	}
	if err := output.Brief(e.Printer(), task.Noun(e), t); err != nil {
		return err
	}
	if e.Format.ForPeople() {
		e.Notef("follow it: deckhand task watch %s", termsafe.Line(t.GetId()))
	}
	return nil
}

func queued(res *deckhandv1.SubmitTaskResponse) string {
	state := output.EnumName(res.GetTask().GetState())
	if res.GetTask().GetStanding().GetBasis() != "" {
		return fmt.Sprintf("%s at position %d, %s", state, res.GetQueuePosition(), task.WaitEstimate(res.GetTask().GetStanding()))
	}
	if res.GetQueuePosition() > 0 {
		return fmt.Sprintf("%s at position %d", state, res.GetQueuePosition())
	}
	return state
}
