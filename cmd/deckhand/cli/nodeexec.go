package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
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
		return usage(cmd, "say where with --agent AGENT, --task TASK or --host, one of them")
	}
	return nil
}

func (a *app) nodeExecCommand() *cobra.Command {
	var where target
	var timeout time.Duration
	var stdin bool
	request := &deckhandv1.StartNodeExecRequest{}
	cmd := &cobra.Command{
		Use: "exec NODE --agent AGENT|--task TASK|--host -- COMMAND [ARG...]", Short: "Run a command in a jail, or on the machine",
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
				return usage(cmd, "NODE is missing")
			case dash < 0 || len(args) == dash:
				return usage(cmd, "COMMAND is missing: put it behind --")
			case dash > 1:
				return usage(cmd, "unexpected argument %q before --", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := where.check(cmd); err != nil {
				return err
			}
			if !a.format.ForPeople() {
				return usage(cmd, "output is bytes, which -o %s cannot show", a.format)
			}
			request.NodeId, request.Argv = args[0], args[1:]
			request.Target = &deckhandv1.StartNodeExecRequest_AgentId{AgentId: where.agent}
			switch {
			case where.task != "":
				request.Target = &deckhandv1.StartNodeExecRequest_TaskId{TaskId: where.task}
			case where.host:
				request.Target = &deckhandv1.StartNodeExecRequest_Host{Host: true}
			}
			if timeout != 0 {
				request.Timeout = durationpb.New(timeout)
			}
			if stdin {
				data, err := readAll(a.in, maxStdin)
				if err != nil {
					return unreadable("standard input", err)
				}
				request.Stdin = data
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			return a.nodeExec(cmd.Context(), client, request)
		},
	}
	where.register(cmd)
	cmd.Flags().StringVar(&request.Dir, "dir", "", "folder to start in; the workspace by default")
	cmd.Flags().StringArrayVar(&request.Env, "env", nil, "NAME=value to add to its environment; may be given more than once")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "time before it is killed; 10m by default")
	cmd.Flags().Lookup("timeout").DefValue = "" // the help says it in words
	cmd.Flags().BoolVarP(&stdin, "stdin", "i", false, "give it standard input, at most 1 MiB, read to its end before")
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for the record and for those who wait for the lock")
	return cmd
}

