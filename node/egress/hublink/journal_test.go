package hublink_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/egress/hublink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a hub that ignores records that it has.
type store struct {
	mu    sync.Mutex
	fails int // how often it stores and then says that it failed
	have  map[string]egresslink.Record
	calls int
}

func (s *store) put(_ context.Context, records []egresslink.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	for _, rec := range records {
		if _, known := s.have[rec.ID]; !known {
			s.have[rec.ID] = rec
		}
	}
	if s.fails--; s.fails >= 0 {
		return errors.New("the response was lost")
	}
	return nil
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.have)
}

func open(t *testing.T, path string, s *store) *hublink.Journal {
	t.Helper()
	j, err := hublink.OpenJournal(path, s.put, hclog.NewNullLogger())
	require.NoError(t, err)
	return j
}

func send(t *testing.T, j *hublink.Journal, until func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { j.Send(ctx) })
	waittest.Until(t, 20*time.Second, "records are sent", until)
	cancel()
	all.Wait()
}

func record(i int) egresslink.Record {
	return egresslink.Record{ID: fmt.Sprintf("creq_%d", i), Credential: "github", Method: "GET", At: time.Now().UTC()}
}

func TestRecordsAreSentUntilTheHubHasThem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	s := &store{have: map[string]egresslink.Record{}, fails: 1}
	j := open(t, path, s)
	for i := range 3 {
		rec := record(i)
		require.NoError(t, j.Begin(rec))
		rec.Status, rec.Duration = 200, time.Second
		j.End(rec)
	}
	empty := func() bool { info, err := os.Stat(path); return err == nil && info.Size() == 0 }
	send(t, j, empty)
	assert.Equal(t, 3, s.count())
	assert.Greater(t, s.calls, 1)
	assert.Equal(t, 200, s.have["creq_0"].Status)
	require.NoError(t, j.Close())
}

// What a process has not sent, or did not see the end of, the next one sends.
func TestTheNextProcessSendsWhatIsLeft(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	s := &store{have: map[string]egresslink.Record{}}
	j := open(t, path, s)
	for i := range 3 {
		require.NoError(t, j.Begin(record(i)))
	}
	rec := record(0)
	rec.Status = 201
	j.End(rec)
	require.NoError(t, j.Close())
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"id":"creq_9","cred`) // the process died there
	require.NoError(t, err)
	require.NoError(t, file.Close())

	again := open(t, path, s)
	send(t, again, func() bool { return s.count() == 3 })
	assert.Equal(t, 201, s.have["creq_0"].Status)
	assert.Empty(t, s.have["creq_0"].Problem)
	for _, id := range []string{"creq_1", "creq_2"} {
		assert.Equal(t, "the egress proxy ended before the response did", s.have[id].Problem)
	}
	require.NoError(t, again.Close())
}

// Without the hub, requests are not made without end, and a jail that makes many keeps no
// other from making its own.
func TestAFullJournalRefusesRequests(t *testing.T) {
	t.Parallel()
	s := &store{have: map[string]egresslink.Record{}}
	j := open(t, filepath.Join(t.TempDir(), "requests.jsonl"), s)
	var all []egresslink.Record
	// fill makes as many requests of a jail as it may make, and returns why not more.
	fill := func(jail string) (n int, err error) {
		for ; n < 30_000; n++ {
			rec := record(len(all))
			rec.JailID = jail
			if err = j.Begin(rec); err != nil {
				return n, err
			}
			all = append(all, rec)
		}
		return n, nil
	}
	for i := range 5 {
		n, err := fill(fmt.Sprintf("jail_%d", i))
		require.True(t, fault.Is(err, fault.Unavailable))
		require.ErrorContains(t, err, "requests of this jail")
		assert.Equal(t, 4_000, n, "jail %d", i)
	}
	n, err := fill("jail_late")
	require.True(t, fault.Is(err, fault.Unavailable))
	require.ErrorContains(t, err, "wait to be recorded by the hub")
	assert.Equal(t, 100, n, "what others have made leaves a jail its own")
	for _, rec := range all {
		j.End(rec)
	}
	send(t, j, func() bool { return s.count() == len(all) })
	rec := record(len(all))
	rec.JailID = "jail_0"
	require.NoError(t, j.Begin(rec))
	require.NoError(t, j.Close())
}

// Two processes never write one journal: the second waits for the end of the first.
func TestAJournalIsOneProcesss(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	s := &store{have: map[string]egresslink.Record{}}
	first := open(t, path, s)
	opened := make(chan *hublink.Journal)
	go func() {
		second, err := hublink.OpenJournal(path, s.put, hclog.NewNullLogger())
		assert.NoError(t, err)
		opened <- second
	}()
	require.NoError(t, first.Begin(record(1)))
	select {
	case <-opened:
		t.Fatal("two have it")
	case <-time.After(100 * time.Millisecond): // the second one would have read the file by now
	}
	ended := record(2)
	require.NoError(t, first.Begin(ended))
	ended.Status = 204
	first.End(ended)
	require.NoError(t, first.Close())
	second := <-opened
	send(t, second, func() bool { return s.count() == 2 })
	assert.Equal(t, 204, s.have["creq_2"].Status, "what the first wrote last is read")
	assert.NotEmpty(t, s.have["creq_1"].Problem)
	require.NoError(t, second.Close())
}

// A record that the hub does not take keeps no others from it, and records are sent in pieces
// that the hub takes, however long their paths are.
func TestARecordThatTheHubDoesNotTakeIsDropped(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	stored := map[string]bool{}
	all := make(chan struct{})
	journal, err := hublink.OpenJournal(filepath.Join(t.TempDir(), "requests.jsonl"), func(_ context.Context, records []egresslink.Record) error {
		raw, err := egresslink.Encode(egresslink.Records{Records: records})
		if err != nil || len(raw) > 4<<20 {
			return fault.New(fault.Invalid, "the question cannot be read")
		}
		for _, rec := range records {
			if rec.Method == "BAD" {
				return fault.New(fault.Invalid, "the question cannot be read")
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rec := range records {
			stored[rec.ID] = true
		}
		if len(stored) == 1999 {
			close(all)
		}
		return nil
	}, hclog.NewNullLogger())
	require.NoError(t, err)
	for i := range 2000 {
		rec := egresslink.Record{ID: strconv.Itoa(i), Method: "GET", Path: strings.Repeat("&", 2048)}
		if i == 700 {
			rec.Method = "BAD"
		}
		require.NoError(t, journal.Begin(rec))
		journal.End(rec)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() { journal.Send(ctx) })
	select {
	case <-all:
	case <-time.After(waittest.Limit(30 * time.Second)):
		t.Error("not all records were stored")
	}
	cancel()
	sending.Wait()
	require.NoError(t, journal.Close())
	require.False(t, stored["700"])
}
