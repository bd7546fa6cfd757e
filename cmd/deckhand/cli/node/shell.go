package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// shellOptions are the flags of node shell.
type shellOptions struct {
	where target
	open  *deckhandv1.OpenTerminalRequest_Open
}

func shellCommand(e *env.Env) *cobra.Command {
	o := shellOptions{open: &deckhandv1.OpenTerminalRequest_Open{}}
	cmd := &cobra.Command{
		Use: "shell NODE --agent AGENT|--task TASK|--host", Short: "Open a terminal in a jail or on the node itself",
		Long: `Opens a shell on a node. The prompt says where you are: jail:AGENT in green, or
HOST:NODE in red. What the terminal shows is recorded on the node; what you type
is not, unless the terminal shows it. When this program is cut off the shell is
hung up.`,
		Example: `deckhand node shell web-1 --agent log-triage
deckhand node shell web-1 --host --reason "why is the disk full?"`,
		Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.where.check(cmd); err != nil {
				return err
			}
			in, ok := e.In.(term.File)
			if !ok || !term.IsTerminal(in.Fd()) || !output.IsTerminal(e.Out) {
				return env.Usage(cmd, "a shell needs a terminal for input and output: for programs there is `deckhand node exec`")
			}
			o.open.NodeId = args[0]
			o.open.Target = &deckhandv1.OpenTerminalRequest_Open_AgentId{AgentId: o.where.agent}
			switch {
			case o.where.task != "":
				o.open.Target = &deckhandv1.OpenTerminalRequest_Open_TaskId{TaskId: o.where.task}
			case o.where.host:
				o.open.Target = &deckhandv1.OpenTerminalRequest_Open_Host{Host: true}
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return nodeShell(cmd.Context(), e, client, in, o.open)
		},
	}
	o.where.register(cmd)
	cmd.Flags().StringVar(&o.open.Reason, "reason", "", "why, for the record and for those who wait for the lock")
	return cmd
}

// nodeShell opens a terminal and is it until the shell has ended.
func nodeShell(ctx context.Context, e *env.Env, client *sdk.Client, in term.File, open *deckhandv1.OpenTerminalRequest_Open) error {
	// What others wrote is shown as it is from here on: it is a terminal.
	open.Size, open.NoColour = windowSize(in), output.Colours(e.Out) == colorprofile.NoTTY
	if name := os.Getenv("TERM"); name != "dumb" {
		open.Term = name
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Terminals.OpenTerminal(ctx)
	if err != nil {
		return fault.FromConnect(err)
	}
	defer func() { _ = stream.CloseResponse() }()
	if err := sent(stream.Send(&deckhandv1.OpenTerminalRequest{Message: &deckhandv1.OpenTerminalRequest_Open_{Open: open}})); err != nil {
		return fault.FromConnect(err)
	}
	first, err := stream.Receive()
	if err != nil {
		return fault.FromConnect(err)
	}
	exec := first.GetOpened()
	e.Notef("%s", output.Dim.Render(fmt.Sprintf("%s, recorded; leave with exit or Ctrl-D", termsafe.Line(exec.GetId()))))

	before, err := term.MakeRaw(in.Fd())
	if err != nil {
		return fmt.Errorf("switch the terminal to raw mode: %w", err)
	}
	restore := sync.OnceFunc(func() { _ = term.Restore(in.Fd(), before) })
	defer restore()
	keys := &keyboard{stream: stream}
	go keys.read(in)
	defer keys.watch(in)()

	for {
		message, err := stream.Receive()
		if err != nil {
			restore()
			if errors.Is(err, io.EOF) {
				return env.Failed(statusLost, fault.New(fault.Unavailable, "the terminal ended, and nobody can tell how").
					WithFix("see `deckhand node execs`"))
			}
			return fault.FromConnect(err)
		}
		if ended := message.GetEnded(); ended != nil {
			restore()
			return execStatus(e, ended)
		}
		if _, err := e.Out.Write(message.GetOutput()); err != nil {
			return err
		}
	}
}

// sent takes the error of a stream's end for none: why it ended is received.
func sent(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
