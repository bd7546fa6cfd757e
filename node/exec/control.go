package exec

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/jail"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// control is the version of init's protocol that introduced terminals, input
// and signals.
const control = 2

// canTake rejects an exec that uses features that the jail's init, which may be
// from an older release, does not support.
func canTake(ctx context.Context, conn *jail.Init, spec *nodev1.ExecSpec) error {
	if spec.GetPty() == nil && !spec.GetStdinOpen() && spec.GetOutputLimitBytes() == 0 && spec.OfflineGrace == nil {
		return nil
	}
	info, err := conn.Info(ctx, &initv1.InfoRequest{})
	if err != nil {
		return fmt.Errorf("ask the jail's init for its protocol: %w", err)
	}
	if info.GetProtocol() < control {
		return oldInit(spec.GetJailId())
	}
	return nil
}

func oldInit(jailID string) error {
	return fault.New(fault.Precondition, "jail %s has run since before this node was upgraded, and cannot do this yet", jailID).
		WithFix("stop the jail once its commands have ended; the next command starts it again").WithObject(jailID)
}

// running returns the spec and the init of a running exec.
func (s *Service) running(ctx context.Context, id string) (*nodev1.ExecSpec, *jail.Init, error) {
	rec, err := s.find(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if rec.GetResult() != nil {
		return nil, nil, hasEnded(id)
	}
	w, err := s.watching(ctx, rec)
	if err != nil {
		return nil, nil, err
	}
	if err := w.await(ctx, w.known); err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	conn, state := w.conn, w.now.GetState()
	w.mu.Unlock()
	if state == nodev1.ExecState_EXEC_STATE_ENDED {
		return nil, nil, hasEnded(id)
	}
	if !conn.Alive() {
		return nil, nil, fault.New(fault.Unavailable, "the jail of exec %s does not answer", id).WithFix("try again").WithObject(id)
	}
	return rec.GetSpec(), conn, nil
}

func hasEnded(id string) error {
	return fault.New(fault.Precondition, "exec %s has ended", id).WithObject(id)
}

// fromInit translates an error of init into one for the node's callers.
func fromInit(doing string, spec *nodev1.ExecSpec, err error) error {
	said := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.NotFound:
		return hasEnded(spec.GetExecId())
	case codes.FailedPrecondition:
		return fault.New(fault.Precondition, "%s", said).WithObject(spec.GetExecId())
	case codes.InvalidArgument, codes.OutOfRange:
		return fault.New(fault.Invalid, "%s", said).WithCode(fault.InvalidParameters).WithObject(spec.GetExecId())
	case codes.Unimplemented:
		return oldInit(spec.GetJailId())
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// WriteStdin implements the service.
func (s *Service) WriteStdin(ctx context.Context, req *nodev1.WriteStdinRequest) (*nodev1.WriteStdinResponse, error) {
	out, err := s.writeStdin(ctx, req)
	if err != nil {
		return nil, s.fail("write to an exec", err)
	}
	return out, nil
}

func (s *Service) writeStdin(ctx context.Context, req *nodev1.WriteStdinRequest) (*nodev1.WriteStdinResponse, error) {
	timeout := defaultWait
	if req.Timeout != nil {
		timeout = req.GetTimeout().AsDuration()
	}
	if req.GetOffset() < 0 || timeout < 0 || len(req.GetData()) > maxStdin {
		return nil, fault.New(fault.Invalid, "offset and timeout must not be negative, nor data be more than 1 MiB").
			WithCode(fault.InvalidParameters).WithObject(req.GetExecId())
	}
	spec, conn, err := s.running(ctx, req.GetExecId())
	if err != nil {
		return s.wasWritten(ctx, req, err)
	}
	resp, err := conn.WriteStdin(ctx, &initv1.WriteStdinRequest{
		ExecId: req.GetExecId(), Offset: req.GetOffset(), Data: req.GetData(), Eof: req.GetEof(),
		TimeoutMs: min(timeout, time.Hour).Milliseconds(),
	})
	if err != nil {
		return s.wasWritten(ctx, req, fromInit("write to an exec", spec, err))
	}
	return &nodev1.WriteStdinResponse{Written: resp.GetWritten()}, nil
}

// wasWritten handles a write to an exec that has ended. If the data was already
// written before the end, it returns the result of that write; otherwise it
// returns why.
func (s *Service) wasWritten(ctx context.Context, req *nodev1.WriteStdinRequest, why error) (*nodev1.WriteStdinResponse, error) {
	if !fault.Is(why, fault.Precondition) {
		return nil, why
	}
	rec, err := s.find(ctx, req.GetExecId())
	if err != nil {
		return nil, err
	}
	now, err := s.stands(ctx, rec)
	if err != nil {
		return nil, err
	}
	if req.GetOffset()+int64(len(req.GetData())) > now.GetStdinBytes() {
		return nil, why
	}
	return &nodev1.WriteStdinResponse{Written: now.GetStdinBytes()}, nil
}

// SignalExec implements the service.
func (s *Service) SignalExec(ctx context.Context, req *nodev1.SignalExecRequest) (*nodev1.SignalExecResponse, error) {
	spec, conn, err := s.running(ctx, req.GetExecId())
	if err != nil {
		return nil, s.fail("signal an exec", err)
	}
	resp, err := conn.Signal(ctx, &initv1.SignalRequest{ExecId: req.GetExecId(), Signal: req.GetSignal(), Tree: req.GetTree()})
	if err != nil {
		return nil, s.fail("signal an exec", fromInit("signal an exec", spec, err))
	}
	return &nodev1.SignalExecResponse{Sent: resp.GetSent()}, nil
}

// ResizeExec implements the service.
func (s *Service) ResizeExec(ctx context.Context, req *nodev1.ResizeExecRequest) (*nodev1.ResizeExecResponse, error) {
	if err := validatePty(req.GetPty()); err != nil {
		return nil, s.fail("resize an exec", err.WithObject(req.GetExecId()))
	}
	spec, conn, err := s.running(ctx, req.GetExecId())
	if err != nil {
		return nil, s.fail("resize an exec", err)
	}
	if _, err := conn.Resize(ctx, &initv1.ResizeRequest{
		ExecId: req.GetExecId(), Rows: req.GetPty().GetRows(), Cols: req.GetPty().GetCols(),
	}); err != nil {
		return nil, s.fail("resize an exec", fromInit("resize an exec", spec, err))
	}
	return &nodev1.ResizeExecResponse{}, nil
}
