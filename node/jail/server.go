package jail

import (
	"context"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/image"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// server is the gRPC face of a Manager.
type server struct {
	nodev1.UnimplementedJailServiceServer

	m *Manager
}

// NewServer returns the gRPC face of a Manager.
func NewServer(m *Manager) nodev1.JailServiceServer { return &server{m: m} }

// EnsureJail implements the service.
func (s *server) EnsureJail(ctx context.Context, req *nodev1.EnsureJailRequest) (*nodev1.EnsureJailResponse, error) {
	ensure := s.m.Ensure
	if req.GetHostMode() {
		ensure = s.m.EnsureHost
	}
	one, err := ensure(ctx, req.GetSpec())
	if err != nil {
		return nil, s.fail("ensure a jail", err)
	}
	return &nodev1.EnsureJailResponse{Jail: one}, nil
}

// ListJails implements the service.
func (s *server) ListJails(ctx context.Context, _ *nodev1.ListJailsRequest) (*nodev1.ListJailsResponse, error) {
	all, err := s.m.List(ctx)
	if err != nil {
		return nil, s.fail("list the jails", err)
	}
	return &nodev1.ListJailsResponse{Jails: all}, nil
}

// ListPorts implements the service.
func (s *server) ListPorts(ctx context.Context, req *nodev1.ListPortsRequest) (*nodev1.ListPortsResponse, error) {
	ports, err := s.m.Ports(ctx, req.GetJailId())
	if err != nil {
		return nil, s.fail("list a jail's ports", err)
	}
	return &nodev1.ListPortsResponse{Tcp: ports}, nil
}

// StopJail implements the service.
func (s *server) StopJail(ctx context.Context, req *nodev1.StopJailRequest) (*nodev1.StopJailResponse, error) {
	one, err := s.m.Stop(ctx, req.GetJailId())
	if err != nil {
		return nil, s.fail("stop a jail", err)
	}
	return &nodev1.StopJailResponse{Jail: one}, nil
}

// RemoveJail implements the service.
func (s *server) RemoveJail(ctx context.Context, req *nodev1.RemoveJailRequest) (*nodev1.RemoveJailResponse, error) {
	if err := s.m.Remove(ctx, req.GetJailId()); err != nil {
		return nil, s.fail("remove a jail", err)
	}
	return &nodev1.RemoveJailResponse{}, nil
}

// FinishSetup implements the service.
func (s *server) FinishSetup(ctx context.Context, req *nodev1.FinishSetupRequest) (*nodev1.FinishSetupResponse, error) {
	one, err := s.m.FinishSetup(ctx, req.GetJailId(), req.GetSetup(), req.GetCommit())
	if err != nil {
		return nil, s.fail("finish the setup of an image", err)
	}
	out := &nodev1.FinishSetupResponse{}
	if req.GetCommit() {
		out.Image = image.ToProto(one)
	}
	return out, nil
}

// FreezeJail implements the service.
func (s *server) FreezeJail(ctx context.Context, req *nodev1.FreezeJailRequest) (*nodev1.FreezeJailResponse, error) {
	if err := checkHolder(req.GetHolder()); err != nil {
		return nil, s.fail("freeze a jail", err)
	}
	one, err := s.m.FreezeFor(ctx, req.GetJailId(), req.GetHolder())
	if err != nil {
		return nil, s.fail("freeze a jail", err)
	}
	return &nodev1.FreezeJailResponse{Jail: one}, nil
}

// ThawJail implements the service.
func (s *server) ThawJail(ctx context.Context, req *nodev1.ThawJailRequest) (*nodev1.ThawJailResponse, error) {
	if err := checkHolder(req.GetHolder()); err != nil {
		return nil, s.fail("thaw a jail", err)
	}
	one, err := s.m.ThawFor(ctx, req.GetJailId(), req.GetHolder())
	if err != nil {
		return nil, s.fail("thaw a jail", err)
	}
	return &nodev1.ThawJailResponse{Jail: one}, nil
}

// maxHolder bounds a holder's name.
const maxHolder = 128

func checkHolder(name string) error {
	if name == "" || len(name) > maxHolder {
		return fault.New(fault.Invalid, "holder must be 1 to %d bytes long", maxHolder).WithFix("name the holder, for example a step's id")
	}
	return nil
}

// KillJail implements the service.
func (s *server) KillJail(ctx context.Context, req *nodev1.KillJailRequest) (*nodev1.KillJailResponse, error) {
	execs, left, err := s.m.Kill(ctx, req.GetJailId(), req.GetBy())
	if err != nil {
		return nil, s.fail("kill everything in a jail", err)
	}
	return &nodev1.KillJailResponse{MembersLeft: int32(left), ExecIds: execs}, nil
}

// fail is the edge: what is not for callers' eyes is logged here.
func (s *server) fail(doing string, err error) error {
	if fault.As(err) == nil {
		s.m.cfg.Log.Error(doing, "error", err)
	}
	return fault.ToGRPC(err)
}
