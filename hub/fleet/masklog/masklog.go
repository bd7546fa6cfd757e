// Package masklog masks secrets in the command logs of a node. A node masks text that has
// the format of a secret; the values in use are known to the hub alone, which never sends
// them to a node. So each log is masked once more when any reader gets it through the
// hub: by markers as long as the values, so that offsets stay valid.
//
// A value is recognised even if a reader begins or ends in the middle of it: the text
// before and after is read too, and not shown. If the node cannot deliver that text, the
// read fails.
package masklog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Masked returns a node whose command logs are masked.
func Masked(node machine.Link, r *redact.Redactor) machine.Link { return masked{node, r} }

type masked struct {
	machine.Link

	redact *redact.Redactor
}

// Exec returns the node's exec service.
func (m masked) Exec() nodev1.ExecServiceClient { return execs{m.Link.Exec(), m.redact} }

type execs struct {
	nodev1.ExecServiceClient

	redact *redact.Redactor
}

// ReadLog reads a log, masked.
func (e execs) ReadLog(ctx context.Context, req *nodev1.ReadLogRequest, opts ...grpc.CallOption) (nodev1.ExecService_ReadLogClient, error) {
	in, err := e.ExecServiceClient.ReadLog(ctx, req, opts...)
	if err != nil {
		return nil, err
	}
	return &reading{ExecService_ReadLogClient: in, ctx: ctx, execs: e, req: req, view: view{redact: e.redact}}, nil
}

// reading is a log that is being read.
type reading struct {
	nodev1.ExecService_ReadLogClient

	ctx   context.Context //nolint:containedctx // a reading belongs to one call
	execs execs
	req   *nodev1.ReadLogRequest
	view  view
	// from is the offset of the first byte, and to that behind the last.
	from, to int64
	begun    bool
	ready    []*nodev1.ReadLogResponse
	end      error
}

// Recv returns the next piece that may be shown.
func (r *reading) Recv() (*nodev1.ReadLogResponse, error) {
	for len(r.ready) == 0 {
		if r.end != nil {
			return nil, r.end
		}
		piece, err := r.ExecService_ReadLogClient.Recv()
		switch {
		case errors.Is(err, io.EOF):
			r.end = err
			err = r.finish()
		case err == nil:
			err = r.take(piece)
		}
		if err != nil {
			r.end = err
			return nil, err
		}
	}
	piece := r.ready[0]
	r.ready = r.ready[1:]
	return piece, nil
}

// take adds the next piece, and before the first one the text in front of it.
func (r *reading) take(piece *nodev1.ReadLogResponse) error {
	if n := int64(len(piece.GetData())); n > 0 {
		if !r.begun {
			r.begun, r.from = true, piece.GetOffset()
			if err := r.beside(max(0, r.from-int64(r.execs.redact.Reach())), r.from); err != nil {
				return err
			}
		}
		r.to = piece.GetOffset() + n
	}
	r.view.add(piece, true)
	r.ready = r.view.settle(false)
	return nil
}

