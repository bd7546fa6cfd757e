package hublink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// maxKept is how many records may wait for the hub. Beyond, no request with a
	// credential is made.
	maxKept = 20_000
	// batch is how many records are sent at once, and batchBytes how long they may be
	// together, encoded. gather is how long they are gathered.
	batch      = 500
	batchBytes = 1 << 20
	gather     = 100 * time.Millisecond
	// maxSize is how long the file may become before it is written again, in bytes.
	maxSize = 8 << 20
)

// interrupted is the problem of a record whose end was not seen.
const interrupted = "the egress proxy ended before the response did"

// Journal stores records of requests with credentials until the hub has them, in a file
// that outlasts the process. It implements egress.Recorder. A record is in the file before
// its request is made. The file has one JSON object in each line: a record, at its begin and
// again at its end. It is written again, without what the hub has, when it has grown.
type Journal struct {
	path  string
	store func(context.Context, []egresslink.Record) error
	log   hclog.Logger
	wake  chan struct{}

	mu    sync.Mutex
	file  *os.File                     // guarded by mu
	size  int                          // of the file, in bytes; guarded by mu
	open  map[string]egresslink.Record // requests under way; guarded by mu
	ended []entry                      // not stored yet; guarded by mu
}

// entry is a record that has ended, with its size in the file.
type entry struct {
	egresslink.Record
	size int
}

// OpenJournal opens a journal, with what the process before has left in it. store sends
// records to the hub. The caller runs Send, and closes the journal.
func OpenJournal(path string, store func(context.Context, []egresslink.Record) error, log hclog.Logger) (*Journal, error) {
	j := &Journal{path: path, store: store, log: log, wake: make(chan struct{}, 1), open: map[string]egresslink.Record{}}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the records of requests: %w", err)
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
	}
	return j, j.rewrite()
}

// rewrite writes the file with what the hub has not. The caller holds mu, or is alone.
func (j *Journal) rewrite() error {
	var out bytes.Buffer
	var all []egresslink.Record
	for _, one := range j.ended {
		all = append(all, one.Record)
	}
	for _, rec := range slices.AppendSeq(all, maps.Values(j.open)) {
		line, err := egresslink.Encode(rec)
		if err != nil {
			return err
		}
		out.Write(line)
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
	j.file, j.size = file, out.Len()
	return err
}

// Close closes the file. What is in it is sent by the next process.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}

// Begin implements egress.Recorder.
func (j *Journal) Begin(rec egresslink.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.open)+len(j.ended) >= maxKept {
		return fault.New(fault.Unavailable, "%d requests with credentials wait to be recorded by the hub, which is away", maxKept).
			WithFix("try again once this node is connected")
	}
	if _, err := j.write(rec); err != nil {
		return fault.New(fault.Unavailable, "the request cannot be recorded on this node").WithFix("free disk space there").WithCause(err)
	}
	j.open[rec.ID] = rec
	return nil
}

// End implements egress.Recorder.
func (j *Journal) End(rec egresslink.Record) {
	j.mu.Lock()
	rec.Duration = max(rec.Duration, 1) // a record with a duration is one that has ended
	size, err := j.write(rec)
	if err != nil {
		j.log.Error("cannot write the end of a request with a credential", "error", err)
	}
	delete(j.open, rec.ID)
	j.ended = append(j.ended, entry{rec, size})
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// write appends a record to the file and returns its size. The caller holds mu.
func (j *Journal) write(rec egresslink.Record) (size int, err error) {
	line, err := egresslink.Encode(rec)
	if err != nil {
		return 0, err
	}
	n, err := j.file.Write(line)
	if err != nil && n > 0 {
		// What comes next must not be appended to half a line.
		return len(line), errors.Join(err, j.file.Truncate(int64(j.size)))
	}
	j.size += n
	return len(line), err
}

// next returns records to send: as many as most, and as fit.
func (j *Journal) next(most int) []egresslink.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
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
						j.log.Error("the hub does not take the record of a request with a credential; it is dropped", "record", some[0].ID, "jail", some[0].JailID, "error", err)
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
			continue
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
	j.ended = slices.Delete(j.ended, 0, n)
	if j.size < maxSize && (j.size == 0 || len(j.ended)+len(j.open) > 0) {
		return
	}
	if err := j.rewrite(); err != nil {
		j.log.Error("cannot shorten the file of records", "error", err)
	}
}
