package initd

import (
	"context"
	"math"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// running returns a run that has not ended.
func (s *server) running(id string) (*run, error) {
	r, err := s.run(id)
	if err != nil {
		return nil, err
	}
	if r.ended() || r.stub == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "%s has ended", id)
	}
	return r, nil
}

// WriteStdin implements the protocol.
func (s *server) WriteStdin(_ context.Context, req *initv1.WriteStdinRequest) (*initv1.WriteStdinResponse, error) {
	r, err := s.running(req.GetExecId())
	if err != nil {
		return nil, err
	}
	if r.input == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "%s was started without input", req.GetExecId())
	}
	timeout := time.Duration(max(0, req.GetTimeoutMs())) * time.Millisecond
	written, err := r.input.write(req.GetOffset(), req.GetData(), req.GetEof(), timeout)
	if err != nil {
		return nil, err
	}
	return &initv1.WriteStdinResponse{Written: written}, nil
}

// Signal implements the protocol.
func (s *server) Signal(_ context.Context, req *initv1.SignalRequest) (*initv1.SignalResponse, error) {
	r, err := s.running(req.GetExecId())
	if err != nil {
		return nil, err
	}
	if req.GetSignal() < 1 || req.GetSignal() > 64 {
		return nil, status.Errorf(codes.InvalidArgument, "%d is no signal", req.GetSignal())
	}
	st := r.snapshot()
	out := &initv1.SignalResponse{}
	s.gate.do(func() {
		for _, pid := range s.trees.members(r.stub) {
			// Once the command itself has exited its number may be another's.
			if !req.GetTree() && (pid != int(st.GetPid()) || st.GetLeaderExited()) {
				continue
			}
			if unix.Kill(pid, unix.Signal(req.GetSignal())) == nil {
				out.Sent++
			}
		}
	})
	return out, nil
}

// Resize implements the protocol.
func (s *server) Resize(_ context.Context, req *initv1.ResizeRequest) (*initv1.ResizeResponse, error) {
	r, err := s.running(req.GetExecId())
	if err != nil {
		return nil, err
	}
	if r.pty == nil {
		return nil, status.Errorf(codes.FailedPrecondition, "%s has no terminal", req.GetExecId())
	}
	if req.GetRows() < 1 || req.GetCols() < 1 || req.GetRows() > math.MaxUint16 || req.GetCols() > math.MaxUint16 {
		return nil, status.Error(codes.InvalidArgument, "a terminal has 1 to 65535 rows and columns")
	}
	s.gate.do(func() {
		// In the log first: what the program draws for the new size comes after.
		if err = r.log.Resize(uint16(req.GetRows()), uint16(req.GetCols())); err == nil {
			err = setSize(r.pty, req.GetRows(), req.GetCols())
		}
	})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "resize the terminal: %v", err)
	}
	return &initv1.ResizeResponse{}, nil
}
