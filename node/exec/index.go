package exec

import (
	"context"
	"errors"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/execlog"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// countBudget limits how many bytes of a log one call counts: a caller shows how far
	// it is between two calls.
	countBudget = 128 << 20
	leastRow    = 100
	maxRow      = 64 << 10
)

// IndexLog implements the service.
func (s *Service) IndexLog(ctx context.Context, req *nodev1.IndexLogRequest) (*nodev1.IndexLogResponse, error) {
	out, err := s.indexLog(ctx, req)
	if err != nil {
		return nil, s.fail("index a log", err)
	}
	return out, nil
}

func (s *Service) indexLog(ctx context.Context, req *nodev1.IndexLogRequest) (*nodev1.IndexLogResponse, error) {
	if row := req.GetRowBytes(); req.GetOffset() < 0 || req.GetStride() < 0 || row != 0 && (row < leastRow || row > maxRow) {
		return nil, fault.New(fault.Invalid, "offset and stride must not be negative, and row_bytes must be 0 or from %d to %d", leastRow, maxRow).
			WithCode(fault.InvalidParameters).WithObject(req.GetExecId())
	}
	log, w, err := s.findLog(ctx, req.GetExecId())
	if err != nil {
		return nil, err
	}
	if log == nil {
		return &nodev1.IndexLogResponse{Complete: true, Ended: w == nil, NextOffset: req.GetOffset()}, nil
	}
	defer log.Close()
	if wait := req.GetWait().AsDuration(); w != nil && wait > 0 {
		if err := s.grown(ctx, log, w, req); err != nil {
			return nil, err
		}
	}
	// Whether it has ended is asked before counting: what was written until then is counted.
	ended := w == nil || isDone(w)
	counted, err := log.CountLines(ctx, execlog.Count{
		Offset: req.GetOffset(), Row: int64(req.GetRowBytes()), Stride: req.GetStride(), Budget: countBudget,
	})
	if err != nil {
		return nil, err
	}
	out := &nodev1.IndexLogResponse{
		NextOffset: counted.Next.Offset, Rows: counted.Next.Rows, Lines: counted.Next.Lines, Continued: counted.Next.Continued,
		End: counted.End, Complete: counted.Complete, Ended: ended,
	}
	for _, m := range counted.Marks {
		out.Marks = append(out.Marks, &nodev1.LogMark{Offset: m.Offset, Rows: m.Rows, Lines: m.Lines, Continued: m.Continued})
	}
	return out, nil
}

// grown waits for output, for as long as a request says. Those who wait are counted
// with those who follow logs.
func (s *Service) grown(ctx context.Context, log *execlog.Reader, w *watch, req *nodev1.IndexLogRequest) error {
	defer s.follows.Add(-1)
	if s.follows.Add(1) > MaxFollows {
		return fault.New(fault.Exhausted, "%d readers follow logs of this node already", MaxFollows).
			WithCode(fault.RateLimited).WithFix("try again when one of them has ended, or do not wait")
	}
	limited, cancel := context.WithTimeout(ctx, req.GetWait().AsDuration())
	defer cancel()
	err := log.Grown(limited, req.GetSeen(), w.done)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

func isDone(w *watch) bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
