package hublink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// maxKept is how many records may wait for the hub, and ofOneJail how many of them may be
	// of one jail. Beyond, no request with a credential is made. A jail may always have as many
	// as least, so that others cannot keep it from making requests.
	maxKept   = 20_000
	ofOneJail = 4_000
	least     = 100
	// batch is how many records are sent at once, and batchBytes how long they may be
	// together, encoded. gather is how long they are gathered.
	batch      = 500
	batchBytes = 1 << 20
	gather     = 100 * time.Millisecond
	// maxSize is how long the file may become before it is written again, in bytes, if most of
	// it is not needed any more.
	maxSize = 8 << 20
)

// interrupted is the problem of a record whose end was not seen.
const interrupted = "the egress proxy ended before the response did"

// Journal stores records of requests with credentials until the hub has them, in a file
// that outlasts the process. It implements egress.Recorder. A record is in the file before
// its request is made. The file has one JSON object in each line: a record, at its begin and
// again at its end. The end is written with the next begin, or after a moment: of a request
// that ended in the last moment of a process, the next one may know the begin only. The file
// is emptied when the hub has everything, and written again when most of it is not needed.
//
// A file beside it is locked: one process has the journal, and another one waits for its end.
type Journal struct {
	path  string
	store func(context.Context, []egresslink.Record) error
	log   hclog.Logger
	lock  *os.File
	wake  chan struct{}

	mu    sync.Mutex
	file  *os.File                     // guarded by mu
	size  int                          // of the file, in bytes; guarded by mu
	late  []byte                       // ends that are not in the file yet; guarded by mu
	open  map[string]egresslink.Record // requests under way; guarded by mu
	ended []entry                      // not stored yet; guarded by mu
	kept  int                          // bytes of ended; guarded by mu
	jails map[string]int               // how many of open and ended are of each; guarded by mu
}

// entry is a record that has ended, with its size in the file.
type entry struct {
	egresslink.Record
	size int
}

// OpenJournal opens a journal, with what the process before has left in it, once that has
// ended. store sends records to the hub. The caller runs Send, and closes the journal.
func OpenJournal(path string, store func(context.Context, []egresslink.Record) error, log hclog.Logger) (*Journal, error) {
	j := &Journal{path: path, store: store, log: log, wake: make(chan struct{}, 1), open: map[string]egresslink.Record{}, jails: map[string]int{}}
	var err error
	if j.lock, err = lockFile(path + ".lock"); err != nil {
		return nil, fmt.Errorf("lock the records of requests: %w", err)
	}
	if err := j.read(); err != nil {
		return nil, errors.Join(err, j.lock.Close())
	}
	return j, nil
}

// lockFile opens a file and waits until no other process has it locked.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX)
		switch {
		case err == nil:
			return file, nil
		case !errors.Is(err, unix.EINTR):
			return nil, errors.Join(err, file.Close())
		}
	}
}

// read reads what the process before has left. The caller is alone.
func (j *Journal) read() error {
	raw, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the records of requests: %w", err)
	}
	left := map[string]entry{}
	var order []string
	for line := range bytes.Lines(raw) {
		var rec egresslink.Record
		if json.Unmarshal(line, &rec) != nil || rec.ID == "" {
			continue // it was cut off with its process
		}
		if _, known := left[rec.ID]; !known {
			order = append(order, rec.ID)
		}
		left[rec.ID] = entry{rec, len(line)}
	}
	for _, id := range order {
		rec := left[id]
		if rec.Duration == 0 {
			rec.Problem, rec.Duration = interrupted, 1
		}
		j.ended = append(j.ended, rec)
		j.kept += rec.size
		j.jails[rec.JailID]++
	}
	return j.rewrite()
}

