package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) taskLogsCommand() *cobra.Command {
	var follow bool
	request := &deckhandv1.ReadLogRequest{}
	cmd := &cobra.Command{
		Use: "logs STEP|TASK", Short: "Print what a step's command wrote, or all of a task's",
		Long: `Prints the raw output of one step's command, or of every step of a task, byte
for byte. On a terminal, control characters and escape sequences are made
harmless.`,
		Example: `deckhand task logs step_7bc --follow
deckhand task logs task_3q9 > everything.log`,
		Args: takes("STEP|TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !a.format.ForPeople() {
				return usage(cmd, "output is bytes, which -o %s cannot show", a.format)
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if strings.HasPrefix(args[0], "step") {
				request.StepId, request.Follow = args[0], follow
				return a.copyLog(cmd.Context(), client, request)
			}
			if follow || request.Offset != 0 {
				return usage(cmd, "--follow and --offset are for one step, see `deckhand task steps %s`", args[0])
			}
			return a.copyTaskLogs(cmd.Context(), client, args[0])
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the command has ended")
	cmd.Flags().Int64Var(&request.Offset, "offset", 0, "begin at this byte")
	return cmd
}

// copyTaskLogs prints the output of all of a task's steps, with a header for
// each on standard error.
func (a *app) copyTaskLogs(ctx context.Context, client *sdk.Client, taskID string) error {
	steps, err := client.Steps(ctx, taskID)
	if err != nil {
		return err
	}
	printed := 0
	for _, step := range steps {
		if step.GetLogBytes() == 0 {
			continue
		}
		printed++
		a.notef("%s", dim.Render("==> "+termsafe.Line(strings.Join([]string{
			step.GetId(), step.GetTool(), enumName(step.GetState()), shorten(arguments(step.GetArguments()), lineWidth),
		}, " "))))
		if err := a.copyLog(ctx, client, &deckhandv1.ReadLogRequest{StepId: step.GetId()}); err != nil {
			return err
		}
	}
	if printed == 0 {
		a.notef("no step of it has written anything; its steps: deckhand task steps %s", taskID)
	}
	return nil
}

// maxLogFailures is how often in a row a broken log stream is taken up again.
const maxLogFailures = 8

// copyLog prints one log. Where the stream breaks it goes on after the last
// byte it had.
func (a *app) copyLog(ctx context.Context, client *sdk.Client, request *deckhandv1.ReadLogRequest) error {
	out := a.out
	if output.IsTerminal(a.out) {
		safe := termsafe.Writer(a.out)
		defer func() { _ = safe.Close() }()
		out = safe
	}
	for failures := 0; ; {
		before := request.GetOffset()
		err := a.copyLogOnce(ctx, client, request, out)
		if !brokenLink(err) || before == request.GetOffset() && failures == 0 {
			return err
		}
		if request.GetOffset() > before {
			failures = 0
		}
		if failures++; failures > maxLogFailures {
			return err
		}
		if err := backoff.Wait(ctx, logBackoff.Delay(failures)); err != nil {
			return err
		}
	}
}

// brokenLink reports whether a stream broke on its way, not by the hub's answer:
// that has a fix or a code.
func brokenLink(err error) bool {
	e := fault.As(err)
	return e != nil && e.Code == "" && e.Fix == "" && (e.Kind == fault.Unavailable || e.Kind == fault.Internal)
}

var logBackoff = backoff.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second}

func (a *app) copyLogOnce(ctx context.Context, client *sdk.Client, request *deckhandv1.ReadLogRequest, out io.Writer) error {
	stream, err := client.Tasks.ReadLog(ctx, connect.NewRequest(request))
	if err != nil {
		return fault.FromConnect(err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		piece := stream.Msg()
		if gap := piece.GetOffset() - request.GetOffset(); gap > 0 {
			a.notef("%s", dim.Render("("+size(gap)+" of output are not kept any more)"))
		}
		if _, err := out.Write(piece.GetData()); err != nil {
			return err
		}
		request.Offset = piece.GetOffset() + int64(len(piece.GetData()))
	}
	return fault.FromConnect(stream.Err())
}
