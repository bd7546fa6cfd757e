package nodetest

import (
	"bytes"
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Live is a running command, as its function sees it.
type Live struct {
	Spec *nodev1.ExecSpec
	// Input is what it is given, until it is closed at the input's end.
	Input chan []byte
	// Sizes are those that its terminal is given.
	Sizes chan *nodev1.Pty

	mu      sync.Mutex
	changed chan struct{} // closed and renewed with each piece
	log     []*nodev1.ReadLogResponse
	written int64
	read    int64
}

func newLive(spec *nodev1.ExecSpec) *Live {
	return &Live{Spec: spec, Input: make(chan []byte, 64), Sizes: make(chan *nodev1.Pty, 64), changed: make(chan struct{})}
}

// Write adds to the command's output.
func (l *Live) Write(stream nodev1.LogStream, data string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, &nodev1.ReadLogResponse{Offset: l.written, Stream: stream, Data: []byte(data), Time: timestamppb.Now()})
	l.written += int64(len(data))
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Live) end() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// run runs a command's function.
func (n *Node) run(ctx context.Context, l *Live) *nodev1.Exec {
	end := &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	switch {
	case n.cfg.Live != nil:
		end = n.cfg.Live(ctx, l)
	case n.cfg.Run != nil:
		var output string
		if output, end = n.cfg.Run(ctx, l.Spec); output != "" {
			l.Write(nodev1.LogStream_LOG_STREAM_STDOUT, output)
		}
	}
	return end
}

// ReadLog returns the output, of a command that continues if it is asked to.
func (n *Node) ReadLog(req *nodev1.ReadLogRequest, out grpc.ServerStreamingServer[nodev1.ReadLogResponse]) error {
	c, err := n.command(req.GetExecId())
	if err != nil {
		return err
	}
	if !req.GetFollow() {
		<-c.done
	}
	left := req.GetLimit()
	for next := 0; ; {
		ended := false
		select {
		case <-c.done:
			ended = true
		default:
		}
		c.mu.Lock()
		pieces, changed := c.log[next:], c.changed
		c.mu.Unlock()
		next += len(pieces)
		for _, p := range pieces {
			skip := max(req.GetOffset()-p.GetOffset(), 0)
			if skip >= int64(len(p.GetData())) {
				continue
			}
			data := p.GetData()[skip:]
			if req.GetLimit() > 0 {
				data = data[:min(left, int64(len(data)))]
				left -= int64(len(data))
			}
			if len(data) == 0 {
				return nil
			}
			if err := out.Send(&nodev1.ReadLogResponse{Offset: p.GetOffset() + skip, Stream: p.GetStream(), Data: data, Time: p.GetTime()}); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-changed:
		case <-c.done:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

// SearchLog finds a text in the output.
func (n *Node) SearchLog(_ context.Context, req *nodev1.SearchLogRequest) (*nodev1.SearchLogResponse, error) {
	c, err := n.command(req.GetExecId())
	if err != nil {
		return nil, err
	}
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	res := &nodev1.SearchLogResponse{Complete: true, NextOffset: c.written}
	for _, p := range c.log {
		if at := bytes.Index(p.GetData(), []byte(req.GetPattern())); at >= 0 {
			res.Matches = append(res.Matches, &nodev1.LogMatch{
				Offset: p.GetOffset() + int64(at), Length: int64(len(req.GetPattern())), Stream: p.GetStream(), Time: p.GetTime(),
				Excerpt: p.GetData(), ExcerptOffset: p.GetOffset(),
			})
		}
	}
	return res, nil
}

// IndexLog counts the lines of the output, of which each is a row.
func (n *Node) IndexLog(_ context.Context, req *nodev1.IndexLogRequest) (*nodev1.IndexLogResponse, error) {
	c, err := n.command(req.GetExecId())
	if err != nil {
		return nil, err
	}
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines int64
	for _, p := range c.log {
		lines += int64(bytes.Count(p.GetData(), []byte("\n")))
	}
	return &nodev1.IndexLogResponse{
		Marks: []*nodev1.LogMark{{}}, Rows: lines, Lines: lines, NextOffset: c.written, End: c.written, Complete: true, Ended: true,
	}, nil
}

// WriteStdin gives a command input.
func (n *Node) WriteStdin(ctx context.Context, req *nodev1.WriteStdinRequest) (*nodev1.WriteStdinResponse, error) {
	c, err := n.command(req.GetExecId())
	if err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		return nil, fault.ToGRPC(fault.New(fault.Precondition, "exec %s has ended", req.GetExecId()))
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	if len(req.GetData()) > 0 {
		select {
		case c.Input <- req.GetData():
		case <-c.done:
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = req.GetOffset() + int64(len(req.GetData()))
	if req.GetEof() {
		close(c.Input)
	}
	return &nodev1.WriteStdinResponse{Written: c.read}, nil
}

// ResizeExec changes the size of a command's terminal.
func (n *Node) ResizeExec(_ context.Context, req *nodev1.ResizeExecRequest) (*nodev1.ResizeExecResponse, error) {
	c, err := n.command(req.GetExecId())
	if err != nil {
		return nil, err
	}
	c.Sizes <- req.GetPty()
	return &nodev1.ResizeExecResponse{}, nil
}
