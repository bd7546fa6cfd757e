package exec

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

var retentionNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func endedExec(id, jailID string, byPerson bool, ago time.Duration, size int64) *nodev1.ExecRecord {
	return &nodev1.ExecRecord{
		Spec:   &nodev1.ExecSpec{ExecId: id, JailId: jailID, ByPerson: byPerson},
		Result: &nodev1.Exec{LogBytes: size, EndedAt: timestamppb.New(retentionNow.Add(-ago))},
	}
}

func idsOf(records []*nodev1.ExecRecord) (out []string) {
	for _, rec := range records {
		out = append(out, rec.GetSpec().GetExecId())
	}
	slices.Sort(out)
	return out
}

func TestAJailThatWritesMuchLosesItsOwnLogs(t *testing.T) {
	t.Parallel()
	r := retention{age: 7 * 24 * time.Hour, bytes: 1000, now: func() time.Time { return retentionNow }}
	others := []*nodev1.ExecRecord{
		endedExec("other-1", "jail_b", false, 100*time.Hour, 100), endedExec("other-2", "jail_b", false, 90*time.Hour, 100),
		endedExec("host", "host", false, 80*time.Hour, 50), endedExec("person", "jail_b", true, 2*time.Hour, 100),
		endedExec("old", "jail_c", false, 8*24*time.Hour, 1),
	}
	require.Equal(t, []string{"old"}, idsOf(r.tooMany(others, true)))
	passing := endedExec("passing", "jail_c", false, time.Second, 1)
	passing.Spec.Passing = true
	live := &nodev1.ExecRecord{Spec: &nodev1.ExecSpec{ExecId: "live", Passing: true}}
	require.Equal(t, []string{"passing"}, idsOf(r.tooMany([]*nodev1.ExecRecord{passing, live}, true)), "what was only passed on goes with its end")
	var flood []*nodev1.ExecRecord
	for i := range 100 {
		flood = append(flood, endedExec(fmt.Sprintf("flood-%02d", i), "jail_a", false, time.Duration(100-i)*time.Minute, 100))
	}
	gone := idsOf(r.tooMany(append(flood, others...), true))
	require.Len(t, gone, 95)
	require.Equal(t, []string{"flood-00", "flood-01"}, gone[:2])
	require.Equal(t, []string{"flood-93", "old"}, gone[93:], "of its own, the oldest")

	// A person's own flood takes half of the room at most from the others, and
	// what is left of it is the newest.
	var people []*nodev1.ExecRecord
	for i := range 100 {
		people = append(people, endedExec(fmt.Sprintf("people-%02d", i), "jail_p", true, time.Duration(100-i)*time.Minute, 100))
	}
	gone = idsOf(r.tooMany(append(people, others[:2]...), true))
	require.Len(t, gone, 92)
	require.Equal(t, "people-00", gone[0])
	require.Equal(t, "people-91", gone[91])
}

func TestWhatIsKeptOfLogsFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := retention{age: 48 * time.Hour, bytes: rapid.Int64Range(0, 2000).Draw(rt, "bytes"), now: func() time.Time { return retentionNow }}
		var all []*nodev1.ExecRecord
		sums := map[owner]int64{}
		for i := range rapid.IntRange(0, 30).Draw(rt, "logs") {
			all = append(all, endedExec(fmt.Sprint("exec-", i), rapid.SampledFrom([]string{"jail_a", "jail_b", "jail_c", "host"}).Draw(rt, "jail"),
				rapid.Bool().Draw(rt, "person"), time.Duration(rapid.IntRange(0, 72).Draw(rt, "hours"))*time.Hour, rapid.Int64Range(1, 500).Draw(rt, "size")))
			sums[ownerOf(all[i].GetSpec())] += all[i].GetResult().GetLogBytes()
		}
		gone := r.tooMany(all, true)
		total := int64(0)
		for _, rec := range all {
			tooOld := rec.GetResult().GetEndedAt().AsTime().Before(retentionNow.Add(-r.age))
			isGone := slices.Contains(gone, rec)
			if tooOld && !isGone {
				rt.Fatalf("%s is too old and stays", rec.GetSpec().GetExecId())
			}
			if !isGone {
				total += rec.GetResult().GetLogBytes()
			}
			if isGone && !tooOld && !ownerOf(rec.GetSpec()).people {
				// An agent's jail with no more than an equal share loses nothing.
				if share := r.bytes / 2 / int64(max(1, len(sums))); sums[ownerOf(rec.GetSpec())] <= share {
					rt.Fatalf("%s went, of a jail with %d bytes and a share of %d", rec.GetSpec().GetExecId(), sums[ownerOf(rec.GetSpec())], share)
				}
			}
		}
		if total > r.bytes {
			rt.Fatalf("%d bytes are kept of at most %d", total, r.bytes)
		}
	})
}

