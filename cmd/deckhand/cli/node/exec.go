package node

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// The exit codes of a command that was run and did not end by itself, as
// timeout(1), docker exec and shells have them.
const (
	statusTimedOut   = 124
	statusLost       = 125 // nobody can tell how it ended
	statusCannotRun  = 126
	statusNoCommand  = 127
	statusSignalled  = 128 // and the signal's number
	signalKill       = 9
	maxStdin         = 1 << 20
	killPatience     = 20 * time.Second
	getWait          = 30 * time.Second
	startFailedWords = "not found"
)

// execOptions are the flags of node exec.
type execOptions struct {
	where   target
	timeout time.Duration
	stdin   bool
	request *deckhandv1.StartNodeExecRequest
}

func execCommand(e *env.Env) *cobra.Command {
	o := execOptions{request: &deckhandv1.StartNodeExecRequest{}}
	cmd := &cobra.Command{
		Use: "exec NODE --agent AGENT|--task TASK|--host -- COMMAND [ARG...]", Short: "Run a command in a jail or on the node itself",
		Long: `Runs a command on a node and passes on what it writes, standard output and
standard error apart. Ctrl-C kills it with all that it started. The exit code is
the command's own; 128 and the number of a signal that ended it; 124 when it
reached --timeout; 126 and 127 when it could not be run or found; 125 when
nobody can tell how it ended.

The command is recorded with who ran it, when and where, its secrets masked.
When this program is cut off, the command goes on: see it with
"deckhand node execs" and "deckhand node logs".`,
		Example: `deckhand node exec web-1 --agent log-triage -- ls -l /workspace
deckhand node exec web-1 --host --reason "look at the disk" -- df -h
echo hello | deckhand node exec web-1 --agent log-triage --stdin -- wc -c`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case len(args) == 0 || dash == 0:
				return env.Usage(cmd, "NODE is missing")
			case dash < 0 || len(args) == dash:
				return env.Usage(cmd, "COMMAND is missing: put it behind --")
			case dash > 1:
				return env.Usage(cmd, "unexpected argument %q before --", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.where.check(cmd); err != nil {
				return err
			}
			if !e.Format.ForPeople() {
				return env.Usage(cmd, "output is bytes, which -o %s cannot show", e.Format)
			}
			o.request.NodeId, o.request.Argv = args[0], args[1:]
			o.request.Target = &deckhandv1.StartNodeExecRequest_AgentId{AgentId: o.where.agent}
			switch {
			case o.where.task != "":
				o.request.Target = &deckhandv1.StartNodeExecRequest_TaskId{TaskId: o.where.task}
			case o.where.host:
				o.request.Target = &deckhandv1.StartNodeExecRequest_Host{Host: true}
			}
			if o.timeout != 0 {
				o.request.Timeout = durationpb.New(o.timeout)
			}
			if o.stdin {
				data, err := env.ReadAll(e.In, maxStdin)
				if err != nil {
					return env.Unreadable("standard input", err)
				}
				o.request.Stdin = data
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return execute(cmd.Context(), e, client, o.request)
		},
	}
	o.where.register(cmd)
	cmd.Flags().StringVar(&o.request.Dir, "dir", "", "folder to start in; the workspace by default")
	cmd.Flags().StringArrayVar(&o.request.Env, "env", nil, "NAME=value to add to its environment; may be given more than once")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "time before it is killed; 10m by default")
	cmd.Flags().Lookup("timeout").DefValue = "" // the help says it in words
	cmd.Flags().BoolVarP(&o.stdin, "stdin", "i", false, "give it standard input, at most 1 MiB, read to its end before")
	cmd.Flags().StringVar(&o.request.Reason, "reason", "", "why, for the record and for those who wait for the lock")
	return cmd
}

// execute runs a command and returns its exit status.
func execute(ctx context.Context, e *env.Env, client *sdk.Client, request *deckhandv1.StartNodeExecRequest) error {
	started, err := client.NodeExecs.StartNodeExec(ctx, request)
	if err != nil {
		return err
	}
	id := started.GetExec().GetId()
	out := newOutputs(e)
	err = copyLog(ctx, e, client, &deckhandv1.ReadNodeLogRequest{ExecId: id, Follow: true}, out.piece)
	err = errors.Join(err, out.close())
	if ctx.Err() != nil {
		return interrupted(ctx, client, id)
	}
	if err != nil {
		return continues(err, id)
	}
	for {
		res, err := client.NodeExecs.GetNodeExec(ctx, &deckhandv1.GetNodeExecRequest{ExecId: id, Wait: durationpb.New(getWait)})
		if ctx.Err() != nil {
			return interrupted(ctx, client, id)
		}
		if err != nil {
			return continues(err, id)
		}
		if res.GetExec().GetState() == deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED {
			return execStatus(e, res.GetExec())
		}
	}
}

// continues adds to an error that the command has not ended by it.
func continues(err error, id string) error {
	e := fault.As(fault.FromConnect(err))
	if e == nil || e.Fix != "" {
		return err
	}
	with := *e
	return (&with).WithFix("the command goes on; see `deckhand node logs NODE %s`, or end it with `deckhand node kill %s`", id, id)
}

// interrupted kills a command whose person pressed Ctrl-C.
func interrupted(ctx context.Context, client *sdk.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	res, err := client.NodeExecs.KillNodeExec(ctx, &deckhandv1.KillNodeExecRequest{ExecId: id})
	if err != nil {
		return env.Failed(env.ExitInterrupted, fault.New(fault.Canceled, "interrupted, but %s could not be killed: %v", id, err).
			WithFix("try again: deckhand node kill %s", id))
	}
	return env.Failed(env.ExitInterrupted, fault.New(fault.Canceled, "interrupted: %s was killed, %d of its processes are left", id, res.GetExec().GetMembersLeft()))
}

// execStatus returns how a command ended as an exit status, and says what a
// status cannot.
func execStatus(e *env.Env, x *deckhandv1.NodeExec) error {
	status := func(code int, format string, args ...any) error {
		e.Notef("%s: "+format, append([]any{x.GetId()}, args...)...)
		return env.Status(code)
	}
	why := termsafe.Line(x.GetError())
	switch x.GetEndReason() {
	case "exited":
		if x.GetExitCode() == 0 {
			return nil
		}
		return env.Status(x.GetExitCode())
	case "signalled":
		return env.Status(statusSignalled + x.GetSignal())
	case "timed_out":
		return status(statusTimedOut, "killed, because it ran longer than its --timeout")
	case "killed":
		return status(statusSignalled+signalKill, "killed by %s", termsafe.Line(x.GetKilledBy()))
	case "out_of_memory":
		return status(statusSignalled+signalKill, "killed, because the memory ran out")
	case "output_limit":
		return status(statusSignalled+signalKill, "killed, because it wrote more output than the node allows")
	case "disk_full":
		return status(statusLost, "the node's disk is full")
	case "start_failed":
		if strings.Contains(why, startFailedWords) || strings.Contains(why, "no such file") {
			return status(statusNoCommand, "%s", why)
		}
		return status(statusCannotRun, "%s", why)
	case "refused", "not_started":
		return status(statusCannotRun, "it was not started: %s", why)
	}
	return status(statusLost, "nobody can tell how it ended (%s) %s", x.GetEndReason(), why)
}
