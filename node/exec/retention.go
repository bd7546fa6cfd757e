package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/node/execlog"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	defaultLogAge   = 7 * 24 * time.Hour
	defaultLogBytes = 20 << 30
	// leastAge is the minimum time that operators' logs are kept, whatever
	// others write.
	leastAge = 24 * time.Hour
)

// retention decides which logs are kept. A log is kept or deleted as a whole,
// because offsets never change.
type retention struct {
	age   time.Duration
	bytes int64
	now   func() time.Time
}

func newRetention(cfg Config) (retention, error) {
	r := retention{age: cfg.LogAge, bytes: cfg.LogBytes, now: cfg.Now}
	if r.age == 0 {
		r.age = defaultLogAge
	}
	if r.bytes == 0 {
		r.bytes = defaultLogBytes
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.age < 0 || r.bytes < 0 {
		return r, fmt.Errorf("exec: LogAge is %s and LogBytes %d; neither can be negative", r.age, r.bytes)
	}
	return r, nil
}

// tooMany returns the records whose logs must be deleted: those that are too
// old or were only passed on, and then, until the rest fit, the oldest log of the owner with the most
// bytes. A jail that writes much therefore loses its own logs before anybody
// else's. Logs of people and of the machine itself are evidence of what was
// done. They are counted separately, and are kept for at least leastAge while
// they take no more than half of the room. If the clock is not trusted, no log
// counts as too old.
func (r retention) tooMany(records []*nodev1.ExecRecord, trusted bool) []*nodev1.ExecRecord {
	var kept, gone []*nodev1.ExecRecord
	total := int64(0)
	oldest, recent := r.now().Add(-r.age), r.now().Add(-leastAge)
	if !trusted {
		oldest, recent = time.Time{}, time.Time{}
	}
	for _, rec := range records {
		end := rec.GetResult()
		switch {
		case end == nil || end.GetLogDeletedAt() != nil || keptBytes(end) <= 0:
		case end.GetEndedAt().AsTime().Before(oldest), rec.GetSpec().GetPassing():
			gone = append(gone, rec)
		default:
			kept = append(kept, rec)
			total += keptBytes(end)
		}
	}
	if total <= r.bytes {
		return gone
	}
	slices.SortFunc(kept, func(a, b *nodev1.ExecRecord) int {
		return b.GetResult().GetEndedAt().AsTime().Compare(a.GetResult().GetEndedAt().AsTime())
	})
	owners := map[owner]*logsOf{}
	evidence := int64(0)
	for _, rec := range kept { // the newest first
		whose := ownerOf(rec.GetSpec())
		logs := owners[whose]
		if logs == nil {
			logs = &logsOf{}
			owners[whose] = logs
		}
		size := keptBytes(rec.GetResult())
		logs.bytes += size
		if whose.people && rec.GetResult().GetEndedAt().AsTime().After(recent) && evidence+size <= r.bytes/2 {
			evidence += size
			continue
		}
		logs.loose = append(logs.loose, rec)
	}
	for total > r.bytes {
		var most *logsOf
		var whose owner
		for of, logs := range owners {
			if len(logs.loose) > 0 && (most == nil || logs.bytes > most.bytes || logs.bytes == most.bytes && of.before(whose)) {
				most, whose = logs, of
			}
		}
		last := len(most.loose) - 1
		size := keptBytes(most.loose[last].GetResult())
		gone = append(gone, most.loose[last])
		most.loose = most.loose[:last]
		most.bytes -= size
		total -= size
	}
	return gone
}

// owner identifies whose logs are counted together.
type owner struct {
	jail   string
	people bool
}

// before reports whether an owner loses a log before another with as many bytes: people's
// logs go last.
func (o owner) before(other owner) bool {
	if o.people != other.people {
		return other.people
	}
	return o.jail < other.jail
}

func ownerOf(spec *nodev1.ExecSpec) owner {
	return owner{jail: spec.GetJailId(), people: spec.GetByPerson() || spec.GetJailId() == jail.HostID}
}

// logsOf is the total size of an owner's logs, and those that may be deleted,
// newest first.
type logsOf struct {
	bytes int64
	loose []*nodev1.ExecRecord
}

func keptBytes(e *nodev1.Exec) int64 { return e.GetLogBytes() - e.GetLogDroppedBytes() }

// trimLogs deletes the logs that retention does not keep. It records each
// deletion first, so that a missing log is always explained.
func (s *Service) trimLogs(ctx context.Context) error {
	records, err := s.ledger.Execs(ctx, "", false)
	if err != nil {
		return err
	}
	gone := s.logs.tooMany(records, s.clocks.trusted())
	if len(gone) == 0 {
		return nil
	}
	ids := make([]string, 0, len(gone))
	for _, rec := range gone {
		ids = append(ids, rec.GetSpec().GetExecId())
	}
	if err := s.ledger.LogsDeleted(ctx, ids, timestamppb.New(s.logs.now())); err != nil {
		return err
	}
	var errs []error
	for _, rec := range gone {
		errs = append(errs, s.deleteLog(rec.GetSpec()))
	}
	s.log.Info("deleted old logs", "execs", len(gone))
	return errors.Join(errs...)
}

// deleteLog deletes an exec's log and keeps the rest of its folder, from which
// init knows that the exec was started.
func (s *Service) deleteLog(spec *nodev1.ExecSpec) error {
	dir, err := s.jails.OpenExec(spec.GetJailId(), spec.GetExecId())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.jails.HideOutput(spec.GetJailId(), spec.GetExecId()); err != nil {
		return err
	}
	// The index is deleted last, so that a reader that sees data also sees the
	// index.
	for _, name := range []string{execlog.DataFile, execlog.IndexFile} {
		if err := dir.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete the log of %s: %w", spec.GetExecId(), err)
		}
	}
	return nil
}
