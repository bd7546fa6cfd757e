package ledger_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, cfg ledger.Config) *ledger.Ledger {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "ledger.db")
	}
	l, err := ledger.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func spec(id string) *nodev1.ExecSpec {
	return &nodev1.ExecSpec{ExecId: id, JailId: "jail", Argv: []string{"true"}, Env: []string{"TOKEN=x"}, Stdin: []byte("in")}
}

func result(id string, ended time.Time) *nodev1.Exec {
	return &nodev1.Exec{ExecId: id, State: nodev1.ExecState_EXEC_STATE_ENDED, EndedAt: timestamppb.New(ended)}
}

func TestAnExecIsCreatedOnce(t *testing.T) {
	t.Parallel()
	l := open(t, ledger.Config{BootID: "boot"})
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			rec, existed, err := l.Exec(t.Context(), spec("step"), "init_1")
			if err != nil || rec.GetBootId() != "boot" || rec.GetInitInstance() != "init_1" {
				t.Errorf("%v %v", rec, err)
			}
			if !existed {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, made.Load())

	other := spec("step")
	other.Argv = []string{"false"}
	_, _, err := l.Exec(t.Context(), other, "init_1")
	require.True(t, fault.Is(err, fault.Exists), "%v", err)
	_, err = l.FindExec(t.Context(), other)
	require.True(t, fault.Is(err, fault.Exists), "%v", err)
	rec, err := l.FindExec(t.Context(), spec("step"))
	require.NoError(t, err)
	require.NotNil(t, rec)
	rec, err = l.FindExec(t.Context(), spec("never"))
	require.NoError(t, err)
	require.Nil(t, rec)
}

// Writes that come at once share a transaction. One that is refused takes none
// of the others with it.
func TestWritesThatComeAtOnceFailAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, ledger.Config{Path: path})
	_, _, err := l.Exec(t.Context(), spec("taken"), "")
	require.NoError(t, err)
	const many = 200
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			switch i % 4 {
			case 0:
				other := spec("taken")
				other.Dir = "elsewhere"
				if _, _, err := l.Exec(t.Context(), other, ""); !fault.Is(err, fault.Exists) {
					t.Errorf("another request under a taken id: %v", err)
				}
			case 1:
				if err := l.FinishExecs(t.Context(), []*nodev1.Exec{result("never", time.Now())}); err == nil {
					t.Error("an exec that never was has finished")
				}
			default:
				id := fmt.Sprint("step", i)
				if _, existed, err := l.Exec(t.Context(), spec(id), ""); err != nil || existed {
					t.Errorf("%s: existed %v, %v", id, existed, err)
				}
				if err := l.FinishExecs(t.Context(), []*nodev1.Exec{result(id, time.Now())}); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Close())
	l = open(t, ledger.Config{Path: path})
	all, err := l.Execs(t.Context(), "", false)
	require.NoError(t, err)
	require.Len(t, all, 1+many/2)
	live, err := l.Execs(t.Context(), "", true)
	require.NoError(t, err)
	require.Len(t, live, 1)
}

func TestAFinishedExecStaysAsItEnded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, ledger.Config{Path: path})
	for _, id := range []string{"a", "b"} {
		_, _, err := l.Exec(t.Context(), spec(id), "")
		require.NoError(t, err)
	}
	first := result("a", time.Now())
	first.ExitCode = 3
	require.NoError(t, l.FinishExecs(t.Context(), []*nodev1.Exec{first}))
	require.NoError(t, l.FinishExecs(t.Context(), []*nodev1.Exec{result("a", time.Now())}))
	err := l.FinishExecs(t.Context(), []*nodev1.Exec{result("never", time.Now())})
	require.ErrorContains(t, err, "not in the ledger")
	require.NoError(t, l.Close())

	l = open(t, ledger.Config{Path: path})
	live, err := l.Execs(t.Context(), "", true)
	require.NoError(t, err)
	require.Len(t, live, 1)
	require.Equal(t, "b", live[0].GetSpec().GetExecId())
	all, err := l.Execs(t.Context(), "jail", false)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.EqualValues(t, 3, all[0].GetResult().GetExitCode())
	require.Empty(t, all[0].GetSpec().GetEnv(), "what may hold secrets is kept no longer than it is needed")
	none, err := l.Execs(t.Context(), "another", false)
	require.NoError(t, err)
	require.Empty(t, none)
	// The digest is that of the whole request all the same.
	_, existed, err := l.Exec(t.Context(), spec("a"), "")
	require.NoError(t, err)
	require.True(t, existed)
}

