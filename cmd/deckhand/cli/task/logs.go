package task

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// logsOptions are the flags of task logs.
type logsOptions struct {
	follow  bool
	failed  string
	request *deckhandv1.ReadLogRequest
}

func logsCommand(e *env.Env) *cobra.Command {
	o := logsOptions{request: &deckhandv1.ReadLogRequest{}}
	cmd := &cobra.Command{
		Use: "logs STEP|TASK", Short: "Print the output of a step, or of all steps of a task",
		Long: `Prints the raw output of one step's command, or of every step of a task, byte
for byte. On a terminal, control characters and escape sequences are made
harmless.`,
		Example: `deckhand task logs step_7bc --follow
deckhand task logs task_3q9 --follow
deckhand task logs task_3q9 > everything.log
# of the steps that failed, and of those that ran into their time limit
deckhand task logs task_3q9 --error
deckhand task logs task_3q9 --error=AGENT_006`,
		Args: env.Args("STEP|TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !e.Format.ForPeople() {
				return env.Usage(cmd, "output is bytes, which -o %s cannot show", e.Format)
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			if o.failed != "" && (o.follow || strings.HasPrefix(args[0], "step")) {
				return env.Usage(cmd, "--error chooses steps of a TASK that have ended, leave out --follow")
			}
			if strings.HasPrefix(args[0], "step") {
				o.request.StepId, o.request.Follow = args[0], o.follow
				return copyLog(cmd.Context(), e, client, o.request)
			}
			if o.request.Offset != 0 {
				return env.Failed(env.ExitUsage, fault.New(fault.Invalid, "--offset is for the log of one step").WithFix("choose one with `deckhand task steps %s`", args[0]))
			}
			if o.follow {
				return followTaskLogs(cmd.Context(), e, client, args[0])
			}
			return copyTaskLogs(cmd.Context(), e, client, args[0], o.failed)
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "follow the output until the command or the task ends")
	errorFlag(cmd, &o.failed, "only of steps that failed")
	cmd.Flags().Int64Var(&o.request.Offset, "offset", 0, "begin at this byte")
	return cmd
}

// anyError is the value of the flag --error without a code.
const anyError = "any"

// errorFlag adds the flag that chooses by error.
func errorFlag(cmd *cobra.Command, code *string, what string) {
	cmd.Flags().StringVar(code, "error", "", what+"; with --error=`CODE` only those with this error code, such as AGENT_006")
	cmd.Flags().Lookup("error").NoOptDefVal = anyError
}

// withError reports whether an error code is one that was chosen; every code is if none was.
func withError(failure, chosen string) bool {
	return chosen == "" || failure == chosen || chosen == anyError && failure != ""
}

// copyTaskLogs prints the output of all of a task's steps, or of those with an error, with a
// header for each on standard error.
func copyTaskLogs(ctx context.Context, e *env.Env, client *sdk.Client, taskID, failed string) error {
	steps, err := client.Steps(ctx, taskID)
	if err != nil {
		return err
	}
	printed := 0
	for _, step := range steps {
		if step.GetLogBytes() == 0 || !withError(step.GetErrorCode(), failed) {
			continue
		}
		printed++
		noteStep(e, step.GetId(), step.GetTool(), output.EnumName(step.GetState()), output.Arguments(step.GetArguments()))
		if err := copyLog(ctx, e, client, &deckhandv1.ReadLogRequest{StepId: step.GetId()}); err != nil {
			return err
		}
	}
	switch {
	case printed > 0:
	case failed != "":
		e.Notef("no step of it with that error has written anything; its steps: deckhand task steps %s", taskID)
	default:
		e.Notef("no step of it has written anything; its steps: deckhand task steps %s", taskID)
	}
	return nil
}

// noteStep writes the header of a step's output to standard error.
func noteStep(e *env.Env, parts ...string) {
	last := len(parts) - 1
	parts[last] = output.Shorten(parts[last], output.LineWidth)
	e.Notef("%s", output.Dim.Render("==> "+termsafe.Line(strings.Join(parts, " "))))
}

// followTaskLogs prints the output of all of a task's steps, one step after
// another, and goes on with those to come until the task has ended.
func followTaskLogs(ctx context.Context, e *env.Env, client *sdk.Client, taskID string) error {
	tasks, err := Get(ctx, client, []string{taskID})
	if err != nil {
		return err
	}
	// The hub keeps the log of what runs on a node only: a step of another kind has
	// none, and says so.
	started := map[string]*deckhandv1.Event{}
	for res, err := range client.Watch(ctx, &deckhandv1.WatchRequest{
		TaskIds: []string{tasks[0].GetId()}, Follow: true, Types: []string{"tool_selected", "tool_executing"},
	}) {
		if err != nil {
			return err
		}
		id := output.Field(res.GetEvent().GetPayload(), "step_id")
		switch res.GetEvent().GetType() {
		case "tool_selected":
			started[id] = res.GetEvent()
		case "tool_executing":
			if err := followStep(ctx, e, client, id, started[id]); err != nil {
				return err
			}
			delete(started, id)
		}
	}
	return nil
}

// followStep prints the output of a step that was handed to its node.
func followStep(ctx context.Context, e *env.Env, client *sdk.Client, id string, selected *deckhandv1.Event) error {
	var header sync.Once
	out := headed{Writer: e.Out, before: func() {
		header.Do(func() {
			payload := selected.GetPayload()
			noteStep(e, id, output.Field(payload, "tool"), output.Arguments(payload.GetFields()["arguments"].GetStructValue()))
		})
	}}
	err := copyLogTo(ctx, e, client, &deckhandv1.ReadLogRequest{StepId: id, Follow: true}, out)
	if fault.Is(err, fault.Precondition) || fault.Is(err, fault.NotFound) {
		return nil // it has no log
	}
	return err
}

// headed calls before ahead of what is written.
type headed struct {
	io.Writer

	before func()
}

func (h headed) Write(p []byte) (int, error) {
	h.before()
	return h.Writer.Write(p)
}

// copyLog prints one log. If the stream breaks, it resumes after the last byte that
// it received.
func copyLog(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.ReadLogRequest) error {
	return copyLogTo(ctx, e, client, request, e.Out)
}

// copyLogTo writes one log to out, harmless where standard output is a terminal.
func copyLogTo(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.ReadLogRequest, out io.Writer) error {
	if output.IsTerminal(e.Out) {
		safe := termsafe.Writer(out)
		defer func() { _ = safe.Close() }()
		out = safe
	}
	return env.Resume(ctx, &request.Offset, false, env.BrokenStream, func() error {
		return copyLogOnce(ctx, e, client, request, out)
	})
}

func copyLogOnce(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.ReadLogRequest, out io.Writer) error {
	stream, err := client.Tasks.ReadLog(ctx, request)
	if err != nil {
		return fault.FromConnect(err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		piece := stream.Msg()
		if gap := piece.GetOffset() - request.GetOffset(); gap > 0 {
			e.Notef("%s", output.Dim.Render("("+output.Size(gap)+" of output are not kept any more)"))
		}
		if _, err := out.Write(piece.GetData()); err != nil {
			return err
		}
		request.Offset = piece.GetOffset() + int64(len(piece.GetData()))
	}
	return fault.FromConnect(stream.Err())
}