// beside has bytes that are not to be shown.
func (r *reading) beside(from, to int64) error {
	if from >= to {
		return nil
	}
	in, err := r.execs.ExecServiceClient.ReadLog(r.ctx, &nodev1.ReadLogRequest{ExecId: r.req.GetExecId(), Offset: from, Limit: to - from})
	for err == nil {
		var piece *nodev1.ReadLogResponse
		if piece, err = in.Recv(); err == nil && len(piece.GetData()) > 0 {
			r.view.add(piece, false)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// finish shows the text that was withheld at the end: it was the beginning of a value, or
// looked like one. If the log continues, the text that follows decides.
func (r *reading) finish() error {
	if r.view.held() == 0 {
		r.ready = r.view.settle(true)
		return nil
	}
	if err := r.beside(r.to, r.to+int64(r.execs.redact.Reach())); err != nil {
		return err
	}
	if r.ready = r.view.settle(false); r.view.held() == 0 || !r.req.GetFollow() && r.live() {
		return nil
	}
	r.ready = append(r.ready, r.view.settle(true)...)
	return nil
}

// live reports whether more may be written.
func (r *reading) live() bool {
	res, err := r.execs.WaitExec(r.ctx, &nodev1.WaitExecRequest{ExecId: r.req.GetExecId(), Timeout: durationpb.New(time.Millisecond)})
	return err != nil || res.GetExec().GetEndReason() == nodev1.EndReason_END_REASON_UNSPECIFIED
}

// view is the part of a log that is examined: pieces to show, pieces that wait, and the
// text before them.
type view struct {
	redact *redact.Redactor
	pieces []*piece
}

// piece is one of the node's pieces, of which done bytes need not be shown any more.
type piece struct {
	*nodev1.ReadLogResponse

	done  int
	shown bool
}

// add appends a piece, to be shown or only examined.
func (v *view) add(p *nodev1.ReadLogResponse, show bool) {
	one := &piece{ReadLogResponse: p}
	if !show {
		one.done, one.shown = len(p.GetData()), true
	}
	v.pieces = append(v.pieces, one)
}

// held returns how many bytes wait.
func (v *view) held() (n int) {
	for _, p := range v.pieces {
		n += len(p.GetData()) - p.done
	}
	return n
}

// settle returns what may be shown now, masked; with whole all that is there.
func (v *view) settle(whole bool) (out []*nodev1.ReadLogResponse) {
	text, settled := v.mask()
	if whole {
		settled = len(text)
	}
	at := 0
	for _, p := range v.pieces {
		n := len(p.GetData())
		if n == 0 { // a gap, or a new size of the terminal
			if !p.shown {
				p.shown = true
				out = append(out, p.ReadLogResponse)
			}
			continue
		}
		if good := min(n, settled-at); good > p.done {
			part := proto.CloneOf(p.ReadLogResponse)
			part.Offset, part.Data = p.GetOffset()+int64(p.done), text[at+p.done:at+good]
			out = append(out, part)
			p.done = good
		}
		if at += n; p.done < n {
			break
		}
	}
	v.forget()
	return out
}

// mask returns the view's bytes masked, as they are and stream by stream, since
// one may cut the other's secret in two; and how many are settled.
func (v *view) mask() (text []byte, settled int) {
	for _, p := range v.pieces {
		text = append(text, p.GetData()...)
	}
	settled = len(text)
	parts := v.parts()
	var raw []byte
	if len(parts) > 0 {
		raw = bytes.Clone(text)
	}
	for _, p := range parts {
		for i, at := range p.at {
			p.data[i] = text[at]
		}
		if known := v.redact.MaskValues(p.data); known < len(p.data) {
			settled = min(settled, p.at[known])
		}
	}
	settled = min(settled, v.redact.MaskValues(text))
	for _, p := range parts {
		for i, c := range p.data {
			if c != raw[p.at[i]] {
				text[p.at[i]] = c
			}
		}
	}
	return text, settled
}

// part is one stream's share of a view, and where in it each byte is.
type part struct {
	data []byte
	at   []int
}

// parts splits the view by streams; nil if there is only one.
func (v *view) parts() map[nodev1.LogStream]*part {
	size := map[nodev1.LogStream]int{}
	for _, p := range v.pieces {
		size[p.GetStream()] += len(p.GetData())
	}
	delete(size, nodev1.LogStream_LOG_STREAM_UNSPECIFIED)
	if len(size) < 2 {
		return nil
	}
	out, raw := map[nodev1.LogStream]*part{}, 0
	for _, p := range v.pieces {
		n := len(p.GetData())
		of := out[p.GetStream()]
		if of == nil {
			of = &part{at: make([]int, 0, size[p.GetStream()])}
			out[p.GetStream()] = of
		}
		for i := range n {
			of.at = append(of.at, raw+i)
		}
		raw += n
	}
	for _, p := range out {
		p.data = make([]byte, len(p.at))
	}
	return out
}

// forget discards what no value can extend into any more.
func (v *view) forget() {
	reach, kept := v.redact.Reach(), 0
	for i := len(v.pieces) - 1; i >= 0; i-- {
		p := v.pieces[i]
		n := len(p.GetData())
		if p.done < n || n == 0 && !p.shown {
			continue
		}
		if kept >= reach {
			v.pieces = v.pieces[i+1:]
			return
		}
		if extra := kept + n - reach; extra > 0 {
			p.ReadLogResponse = &nodev1.ReadLogResponse{Offset: p.GetOffset() + int64(extra), Stream: p.GetStream(), Data: p.GetData()[extra:]}
			p.done -= extra
		}
		kept += n
	}
}