// Results are kept as long as they are promised, and then collected.
func TestOldResultsAreCollected(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := open(t, ledger.Config{Now: func() time.Time { return now }})
	for i := range 4 {
		id := fmt.Sprint("step", i)
		_, _, err := l.Exec(t.Context(), spec(id), "")
		require.NoError(t, err)
		if i < 3 {
			end := result(id, now.Add(-time.Duration(i)*4*24*time.Hour))
			require.NoError(t, l.FinishExecs(t.Context(), []*nodev1.Exec{end}))
		}
	}
	_, _, err := l.Operation(t.Context(), "op", []byte("d"), nil, ledger.Subject{})
	require.NoError(t, err)
	require.NoError(t, l.Recorded(t.Context(), []string{"step0", "step1", "step2", "step3", "op", "nowhere"}))
	gone, err := l.Collect(t.Context(), true)
	require.NoError(t, err)
	require.Len(t, gone, 1)
	require.Equal(t, "step2", gone[0].GetSpec().GetExecId())
	now = now.Add(8 * 24 * time.Hour)
	gone, err = l.Collect(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, gone, 2, "the unfinished one stays")
	_, existed, err := l.Operation(t.Context(), "op", []byte("d"), nil, ledger.Subject{})
	require.NoError(t, err)
	require.False(t, existed)
}

// What the hub may not have on record is kept for much longer, however the
// clock jumps while the node is alone: a step that is left started must find
// its end here.
func TestWhatTheHubMayNotHaveIsKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := open(t, ledger.Config{Now: func() time.Time { return now }})
	_, _, err := l.Exec(t.Context(), spec("step"), "")
	require.NoError(t, err)
	require.NoError(t, l.FinishExecs(t.Context(), []*nodev1.Exec{result("step", now)}))
	_, _, err = l.Operation(t.Context(), "op", []byte("d"), nil, ledger.Subject{})
	require.NoError(t, err)
	_, existed, err := l.BuryExec(t.Context(), result("buried", now))
	require.NoError(t, err)
	require.False(t, existed)
	kept := func() {
		t.Helper()
		for _, id := range []string{"step", "buried"} {
			rec, err := l.GetExec(t.Context(), id)
			require.NoError(t, err)
			require.NotNil(t, rec.GetResult())
		}
		_, existed, err := l.Operation(t.Context(), "op", []byte("d"), nil, ledger.Subject{})
		require.NoError(t, err)
		require.True(t, existed)
	}
	now = now.Add(29 * 24 * time.Hour)
	gone, err := l.Collect(t.Context(), true)
	require.NoError(t, err)
	require.Empty(t, gone)
	kept()
	now = now.Add(10 * 365 * 24 * time.Hour)
	gone, err = l.Collect(t.Context(), false)
	require.NoError(t, err)
	require.Empty(t, gone, "the hub is not heard of with such a clock")
	kept()
	now = now.Add(-20 * 365 * 24 * time.Hour)
	gone, err = l.Collect(t.Context(), true)
	require.NoError(t, err)
	require.Empty(t, gone)
	kept()
	now = now.Add(20 * 365 * 24 * time.Hour)
	gone, err = l.Collect(t.Context(), true)
	require.NoError(t, err)
	require.Len(t, gone, 2)
}

func TestAnOperationTakesEffectOnce(t *testing.T) {
	t.Parallel()
	l := open(t, ledger.Config{})
	rec, existed, err := l.Operation(t.Context(), "op", []byte("digest"), []byte("plan"), ledger.Subject{})
	require.NoError(t, err)
	require.False(t, existed)
	require.False(t, rec.GetDone())
	rec, existed, err = l.Operation(t.Context(), "op", []byte("digest"), []byte("a new plan"), ledger.Subject{})
	require.NoError(t, err)
	require.True(t, existed)
	require.Equal(t, "plan", string(rec.GetPlan()), "the first plan is what was begun")
	require.NoError(t, l.Complete(t.Context(), "op", []byte("result")))
	require.NoError(t, l.Complete(t.Context(), "op", []byte("another")))
	rec, _, err = l.Operation(t.Context(), "op", []byte("digest"), nil, ledger.Subject{})
	require.NoError(t, err)
	require.True(t, rec.GetDone())
	require.Equal(t, "result", string(rec.GetResult()))
	_, _, err = l.Operation(t.Context(), "op", []byte("other"), nil, ledger.Subject{})
	require.True(t, fault.Is(err, fault.Exists), "%v", err)
	require.ErrorContains(t, l.Complete(t.Context(), "never", nil), "not in the ledger")
}

func TestASecondDaemonIsRefused(t *testing.T) {
	t.Parallel()
	l := open(t, ledger.Config{})
	_, err := ledger.Open(ledger.Config{Path: l.Path()})
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.ErrorContains(t, err, "another process")
}

