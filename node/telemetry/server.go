package telemetry

import (
	"context"

	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// GetTelemetry implements the service.
func (s *Service) GetTelemetry(_ context.Context, req *nodev1.GetTelemetryRequest) (*nodev1.GetTelemetryResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &nodev1.GetTelemetryResponse{}
	since := req.GetSince().AsTime() // 1970 when unset
	add := func(sample *nodev1.TelemetrySample) {
		// Of a jail only those that it is in: the limit is of them.
		if told := only(sample, req.GetJailId()); sample.GetTime().AsTime().After(since) && (req.GetJailId() == "" || len(told.GetJails()) > 0) {
			out.Samples = append(out.Samples, told)
		}
	}
	for _, sample := range s.kept {
		add(sample)
	}
	// While a client watches, the newest sample is not among those kept.
	if n := len(s.kept); s.latest != nil && (n == 0 || s.kept[n-1] != s.latest) {
		add(s.latest)
	}
	if n := int(req.GetLimit()); n > 0 && n < len(out.Samples) {
		out.Samples = out.Samples[len(out.Samples)-n:]
	}
	for _, e := range onlyEvents(s.events, req.GetJailId()) {
		if e.GetTime().AsTime().After(since) {
			out.Events = append(out.Events, e)
		}
	}
	return out, nil
}

// MaxWatchers is how many callers may watch at once.
const MaxWatchers = 128

// WatchTelemetry implements the service.
func (s *Service) WatchTelemetry(req *nodev1.WatchTelemetryRequest, stream grpc.ServerStreamingServer[nodev1.WatchTelemetryResponse]) error {
	s.mu.Lock()
	if s.watchers >= MaxWatchers {
		s.mu.Unlock()
		return fault.ToGRPC(fault.New(fault.Exhausted, "%d callers watch the telemetry of this node already", MaxWatchers).
			WithCode(fault.RateLimited).WithFix("try again when one of them has ended"))
	}
	s.watchers++
	next := s.dropped + int64(len(s.events)) // the first event not sent
	fresh := s.fresh
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers--
	}()
	select {
	case s.woken <- struct{}{}:
	default:
	}
	for {
		select {
		case <-stream.Context().Done():
			return fault.ToGRPC(stream.Context().Err())
		case <-fresh:
		}
		s.mu.Lock()
		sample, ended := s.latest, s.ended
		events := s.events[max(0, next-s.dropped):]
		next, fresh = s.dropped+int64(len(s.events)), s.fresh
		s.mu.Unlock()
		if ended {
			return fault.ToGRPC(fault.New(fault.Unavailable, "the node is stopping").WithFix("watch again once it is back"))
		}
		if err := stream.Send(&nodev1.WatchTelemetryResponse{
			Sample: only(sample, req.GetJailId()), Events: onlyEvents(events, req.GetJailId()),
		}); err != nil {
			return err
		}
	}
}
