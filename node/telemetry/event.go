package telemetry

import (
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// A disk is full when less than one part in diskParts is free.
	diskParts = 100
	// Pressure begins above one share of the last 10 seconds, in percent, and
	// ends below another.
	pressureBegins = 50
	pressureEnds   = 25
)

// edge is something that is said once, until it has ceased.
type edge struct{ jail, what string }

// find returns the events that follow from the difference between a sample and
// the previous one.
func (s *Service) find(sample *nodev1.TelemetrySample) (out []*nodev1.TelemetryEvent) {
	seen := map[string]bool{"": true}
	for _, u := range append([]*nodev1.Usage{sample.GetHost()}, sample.GetJails()...) {
		seen[u.GetJailId()] = true
		say := func(kind nodev1.TelemetryEvent_Kind, count int64, resource string) {
			out = append(out, &nodev1.TelemetryEvent{
				Time: sample.GetTime(), JailId: u.GetJailId(), Kind: kind, Count: count, Resource: resource,
			})
		}
		if n := s.killed(u); n > 0 {
			say(nodev1.TelemetryEvent_KIND_OUT_OF_MEMORY, n, "")
		}
		if size := u.GetDiskLimitBytes(); size > 0 {
			full := size-u.GetDiskBytes() < size/diskParts
			if s.begins(edge{u.GetJailId(), "disk"}, full, !full) {
				say(nodev1.TelemetryEvent_KIND_DISK_FULL, 0, "")
			}
		}
		for _, p := range []struct {
			resource string
			pressure *nodev1.Pressure
		}{{"cpu", u.GetCpuPressure()}, {"memory", u.GetMemoryPressure()}, {"io", u.GetIoPressure()}} {
			share := p.pressure.GetSomeAvg10()
			if s.begins(edge{u.GetJailId(), p.resource}, share > pressureBegins, share < pressureEnds) {
				say(nodev1.TelemetryEvent_KIND_PRESSURE, 0, p.resource)
			}
		}
	}
	for e := range s.edges {
		if !seen[e.jail] {
			delete(s.edges, e)
		}
	}
	for id := range s.oom {
		if !seen[id] {
			delete(s.oom, id)
		}
	}
	return out
}

// begins reports whether something has just begun.
func (s *Service) begins(e edge, on, off bool) bool {
	switch {
	case on && !s.edges[e]:
		s.edges[e] = true
		return true
	case off:
		delete(s.edges, e)
	}
	return false
}

// killed returns how many processes of a jail were killed for memory since the
// previous sample. For a jail that is older than this daemon, the first sample
// reports none: an earlier daemon has reported them.
func (s *Service) killed(u *nodev1.Usage) int64 {
	if u.OomKills == nil {
		return 0
	}
	was, known := s.oom[u.GetJailId()]
	s.oom[u.GetJailId()] = u.GetOomKills()
	if !known && s.first {
		return 0
	}
	return u.GetOomKills() - min(was, u.GetOomKills())
}
