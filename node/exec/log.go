package exec

import (
	"context"
	"errors"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/execlog"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// openLog opens the log of an exec, masked. It returns os.ErrNotExist if there
// is none.
func (s *Service) openLog(spec *nodev1.ExecSpec) (*execlog.Reader, error) {
	dir, err := s.jails.OpenExec(spec.GetJailId(), spec.GetExecId())
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	log, err := execlog.Open(dir)
	if err != nil {
		return nil, err
	}
	log.SetMask(s.mask)
	return log, nil
}

// findLog returns the log of an exec and, while it runs, its watch. Both are
// nil if it never wrote anything.
func (s *Service) findLog(ctx context.Context, id string) (*execlog.Reader, *watch, error) {
	rec, err := s.find(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	var w *watch
	if rec.GetResult() == nil {
		if w, err = s.watching(ctx, rec); err != nil {
			return nil, nil, err
		}
		// The log exists once the exec is known to be running.
		if err := w.await(ctx, w.known); err != nil {
			return nil, nil, err
		}
	}
	if at := rec.GetResult().GetLogDeletedAt(); at != nil {
		return nil, nil, logDeleted(id, at)
	}
	if rec.GetSpec().GetJailId() == "" {
		return nil, nil, nil // killed before it started
	}
	log, err := s.openLog(rec.GetSpec())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, s.logGone(ctx, id)
	}
	return log, w, err
}

// logGone returns why an exec has no log, or nil if it never wrote anything.
func (s *Service) logGone(ctx context.Context, id string) error {
	rec, err := s.find(ctx, id)
	switch {
	case err != nil:
		return err
	case rec.GetResult().GetLogDeletedAt() != nil:
		return logDeleted(id, rec.GetResult().GetLogDeletedAt())
	case rec.GetResult().GetLogBytes() > 0:
		return fault.New(fault.NotFound, "the log of exec %s was deleted with its jail", id).WithObject(id)
	}
	return nil
}

func logDeleted(id string, at *timestamppb.Timestamp) error {
	return fault.New(fault.NotFound, "the log of exec %s was deleted at %s, because of its age or to make room", id, at.AsTime().Format("2006-01-02 15:04:05 MST")).
		WithFix("keep logs longer, or let them take more room, in the node's configuration").WithObject(id)
}

// MaxFollows limits how many readers may follow logs at once: each needs an
// open log and a goroutine of the daemon. Reading existing output, as steps do
// when their command has ended, is not counted.
const MaxFollows = 256

// ReadLog implements the service.
func (s *Service) ReadLog(req *nodev1.ReadLogRequest, stream grpc.ServerStreamingServer[nodev1.ReadLogResponse]) error {
	if err := s.readLog(req, stream); err != nil {
		return s.fail("read a log", err)
	}
	return nil
}

func (s *Service) readLog(req *nodev1.ReadLogRequest, stream grpc.ServerStreamingServer[nodev1.ReadLogResponse]) error {
	ctx := stream.Context()
	if err := validateRead(req); err != nil {
		return err
	}
	if req.GetFollow() {
		defer s.follows.Add(-1)
		if s.follows.Add(1) > MaxFollows {
			return fault.New(fault.Exhausted, "%d readers follow logs of this node already", MaxFollows).
				WithCode(fault.RateLimited).WithFix("try again when one of them has ended, or read without following")
		}
	}
	log, w, err := s.findLog(ctx, req.GetExecId())
	if err != nil || log == nil {
		return err
	}
	defer log.Close()
	rng := execlog.Range{Limit: req.GetLimit(), Live: w != nil && !req.GetFollow()}
	if req.Until != nil {
		rng.Until = req.GetUntil().AsTime()
	}
	if w != nil && req.GetFollow() {
		rng.Ended = w.done
	}
	if rng.Offset, err = beginning(log, req); err != nil {
		return err
	}
	return log.Read(ctx, rng, func(c execlog.Chunk) error { return stream.Send(chunk(c)) })
}

func validateRead(req *nodev1.ReadLogRequest) error {
	if req.GetOffset() < 0 || req.GetLimit() < 0 || req.GetTailLines() < 0 || req.GetTailBytes() < 0 {
		return fault.New(fault.Invalid, "offset, limit, tail_lines and tail_bytes must not be negative")
	}
	named := 0
	for _, is := range []bool{req.GetOffset() > 0, req.Since != nil, req.GetTailLines() > 0, req.GetTailBytes() > 0} {
		if is {
			named++
		}
	}
	if named > 1 {
		return fault.New(fault.Invalid, "more than one of offset, since, tail_lines and tail_bytes is set").
			WithFix("say in one way where to begin")
	}
	return nil
}

// beginning returns the offset at which a request begins.
func beginning(log *execlog.Reader, req *nodev1.ReadLogRequest) (int64, error) {
	switch {
	case req.Since != nil:
		return log.At(req.GetSince().AsTime())
	case req.GetTailLines() > 0:
		return log.TailLines(req.GetTailLines())
	case req.GetTailBytes() > 0:
		return log.TailBytes(req.GetTailBytes())
	}
	return req.GetOffset(), nil
}

// chunk returns a chunk of a log as a response message.
func chunk(c execlog.Chunk) *nodev1.ReadLogResponse {
	out := &nodev1.ReadLogResponse{Offset: c.Offset}
	if !c.Time.IsZero() {
		out.Time = timestamppb.New(c.Time)
	}
	switch c.Stream {
	case execlog.Gap:
		out.Gap = &nodev1.LogGap{From: c.Offset, To: c.To, Reason: nodev1.GapReason(c.Reason)}
	case execlog.Resize:
		out.Resize = &nodev1.Pty{Rows: uint32(c.Rows), Cols: uint32(c.Cols)}
	default:
		out.Stream, out.Data = nodev1.LogStream(c.Stream), c.Data
	}
	return out
}
