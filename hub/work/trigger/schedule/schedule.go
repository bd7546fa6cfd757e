// Package schedule computes when a schedule of five cron fields fires, in a time zone
// with daylight saving time. Parse returns a Schedule or an error that says
// what to write instead.
//
// A schedule that names hours (30 2 * * *) means wall-clock time: a time that is skipped
// by the change to summer time fires at the moment of the change, and one that occurs
// twice at the change back fires the first time only. A schedule with a star or a step
// for the hour (*/15 * * * *) means elapsed time: it fires through both changes as on any
// other day. Debian's cron and systemd's timers behave nearly the same.
package schedule

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	_ "time/tzdata" // machines without a database of time zones

	"github.com/robfig/cron/v3"
)

// Schedule computes times.
type Schedule struct {
	spec  *cron.SpecSchedule
	zone  *time.Location
	wall  bool
	every string
}

// years is how far ahead a time is looked for: leap days are at most 8 apart.
const years = 9

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Parse reads five fields, or @daily and friends, and the name of a time zone:
// empty for UTC.
func Parse(text, zone string) (*Schedule, error) {
	text = strings.TrimSpace(text)
	switch fields := strings.Fields(text); {
	case strings.Contains(text, "TZ="):
		return nil, errors.New("has a time zone in it: give that as time_zone")
	case strings.HasPrefix(text, "@every"):
		return nil, errors.New("is @every: use a loop, or a step such as */15 * * * *")
	case strings.HasPrefix(text, "@"):
	case len(fields) == 6:
		return nil, errors.New("has six fields: there are no seconds, leave the first one out")
	case len(fields) != 5:
		return nil, fmt.Errorf("has %d fields: give five (minute, hour, day of month, month, day of week), such as 0 7 * * 1-5", len(fields))
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("cannot be read (%s): give five fields such as 0 7 * * 1-5, or @daily", strings.TrimPrefix(err.Error(), "failed to "))
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("is not one of five fields: use @hourly, @daily, @weekly, @monthly or @yearly")
	}
	if zone == "" {
		zone = "UTC"
	}
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("names time zone %q, which there is not: use one such as Europe/Berlin or UTC", zone)
	}
	s := &Schedule{spec: spec, zone: loc, every: text}
	// A star, or a step of one, for the hour.
	const star = 1 << 63
	s.wall = spec.Hour&star == 0
	spec.Location = loc
	if s.wall {
		spec.Location = time.UTC
	}
	if s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("never comes: there is no such day")
	}
	return s, nil
}

// Next returns the first time after the given one, in UTC; zero if there is none within
// nine years.
func (s *Schedule) Next(after time.Time) time.Time {
	if !s.wall {
		return s.search(after)
	}
	// The wall's clock is read as if it were UTC, where no hour is missing or
	// double. It may have been set back since then: begin well before.
	local := after.In(s.zone)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC).Add(-25 * time.Hour)
	for {
		if wall = s.search(wall); wall.IsZero() {
			return wall
		}
		if at := s.instant(wall); at.After(after) {
			return at.UTC()
		}
	}
}

// search is the library's own, which looks five years ahead.
func (s *Schedule) search(after time.Time) time.Time {
	for y := range years {
		if at := s.spec.Next(after.AddDate(y, 0, 0)); !at.IsZero() {
			return at.UTC()
		}
	}
	return time.Time{}
}

// around is more than any zone is ahead of UTC, or behind.
const around = 15 * time.Hour

// instant returns when the clock on the wall first shows a time, or skips it.
func (s *Schedule) instant(wall time.Time) time.Time {
	early := wall.Add(-around).In(s.zone)
	_, before := early.Zone()
	_, change := early.ZoneBounds()
	first := wall.Add(-time.Duration(before) * time.Second)
	if change.IsZero() || first.Before(change) {
		return first
	}
	_, after := change.Zone()
	if second := wall.Add(-time.Duration(after) * time.Second); !second.Before(change) {
		return second
	}
	return change
}

// Missed returns the times after one up to another, the newest ones, at most so
// many, and whether there were more.
func (s *Schedule) Missed(after, until time.Time, most int) (slots []time.Time, more bool) {
	const bound = 100_000 // two months of every minute
	for range bound {
		next := s.Next(after)
		if next.IsZero() || next.After(until) {
			return slots, more
		}
		if slots = append(slots, next); len(slots) > most {
			slots, more = slots[1:], true
		}
		after = next
	}
	// Longer ago: the oldest of those times are not needed.
	newest, _ := s.Missed(until.Add(-24*time.Hour), until, most)
	return newest, true
}

// Jitter returns how much later than its slot a trigger fires: always the same
// for the same slot, whichever hub works it out.
func Jitter(id string, slot time.Time, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", id, slot.Unix())
	return time.Duration(h.Sum64() % uint64(most)) //nolint:gosec // both are positive
}

// String returns the schedule as it was given, with its time zone.
func (s *Schedule) String() string { return s.every + " " + s.zone.String() }