// A wall clock that is set by days, either way, makes no log one of age for an hour
// of uptime; what is too much goes in the meantime. Time that passes on both clocks
// does.
func TestLogsAreNotOfAgeAtOnceWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	wall, up := retentionNow, time.Duration(0)
	c := clocks{wall: func() time.Time { return wall }, uptime: func() time.Duration { return up }}
	r := retention{age: 7 * 24 * time.Hour, bytes: 1000, now: c.wall}
	logs := []*nodev1.ExecRecord{endedExec("a", "jail_a", false, time.Hour, 100), endedExec("person", "jail_b", true, time.Hour, 100)}
	pass := func(d time.Duration) {
		wall, up = wall.Add(d), up+d
	}
	gone := func() []string {
		c.look()
		return idsOf(r.tooMany(logs, c.trusted()))
	}
	require.Empty(t, gone())
	pass(time.Hour)
	require.Zero(t, c.look())
	wall = wall.Add(20 * time.Second) // a time server's correction
	require.Zero(t, c.look())
	require.True(t, c.trusted())

	wall = wall.Add(30 * 24 * time.Hour)
	require.Empty(t, gone())
	r.bytes = 150
	require.Equal(t, []string{"a"}, gone(), "too much is too much, and a person's log stays the evidence of that")
	r.bytes = 1000
	pass(59 * time.Minute)
	require.Empty(t, gone())
	wall = wall.Add(-30 * 24 * time.Hour)
	require.Empty(t, gone(), "the clock was set right")
	pass(2 * time.Hour)
	require.Empty(t, gone())

	wall = wall.Add(30 * 24 * time.Hour)
	require.Empty(t, gone())
	pass(time.Hour)
	require.Equal(t, []string{"a", "person"}, gone(), "it was meant")

	wall, up = wall.Add(30*24*time.Hour), 0
	c = clocks{wall: c.wall, uptime: c.uptime}
	require.Empty(t, gone(), "a machine that has just started may not know the time yet")
}

func TestTimeThatPassesIsNoJump(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		wall, up := retentionNow, time.Duration(0)
		c := clocks{wall: func() time.Time { return wall }, uptime: func() time.Duration { return up }}
		c.look()
		wall, up = wall.Add(distrust), up+distrust
		for range rapid.IntRange(1, 20).Draw(rt, "looks") {
			d := time.Duration(rapid.Int64Range(0, int64(100*24*time.Hour)).Draw(rt, "passes"))
			wall, up = wall.Add(d), up+d
			if jump := c.look(); jump != 0 || !c.trusted() {
				rt.Fatalf("a jump by %s was seen", jump)
			}
		}
		by := time.Duration(rapid.Int64Range(int64(jumpTolerance)+1, int64(1000*24*time.Hour)).Draw(rt, "jump"))
		if rapid.Bool().Draw(rt, "back") {
			by = -by
		}
		wall = wall.Add(by)
		if jump := c.look(); jump != by || c.trusted() {
			rt.Fatalf("a jump by %s was seen as %s", by, jump)
		}
	})
}