// A damaged file is said and refused, whatever the damage: no panic, and no
// ledger that silently forgot.
func TestADamagedLedgerIsRefusedOrWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	l, err := ledger.Open(ledger.Config{Path: path})
	require.NoError(t, err)
	const many = 60
	for i := range many {
		_, _, err := l.Exec(t.Context(), spec(fmt.Sprintf("step-%03d", i)), "")
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	page := os.Getpagesize()

	for name, damage := range map[string]func([]byte) []byte{
		"cut in half":            func(b []byte) []byte { return b[:len(b)/2] },
		"cut within a page":      func(b []byte) []byte { return b[:3*page+page/2] },
		"not a database":         func([]byte) []byte { return bytes.Repeat([]byte("x"), 4*page) },
		"both meta pages zeroed": func(b []byte) []byte { clear(b[:2*page]); return b },
		"every data page zeroed": func(b []byte) []byte { clear(b[2*page:]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "ledger.db")
			require.NoError(t, os.WriteFile(at, damage(bytes.Clone(whole)), 0o600))
			_, err := ledger.Open(ledger.Config{Path: at})
			require.Error(t, err)
			require.True(t, fault.Is(err, fault.Internal), "%v", err)
			require.ErrorContains(t, err, at+" is damaged")
			require.ErrorContains(t, err, "restore it")
		})
	}
	t.Run("any page overwritten", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			raw := bytes.Clone(whole)
			from := rapid.IntRange(0, len(raw)-1).Draw(rt, "from")
			to := min(len(raw), from+rapid.IntRange(1, 64).Draw(rt, "length"))
			for i := from; i < to; i++ {
				raw[i] ^= 0xff
			}
			at := filepath.Join(dir, "damaged.db")
			require.NoError(rt, os.WriteFile(at, raw, 0o600))
			l, err := ledger.Open(ledger.Config{Path: at})
			if err != nil {
				return // said
			}
			defer l.Close()
			// What could be opened answers or says so, and does not take the
			// daemon with it.
			_, _ = l.Execs(t.Context(), "", false)
			_, _, _ = l.Exec(t.Context(), spec("new"), "")
		})
	})
}

func TestTheLedgerIsListedInPages(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	l := open(t, ledger.Config{Now: func() time.Time { return at }})
	for i, id := range []string{"step_a", "step_c", "step_d"} {
		_, _, err := l.Exec(t.Context(), &nodev1.ExecSpec{ExecId: id, JailId: "jail_1", Argv: []string{"echo", id}, Env: []string{"SECRET=x"}}, "init")
		require.NoError(t, err)
		if i == 0 {
			require.NoError(t, l.FinishExecs(t.Context(), []*nodev1.Exec{{ExecId: id, State: nodev1.ExecState_EXEC_STATE_ENDED, ExitCode: 3}}))
			at = at.Add(time.Hour)
		}
	}
	_, _, err := l.Operation(t.Context(), "step_b", []byte("d"), nil, ledger.Subject{JailID: "jail_2", What: "append notes.txt"})
	require.NoError(t, err)
	require.NoError(t, l.Complete(t.Context(), "step_b", nil))

	var ids []string
	req := &nodev1.ListLedgerRequest{Limit: 2}
	for {
		page, err := l.List(t.Context(), req)
		require.NoError(t, err)
		for _, e := range page.GetEntries() {
			ids = append(ids, e.GetId())
		}
		if !page.GetMore() {
			break
		}
		require.Len(t, page.GetEntries(), 2)
		req.AfterId = ids[len(ids)-1]
	}
	require.Equal(t, []string{"step_a", "step_b", "step_c", "step_d"}, ids)

	since, err := l.List(t.Context(), &nodev1.ListLedgerRequest{CreatedAfter: timestamppb.New(at.Add(-time.Minute))})
	require.NoError(t, err)
	require.Len(t, since.GetEntries(), 3, "step_a was made before")
	require.Equal(t, "append notes.txt", since.GetEntries()[0].GetOperation())
	require.Equal(t, "jail_2", since.GetEntries()[0].GetJailId())
	require.True(t, since.GetEntries()[0].GetDone())
	require.Equal(t, []string{"echo", "step_c"}, since.GetEntries()[1].GetArgv())
	require.Equal(t, nodev1.ExecState_EXEC_STATE_RUNNING, since.GetEntries()[1].GetExec().GetState())
	require.WithinDuration(t, at.Add(-ledger.DefaultRetention), since.GetCompleteSince().AsTime(), time.Second)
}

func TestARestoredLedgerDoesNotClaimToBeComplete(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	l, err := ledger.Open(ledger.Config{Path: path, Now: now})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, ledger.MarkRestored(path, at.Add(-time.Hour)))
	list, err := open(t, ledger.Config{Path: path, Now: now}).List(t.Context(), &nodev1.ListLedgerRequest{})
	require.NoError(t, err)
	require.Equal(t, at.Add(-time.Hour), list.GetCompleteSince().AsTime())
}
