package api

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Terminals serves TerminalService.
type Terminals struct {
	*NodeExecs

	// Draining ends when the hub is about to stop: terminals end then.
	Draining context.Context
}

// terminalStream is the person's end.
type terminalStream = duplex[deckhandv1.OpenTerminalRequest, deckhandv1.OpenTerminalResponse]

const (
	// terminalTimeout is the longest that a terminal stays open.
	terminalTimeout = 12 * time.Hour
	// hangUpTime bounds the kill of a shell whose person has left.
	hangUpTime = 20 * time.Second
	// endTime is how long a terminal waits for its end to be written.
	endTime = 10 * time.Second
)

// OpenTerminal starts a shell and transfers its input and output.
func (h *Terminals) OpenTerminal(ctx context.Context, stream *connect.BidiStream[deckhandv1.OpenTerminalRequest, deckhandv1.OpenTerminalResponse]) error {
	return h.Serve(ctx, stream)
}

// Serve is a terminal from its first message to its last.
func (h *Terminals) Serve(ctx context.Context, stream terminalStream) error {
	ctx, cancel := until(ctx, h.Draining)
	defer cancel()
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return fault.New(fault.Invalid, "the first message of a terminal must be open").WithFix("send open, then input and resize")
	}
	r, err := h.request(ctx, open)
	if err != nil {
		return err
	}
	label := "HOST:" + r.Node.Name
	if !r.Host {
		row, err := h.Agents.Get(ctx, r.OrgID, r.AgentID)
		if err != nil {
			return err
		}
		label = "jail:" + row.Agent.Name
	}
	if r.Reason == "" {
		r.Reason = "a terminal"
	}
	r.Argv, r.Env = shell(label, r.Host, open.GetNoColour()), []string{"TERM=" + term(open.GetTerm())}
	r.Timeout, r.Pty, r.Shell = terminalTimeout, pty(open.GetSize()), !r.Host
	row, err := h.Execs.Submit(ctx, r)
	if err != nil {
		return err
	}
	link, err := h.Node(r.Node.ID)
	if err == nil {
		err = stream.Send(&deckhandv1.OpenTerminalResponse{Message: &deckhandv1.OpenTerminalResponse_Opened{Opened: execMessage(row)}})
	}
	if err == nil {
		err = h.carry(ctx, stream, link, row)
	}
	if err != nil {
		h.hangUp(context.WithoutCancel(ctx), row)
		if h.Draining.Err() != nil {
			return fault.New(fault.Unavailable, "the hub is stopping, and this terminal with it").WithFix("open another in a moment")
		}
		return err
	}
	end, err := h.Execs.Wait(ctx, row.NodeExec.OrgID, row.NodeExec.ID, endTime)
	if err != nil {
		return err
	}
	return stream.Send(&deckhandv1.OpenTerminalResponse{Message: &deckhandv1.OpenTerminalResponse_Ended{Ended: execMessage(end)}})
}

// hangUp ends a shell whose person has left.
func (h *Terminals) hangUp(ctx context.Context, row db.GetNodeExecRow) {
	by := userOf(auth.From(ctx))
	ctx, cancel := context.WithTimeout(ctx, hangUpTime)
	defer cancel()
	// A node that cannot be reached now ends the shell by its offline grace, and
	// its end is written by the follower.
	_, _ = h.Execs.Kill(ctx, row.NodeExec.OrgID, row.NodeExec.ID, by, "hung up")
}

// carry transfers input and output until the shell has ended, or returns why it cannot.
func (h *Terminals) carry(ctx context.Context, stream terminalStream, link machine.Link, row db.GetNodeExecRow) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The goroutine is not waited for: Receive returns when the handler has returned, and
	// then it ends.
	go func() {
		if err := typed(ctx, stream, link, row.NodeExec.ID); err != nil {
			cancel(err)
		}
	}()
	in, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: row.NodeExec.ID, Follow: true})
	for err == nil {
		var piece *nodev1.ReadLogResponse
		if piece, err = in.Recv(); err != nil {
			break
		}
		if len(piece.GetData()) == 0 {
			continue
		}
		err = stream.Send(&deckhandv1.OpenTerminalResponse{Message: &deckhandv1.OpenTerminalResponse_Output{Output: piece.GetData()}})
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case context.Cause(ctx) != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fault.FromGRPC(err)
}

// typed passes on what the person types, each byte once, and the sizes of
// their window.
func typed(ctx context.Context, stream terminalStream, link machine.Link, execID string) error {
	var offset int64
	for {
		message, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return write(ctx, link, execID, &offset, nil, true)
		}
		if err != nil {
			return err
		}
		switch m := message.GetMessage().(type) {
		case *deckhandv1.OpenTerminalRequest_Input:
			err = write(ctx, link, execID, &offset, m.Input, false)
		case *deckhandv1.OpenTerminalRequest_Resize:
			_, err = link.Exec().ResizeExec(ctx, &nodev1.ResizeExecRequest{ExecId: execID, Pty: pty(m.Resize)})
			if err != nil && fault.Is(fault.FromGRPC(err), fault.Precondition) {
				err = nil // it has just ended
			}
		default:
			return fault.New(fault.Invalid, "a terminal is opened once").WithFix("send input and resize after open")
		}
		if err != nil {
			return err
		}
	}
}

// write sends input to the shell, as fast as the shell reads it.
func write(ctx context.Context, link machine.Link, execID string, offset *int64, data []byte, eof bool) error {
	for {
		res, err := link.Exec().WriteStdin(ctx, &nodev1.WriteStdinRequest{ExecId: execID, Offset: *offset, Data: data, Eof: eof})
		if err != nil {
			err = fault.FromGRPC(err)
			if fault.Is(err, fault.Precondition) {
				return nil // the shell has just ended: the output shows it
			}
			return err
		}
		taken := min(max(res.GetWritten()-*offset, 0), int64(len(data)))
		*offset += taken
		if data = data[taken:]; len(data) == 0 {
			return nil
		}
	}
}

func pty(s *deckhandv1.TerminalSize) *nodev1.Pty {
	return &nodev1.Pty{Rows: s.GetRows(), Cols: s.GetCols()}
}

func term(t string) string {
	if t == "" {
		return "xterm-256color"
	}
	return t
}

// shell returns the command of the shell: bash if it exists, with a prompt that shows
// where it runs. No start-up file may change the prompt.
func shell(label string, host, noColour bool) []string {
	// Names have none of these; the prompt must be safe if that ever changes.
	label = strings.Map(func(r rune) rune {
		if strings.ContainsRune("\\`$!'\"", r) || r < ' ' {
			return '_'
		}
		return r
	}, label)
	const green, red = "1;32", "1;31"
	colour, sign := green, "$"
	if host {
		colour, sign = red, "#"
	}
	bash, plain := label, label
	if !noColour {
		bash = `\[\e[` + colour + `m\]` + label + `\[\e[0m\]`
		plain = "\x1b[" + colour + "m" + label + "\x1b[0m"
	}
	return []string{
		"/bin/sh", "-c",
		`if [ -x /bin/bash ]; then export PS1="$1"; exec /bin/bash --noprofile --norc -i; fi; export PS1="$2"; exec /bin/sh -i`,
		nodeexec.Kind, bash + ` \w ` + sign + " ", plain + " " + sign + " ",
	}
}