// nodeExec runs a command and answers its exit status.
func (a *app) nodeExec(ctx context.Context, client *sdk.Client, request *deckhandv1.StartNodeExecRequest) error {
	started, err := client.NodeExecs.StartNodeExec(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	id := started.Msg.GetExec().GetId()
	out := a.outputs()
	err = a.copyNodeLog(ctx, client, &deckhandv1.ReadNodeLogRequest{ExecId: id, Follow: true}, out.piece)
	err = errors.Join(err, out.close())
	if ctx.Err() != nil {
		return a.interrupted(ctx, client, id)
	}
	if err != nil {
		return goesOn(err, id)
	}
	for {
		res, err := client.NodeExecs.GetNodeExec(ctx, connect.NewRequest(&deckhandv1.GetNodeExecRequest{ExecId: id, Wait: durationpb.New(getWait)}))
		if ctx.Err() != nil {
			return a.interrupted(ctx, client, id)
		}
		if err != nil {
			return goesOn(err, id)
		}
		if res.Msg.GetExec().GetState() == deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED {
			return a.execStatus(res.Msg.GetExec())
		}
	}
}

// goesOn adds to an error that the command has not ended by it.
func goesOn(err error, id string) error {
	e := fault.As(fault.FromConnect(err))
	if e == nil || e.Fix != "" {
		return err
	}
	with := *e
	return (&with).WithFix("the command goes on; see `deckhand node logs NODE %s`, or end it with `deckhand node kill %s`", id, id)
}

// interrupted kills a command whose person pressed Ctrl-C.
func (a *app) interrupted(ctx context.Context, client *sdk.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	res, err := client.NodeExecs.KillNodeExec(ctx, connect.NewRequest(&deckhandv1.KillNodeExecRequest{ExecId: id}))
	if err != nil {
		return failed(exitInterrupted, fault.New(fault.Canceled, "interrupted, but %s could not be killed: %v", id, err).
			WithFix("try again: deckhand node kill %s", id))
	}
	return failed(exitInterrupted, fault.New(fault.Canceled, "interrupted: %s was killed, %d of its processes are left", id, res.Msg.GetExec().GetMembersLeft()))
}

// execStatus returns how a command ended as an exit status, and says what a
// status cannot.
func (a *app) execStatus(e *deckhandv1.NodeExec) error {
	status := func(code int, format string, args ...any) error {
		a.notef("%s: "+format, append([]any{e.GetId()}, args...)...)
		return exitStatus(code)
	}
	why := termsafe.Line(e.GetError())
	switch e.GetEndReason() {
	case "exited":
		if e.GetExitCode() == 0 {
			return nil
		}
		return exitStatus(e.GetExitCode())
	case "signalled":
		return exitStatus(statusSignalled + e.GetSignal())
	case "timed_out":
		return status(statusTimedOut, "killed, because it ran longer than its --timeout")
	case "killed":
		return status(statusSignalled+signalKill, "killed by %s", termsafe.Line(e.GetKilledBy()))
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
	return status(statusLost, "nobody can tell how it ended (%s) %s", e.GetEndReason(), why)
}

// outputs is where a command's output goes: as it is, but made harmless on a
// terminal.
type outputs struct {
	app      *app
	out, err io.Writer
	closers  []io.Closer
}

func (a *app) outputs() *outputs {
	o := &outputs{app: a, out: a.out, err: a.err}
	for _, w := range []*io.Writer{&o.out, &o.err} {
		if output.IsTerminal(*w) {
			safe := termsafe.Writer(*w)
			*w = safe
			o.closers = append(o.closers, safe)
		}
	}
	return o
}

func (o *outputs) piece(p *deckhandv1.ReadNodeLogResponse) error {
	w := o.out
	if p.GetStream() == "stderr" {
		w = o.err
	}
	_, err := w.Write(p.GetData())
	return err
}

func (o *outputs) close() error {
	var errs []error
	for _, c := range o.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (a *app) nodeExecsCommand() *cobra.Command {
	request := &deckhandv1.ListNodeExecsRequest{}
	var limit int
	cmd := &cobra.Command{
		Use: "execs [NODE]", Short: "List people's commands and terminals", Example: "deckhand node execs web-1 --live",
		Args: takes("[NODE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			if limit < 0 {
				return usage(cmd, "--limit is %d, give 0 for all or a positive number", limit)
			}
			request.NodeId = optional(args, 0)
			var execs []*deckhandv1.NodeExec
			if err := sdk.Pages(func(token string) (string, error) {
				if request.PageToken, request.PageSize = token, pageSize; limit > 0 {
					request.PageSize = int32(min(pageSize, limit-len(execs)))
				}
				res, err := client.NodeExecs.ListNodeExecs(cmd.Context(), connect.NewRequest(request))
				if err != nil {
					return "", err
				}
				if execs = append(execs, res.Msg.GetExecs()...); limit > 0 && len(execs) >= limit {
					return "", nil
				}
				return res.Msg.GetNextPageToken(), nil
			}); err != nil {
				return err
			}
			if len(execs) == 0 {
				a.notef("no commands; run one: deckhand node exec NODE --agent AGENT -- COMMAND")
			}
			return output.List(a.printer(), a.execNoun(), execs)
		},
	}
	cmd.Flags().BoolVar(&request.LiveOnly, "live", false, "only those that have not ended")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many, the newest; 0 for all")
	return cmd
}

func (a *app) execNoun() output.Noun[*deckhandv1.NodeExec] {
	return output.Noun[*deckhandv1.NodeExec]{
		Name: (*deckhandv1.NodeExec).GetId,
		Columns: []output.Column[*deckhandv1.NodeExec]{
			{Header: "id", Value: (*deckhandv1.NodeExec).GetId},
			{Header: "node", Value: (*deckhandv1.NodeExec).GetNodeName},
			{Header: "where", Value: execPlace, Style: func(x *deckhandv1.NodeExec) lipgloss.Style {
				if x.GetTarget() == deckhandv1.NodeExecTarget_NODE_EXEC_TARGET_HOST {
					return failStyle
				}
				return toolStyle
			}},
			{Header: "by", Value: (*deckhandv1.NodeExec).GetCreatedBy},
			{Header: "age", Value: func(x *deckhandv1.NodeExec) string { return a.age(x.GetCreatedAt()) }},
			{Header: "end", Value: execEnd},
			{Header: "log", Value: func(x *deckhandv1.NodeExec) string { return size(x.GetLogBytes()) }},
			{Header: "files", Value: func(x *deckhandv1.NodeExec) string {
				if x.GetUndoneAt() != nil {
					return fmt.Sprintf("%d, undone", x.GetFiles())
				}
				return fmt.Sprint(x.GetFiles())
			}},
			{Header: "command", Value: func(x *deckhandv1.NodeExec) string {
				if x.GetTerminal() {
					return "(a terminal)"
				}
				return strings.Join(x.GetArgv(), " ")
			}, Max: 60},
			{Header: "dir", Value: (*deckhandv1.NodeExec).GetDir, Wide: true},
			{Header: "error", Value: (*deckhandv1.NodeExec).GetError, Wide: true},
			{Header: "jail", Value: (*deckhandv1.NodeExec).GetJailId, Wide: true},
		},
	}
}

func execPlace(x *deckhandv1.NodeExec) string {
	if x.GetTarget() == deckhandv1.NodeExecTarget_NODE_EXEC_TARGET_HOST {
		return "HOST"
	}
	return "jail"
}

func execEnd(x *deckhandv1.NodeExec) string {
	switch {
	case x.GetState() != deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED:
		return strings.ToLower(strings.TrimPrefix(x.GetState().String(), "NODE_EXEC_STATE_"))
	case x.GetEndReason() == "exited":
		return fmt.Sprintf("exited %d", x.GetExitCode())
	}
	return x.GetEndReason()
}

func (a *app) nodeKillCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kill EXEC", Short: "End a person's command with all that it started", Example: "deckhand node kill nexec_3q9",
		Args: takes("EXEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.NodeExecs.KillNodeExec(cmd.Context(), connect.NewRequest(&deckhandv1.KillNodeExecRequest{ExecId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.execNoun(), res.Msg.GetExec())
		},
	}
}
