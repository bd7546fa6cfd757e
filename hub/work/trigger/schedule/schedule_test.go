package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/schedule"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return out
}

// What fires when, through both changes of the clocks.
func TestNextRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schedule, zone, after string
		want                  []string
	}{
		"five fields":   {"0 7 * * 1-5", "", "2026-11-20T08:00:00Z", []string{"2026-11-23T07:00:00Z", "2026-11-24T07:00:00Z"}},
		"a friend":      {"@daily", "Asia/Tokyo", "2026-01-01T00:00:00Z", []string{"2026-01-01T15:00:00Z", "2026-01-02T15:00:00Z"}},
		"a leap day":    {"0 0 29 2 *", "", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		"a quarter":     {"*/15 * * * *", "Europe/Berlin", "2026-01-01T00:01:00Z", []string{"2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"}},
		"by name":       {"0 12 1 JAN *", "", "2026-06-01T00:00:00Z", []string{"2027-01-01T12:00:00Z"}},
		"a gap":         {"30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		"all of a gap":  {"0,30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		"gap and after": {"0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:59:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		"an overlap":    {"30 2 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		"inside of it":  {"30 2 * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", []string{"2026-10-26T01:30:00Z"}},
		"after it":      {"0 3 * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", []string{"2026-10-25T02:00:00Z"}},
		"America's gap": {"30 2 * * *", "America/New_York", "2026-03-07T08:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		"America twice": {"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"}},
		"half an hour":  {"15 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00:00Z", []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		"no midnight":   {"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", []string{"2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"}},
		"time that passes, in a gap": {"0 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"}},
		"time that passes, in an overlap": {"30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := schedule.Parse(c.schedule, c.zone)
			require.NoError(t, err)
			next := at(t, c.after)
			for _, want := range c.want {
				next = s.Next(next)
				require.Equal(t, at(t, want), next, "%s", s)
			}
		})
	}
}

// What is no schedule is refused with what to write instead.
func TestBadSchedules(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                        "five",
		"* * *":                   "has 3 fields",
		"0 0 7 * * *":             "six fields: there are no seconds",
		"61 * * * *":              "five fields such as",
		"a b c d e":               "five fields such as",
		"@every 5m":               "use a loop",
		"@reboot":                 "@daily",
		"TZ=Asia/Tokyo 0 7 * * *": "time_zone",
		"CRON_TZ=0 * * * *":       "time_zone",
		"0 0 30 2 *":              "there is no such day",
		"*/0 * * * *":             "five fields such as",
		"0 0 * * 9":               "five fields such as",
	} {
		_, err := schedule.Parse(text, "")
		require.ErrorContains(t, err, says, "%q", text)
	}
	for _, zone := range []string{"Mars/Base", "Local", "../etc/passwd", "CET6"} {
		_, err := schedule.Parse("@daily", zone)
		require.ErrorContains(t, err, "Europe/Berlin", zone)
	}
}

// Whatever the zone, times come one after the other, a schedule of one time
// of day comes once a day, and the wall shows it unless it is skipped.
func TestOnceADayInEveryZone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{
			"UTC", "Europe/Berlin", "Europe/Dublin", "America/New_York", "America/Sao_Paulo", "America/Santiago", "America/St_Johns",
			"Australia/Lord_Howe", "Asia/Tehran", "Asia/Kolkata", "Africa/Casablanca", "Asia/Gaza",
		}).Draw(t, "zone")
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		s, err := schedule.Parse(time.Date(1, 1, 1, hour, minute, 0, 0, time.UTC).Format("4 15")+" * * *", zone)
		require.NoError(t, err)
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		last := time.Date(2012, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 131_400).Draw(t, "hours")) * time.Hour)
		day := ""
		for range 400 {
			next := s.Next(last)
			require.True(t, next.After(last), "%s after %s", next, last)
			local := next.In(loc)
			require.NotEqual(t, day, local.Format(time.DateOnly), "twice on a day in %s", zone)
			if local.Hour() != hour || local.Minute() != minute {
				_, before := next.Add(-time.Second).In(loc).Zone()
				_, after := local.Zone()
				require.Greater(t, after, before, "%s fires at %s for %02d:%02d", zone, local, hour, minute)
			}
			last, day = next, local.Format(time.DateOnly)
		}
	})
}

// Of the times that were missed, the newest.
func TestMissed(t *testing.T) {
	t.Parallel()
	s, err := schedule.Parse("0 * * * *", "")
	require.NoError(t, err)
	until := at(t, "2026-01-01T12:30:00Z")
	slots, more := s.Missed(at(t, "2026-01-01T08:00:00Z"), until, 3)
	require.True(t, more)
	require.Equal(t, []time.Time{at(t, "2026-01-01T10:00:00Z"), at(t, "2026-01-01T11:00:00Z"), at(t, "2026-01-01T12:00:00Z")}, slots)
	slots, more = s.Missed(until, until, 3)
	require.False(t, more)
	require.Empty(t, slots)
	minutes, err := schedule.Parse("* * * * *", "")
	require.NoError(t, err)
	slots, more = minutes.Missed(until.AddDate(-3, 0, 0), until, 2)
	require.True(t, more)
	require.Equal(t, []time.Time{until.Add(-time.Minute), until}, slots)
}

// Jitter is within its bound and the same on every hub.
func TestJitter(t *testing.T) {
	t.Parallel()
	slot := at(t, "2026-01-01T12:00:00Z")
	seen := map[time.Duration]bool{}
	for i := range 100 {
		j := schedule.Jitter("trig_1", slot.Add(time.Duration(i)*time.Hour), time.Minute)
		require.True(t, j >= 0 && j < time.Minute)
		require.Equal(t, j, schedule.Jitter("trig_1", slot.Add(time.Duration(i)*time.Hour), time.Minute))
		seen[j] = true
	}
	require.Greater(t, len(seen), 50)
	require.Zero(t, schedule.Jitter("trig_1", slot, 0))
}
