package telemetry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Jails is what the service needs to know of the node's jails.
type Jails interface {
	// Connected returns the ids of the jails that run, without waiting.
	Connected() []string
	Cgroup(ctx context.Context, id string) (jail.Cgroup, error)
	// WorkspaceUse returns how full a jail's workspace is, if it is bounded.
	WorkspaceUse(id string) (used, size int64, bounded bool)
}

// Config says what to watch and how often.
type Config struct {
	Jails Jails
	// Dir is on the disk to measure: the node's data folder.
	Dir string
	// Every is the pause between two samples that are kept; 0 for 15 s.
	Every time.Duration
	// Watched is the interval while a client watches; 0 means one second.
	Watched time.Duration
	// Keep is for how long samples and events are kept; 0 for an hour.
	Keep time.Duration
	Log  hclog.Logger
}

// maxEvents bounds the events kept, should there be a storm of them.
const maxEvents = 4096

// Service takes the samples and implements nodev1.TelemetryServiceServer. It is
// a lifecycle.Service.
type Service struct {
	lifecycle.Runner
	nodev1.UnimplementedTelemetryServiceServer

	cfg   Config
	woken chan struct{} // somebody began to watch

	// Of the loop alone.
	edges map[edge]bool    // what was said already
	oom   map[string]int64 // processes killed for memory, by jail
	first bool             // no sample was looked at yet
	last  *nodev1.TelemetrySample

	mu       sync.Mutex
	kept     []*nodev1.TelemetrySample // oldest first; none is changed
	latest   *nodev1.TelemetrySample
	events   []*nodev1.TelemetryEvent // oldest first
	dropped  int64                    // events before the first of events
	watchers int
	fresh    chan struct{} // closed when latest or events have changed
	ended    bool
}

var _ lifecycle.Service = (*Service)(nil)

// New creates a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Jails == nil || cfg.Dir == "" {
		return nil, errors.New("telemetry: Jails and Dir must be given")
	}
	if cfg.Every <= 0 {
		cfg.Every = 15 * time.Second
	}
	if cfg.Watched <= 0 {
		cfg.Watched = time.Second
	}
	if cfg.Keep <= 0 {
		cfg.Keep = time.Hour
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	return &Service{
		cfg: cfg, woken: make(chan struct{}, 1), edges: map[edge]bool{}, oom: map[string]int64{}, first: true, fresh: make(chan struct{}),
	}, nil
}

// Start takes the first sample soon after.
func (s *Service) Start(ctx context.Context) error {
	s.mu.Lock()
	s.ended = false
	s.mu.Unlock()
	return s.Run(ctx, s.loop)
}

func (s *Service) loop(ctx context.Context) error {
	defer s.tell(func() { s.ended = true })
	timer := time.NewTimer(0)
	defer timer.Stop()
	var kept time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.woken:
		case <-timer.C:
		}
		now := time.Now()
		sample := s.sample(ctx, now)
		if ctx.Err() != nil {
			return nil
		}
		keep := now.Sub(kept) >= s.cfg.Every-s.cfg.Watched/2
		if keep {
			kept = now
		}
		events := s.find(sample)
		s.first = false
		s.publish(sample, events, keep)
		s.mu.Lock()
		pause := s.cfg.Every
		if s.watchers > 0 {
			pause = s.cfg.Watched
		}
		s.mu.Unlock()
		timer.Reset(pause)
	}
}

// Latest returns the newest sample; nil before the first. Callers must not change it.
func (s *Service) Latest() *nodev1.TelemetrySample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// sample reads everything once. A part that cannot be read is left out.
func (s *Service) sample(ctx context.Context, now time.Time) *nodev1.TelemetrySample {
	out := &nodev1.TelemetrySample{Time: timestamppb.New(now)}
	host, err := hostUsage(ctx, s.cfg.Dir)
	if err != nil {
		s.cfg.Log.Debug("cannot read the machine's usage", "error", err)
		host = &nodev1.Usage{}
	}
	out.Host = host
	ids := s.cfg.Jails.Connected()
	slices.Sort(ids)
	for _, id := range ids {
		cg, err := s.cfg.Jails.Cgroup(ctx, id)
		if err != nil {
			continue // it has just ended
		}
		usage, err := jailUsage(cg)
		if err != nil {
			s.cfg.Log.Debug("cannot read a jail's usage", "jail_id", id, "error", err)
			continue
		}
		usage.JailId = id
		if used, size, bounded := s.cfg.Jails.WorkspaceUse(id); bounded {
			usage.DiskBytes, usage.DiskLimitBytes = proto.Int64(used), proto.Int64(size)
		}
		out.Jails = append(out.Jails, usage)
	}
	s.rates(out)
	s.last = out
	return out
}

// rates fills in what follows from the sample before.
func (s *Service) rates(now *nodev1.TelemetrySample) {
	if s.last == nil {
		return
	}
	passed := now.GetTime().AsTime().Sub(s.last.GetTime().AsTime()).Microseconds()
	if passed <= 0 {
		return // the clock was set
	}
	before := map[string]*nodev1.Usage{"": s.last.GetHost()}
	for _, u := range s.last.GetJails() {
		before[u.GetJailId()] = u
	}
	for _, u := range append([]*nodev1.Usage{now.GetHost()}, now.GetJails()...) {
		was := before[u.GetJailId()]
		if was == nil || was.CpuTotalUsec == nil || u.CpuTotalUsec == nil || u.GetCpuTotalUsec() < was.GetCpuTotalUsec() {
			continue // new, or made again
		}
		u.CpuMillis = proto.Int64((u.GetCpuTotalUsec() - was.GetCpuTotalUsec()) * 1000 / passed)
	}
}

// publish makes a sample and its events known.
func (s *Service) publish(sample *nodev1.TelemetrySample, events []*nodev1.TelemetryEvent, keep bool) {
	s.tell(func() {
		s.latest = sample
		s.events = append(s.events, events...)
		if keep {
			s.kept = append(s.kept, sample)
		}
		old := sample.GetTime().AsTime().Add(-s.cfg.Keep)
		s.kept = slices.DeleteFunc(s.kept, func(k *nodev1.TelemetrySample) bool { return k.GetTime().AsTime().Before(old) })
		for len(s.events) > maxEvents || len(s.events) > 0 && s.events[0].GetTime().AsTime().Before(old) {
			s.events = s.events[1:]
			s.dropped++
		}
	})
}

// tell changes what watchers see and wakes them.
func (s *Service) tell(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.fresh)
	s.fresh = make(chan struct{})
}

// only returns the part of a sample that concerns one jail; all of it for "".
func only(sample *nodev1.TelemetrySample, id string) *nodev1.TelemetrySample {
	if id == "" {
		return sample
	}
	out := &nodev1.TelemetrySample{Time: sample.GetTime()}
	for _, u := range sample.GetJails() {
		if u.GetJailId() == id {
			out.Jails = append(out.Jails, u)
		}
	}
	return out
}

func onlyEvents(events []*nodev1.TelemetryEvent, id string) (out []*nodev1.TelemetryEvent) {
	for _, e := range events {
		if id == "" || e.GetJailId() == id {
			out = append(out, e)
		}
	}
	return out
}
