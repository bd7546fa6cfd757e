package jail

import (
	"context"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// server is the gRPC face of a Manager.
type server struct {
	nodev1.UnimplementedJailServiceServer

	m *Manager
}

// NewServer answers the gRPC face of a Manager.
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

// fail is the edge: what is not for callers' eyes is logged here.
func (s *server) fail(doing string, err error) error {
	if fault.As(err) == nil {
		s.m.cfg.Log.Error(doing, "error", err)
	}
	return fault.ToGRPC(err)
}