// rewrite writes the file with what the hub has not. The caller holds mu, or is alone.
func (j *Journal) rewrite() error {
	var out bytes.Buffer
	write := func(rec egresslink.Record) error {
		line, err := egresslink.Encode(rec)
		out.Write(line)
		return err
	}
	for _, one := range j.ended {
		if err := write(one.Record); err != nil {
			return err
		}
	}
	for _, rec := range j.open {
		if err := write(rec); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(j.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("write the records of requests: %w", err)
	}
	if _, err = file.Write(out.Bytes()); err == nil {
		err = os.Rename(file.Name(), j.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the records of requests: %w", err), file.Close())
	}
	if j.file != nil {
		err = j.file.Close()
	}
	j.file, j.size, j.late = file, out.Len(), j.late[:0]
	return err
}

// Close closes the file. What is in it is sent by the next process.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.write(nil), j.file.Close(), j.lock.Close())
}

// Begin implements egress.Recorder.
func (j *Journal) Begin(rec egresslink.Record) error {
	line, err := egresslink.Encode(rec)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	mine := j.jails[rec.JailID]
	switch {
	case mine < least:
	case mine >= ofOneJail:
		return fault.New(fault.Unavailable, "%d requests of this jail with credentials wait to be recorded by the hub, which is away or slow", ofOneJail).
			WithFix("try again once this node is connected")
	case len(j.open)+len(j.ended) >= maxKept:
		return fault.New(fault.Unavailable, "%d requests with credentials wait to be recorded by the hub, which is away", maxKept).
			WithFix("try again once this node is connected")
	}
	if err := j.write(line); err != nil {
		return fault.New(fault.Unavailable, "the request cannot be recorded on this node").WithFix("free disk space there").WithCause(err)
	}
	j.open[rec.ID] = rec
	j.jails[rec.JailID]++
	return nil
}

// End implements egress.Recorder.
func (j *Journal) End(rec egresslink.Record) {
	rec.Duration = max(rec.Duration, 1) // a record with a duration is one that has ended
	line, err := egresslink.Encode(rec)
	if err != nil {
		j.log.Error("cannot encode the end of a request with a credential", "error", err)
	}
	j.mu.Lock()
	if _, known := j.open[rec.ID]; !known {
		j.jails[rec.JailID]++ // it is dropped by stored
	}
	delete(j.open, rec.ID)
	j.late = append(j.late, line...)
	j.ended = append(j.ended, entry{rec, len(line)})
	j.kept += len(line)
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// write appends the ends that are late, and a line, to the file. The caller holds mu.
func (j *Journal) write(line []byte) error {
	j.late = append(j.late, line...)
	if len(j.late) == 0 {
		return nil
	}
	n, err := j.file.Write(j.late)
	if err == nil {
		j.size += n
		j.late = j.late[:0]
		return nil
	}
	j.late = j.late[:len(j.late)-len(line)]
	if n > 0 {
		// What comes next must not be appended to half a line.
		err = errors.Join(err, j.file.Truncate(int64(j.size)))
	}
	return err
}

// next writes what is late, and returns records to send: as many as most, and as fit.
func (j *Journal) next(most int) []egresslink.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(nil); err != nil {
		j.log.Error("cannot write the ends of requests with credentials", "error", err)
	}
	var out []egresslink.Record
	size := 0
	for _, one := range j.ended[:min(len(j.ended), most)] {
		if size += one.size; size > batchBytes && len(out) > 0 {
			break
		}
		out = append(out, one.Record)
	}
	return out
}

// Send sends records to the hub until ctx ends.
func (j *Journal) Send(ctx context.Context) {
	var failures int
	most := batch
	for {
		some := j.next(most)
		wait := gather
		switch {
		case len(some) == 0:
			select {
			case <-ctx.Done():
				return
			case <-j.wake:
			}
		default:
			if err := j.store(ctx, some); err != nil {
				if ctx.Err() != nil {
					return
				}
				// Of records that the hub does not take, the one that is to blame is looked for
				// and dropped: the others must not wait for it.
				if fault.Is(err, fault.Invalid) {
					if most = max(1, len(some)/2); len(some) == 1 {
						j.log.Error("the hub does not take the record of a request with a credential; it is dropped", "record", some[0].ID, "jail_id", some[0].JailID, "error", err)
						j.stored(1)
					}
					continue
				}
				failures++
				wait = backoff.Policy{}.Delay(failures)
				j.log.Warn("cannot send the records of requests with credentials to the hub; trying again", "error", err, "failures", failures)
				break
			}
			failures, most = 0, batch
			j.stored(len(some))
			if len(some) == batch {
				continue
			}
			// The others are gathered as well: records are not sent one by one while requests
			// are made one after the other.
		}
		if backoff.Wait(ctx, wait) != nil {
			return
		}
	}
}

// stored drops records that the hub has.
func (j *Journal) stored(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.ended[:n] {
		j.kept -= one.size
		if j.jails[one.JailID]--; j.jails[one.JailID] == 0 {
			delete(j.jails, one.JailID)
		}
	}
	j.ended = slices.Delete(j.ended, 0, n)
	var err error
	switch {
	case len(j.ended)+len(j.open) == 0 && j.size > 0:
		if err = j.file.Truncate(0); err == nil {
			j.size, j.late = 0, j.late[:0]
		}
	case j.size > maxSize && j.size > 2*j.kept:
		err = j.rewrite()
	}
	if err != nil {
		j.log.Error("cannot shorten the file of records", "error", err)
	}
}
