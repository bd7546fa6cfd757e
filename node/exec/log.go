package exec

import (
	"errors"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/execlog"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// openLog opens the log of an exec; os.ErrNotExist when it has none.
func (s *Service) openLog(spec *nodev1.ExecSpec) (*execlog.Reader, error) {
	dir, err := s.jails.OpenExec(spec.GetJailId(), spec.GetExecId())
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return execlog.Open(dir)
}

// ReadLog implements the service.
func (s *Service) ReadLog(req *nodev1.ReadLogRequest, stream grpc.ServerStreamingServer[nodev1.ReadLogResponse]) error {
	if err := s.readLog(req, stream); err != nil {
		return s.fail("read a log", err)
	}
	return nil
}

func (s *Service) readLog(req *nodev1.ReadLogRequest, stream grpc.ServerStreamingServer[nodev1.ReadLogResponse]) error {
	ctx := stream.Context()
	if req.GetOffset() < 0 || req.GetLimit() < 0 {
		return fault.New(fault.Invalid, "offset and limit must not be negative")
	}
	rec, err := s.find(ctx, req.GetExecId())
	if err != nil {
		return err
	}
	rng := execlog.Range{Offset: req.GetOffset(), Limit: req.GetLimit()}
	if rec.GetResult() == nil {
		w, err := s.watching(ctx, rec)
		if err != nil {
			return err
		}
		// Its log is there once it is known to run.
		if err := w.await(ctx, w.known); err != nil {
			return err
		}
		if req.GetFollow() {
			rng.Ended = w.done
		}
	}
	log, err := s.openLog(rec.GetSpec())
	if errors.Is(err, os.ErrNotExist) {
		if rec.GetResult().GetLogBytes() > 0 {
			return fault.New(fault.NotFound, "the log of exec %s is gone with its jail", req.GetExecId()).WithObject(req.GetExecId())
		}
		return nil // it never wrote anything
	}
	if err != nil {
		return err
	}
	defer log.Close()
	return log.Read(ctx, rng, func(c execlog.Chunk) error {
		out := &nodev1.ReadLogResponse{Offset: c.Offset, Stream: nodev1.LogStream(c.Stream), Data: c.Data}
		if !c.Time.IsZero() {
			out.Time = timestamppb.New(c.Time)
		}
		return stream.Send(out)
	})
}
