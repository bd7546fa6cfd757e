package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/node/execlog"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	defaultLogAge   = 7 * 24 * time.Hour
	defaultLogBytes = 20 << 30
)

// retention says which logs are kept: whole ones, since offsets never change.
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

// tooMany answers the records whose logs have to go: those that are too old,
// and then the oldest until the rest fit.
func (r retention) tooMany(records []*nodev1.ExecRecord) []*nodev1.ExecRecord {
	var kept []*nodev1.ExecRecord
	total := int64(0)
	for _, rec := range records {
		if end := rec.GetResult(); end != nil && end.GetLogDeletedAt() == nil && keptBytes(end) > 0 {
			kept = append(kept, rec)
			total += keptBytes(end)
		}
	}
	slices.SortFunc(kept, func(a, b *nodev1.ExecRecord) int {
		return cmp.Compare(a.GetResult().GetEndedAt().AsTime().UnixNano(), b.GetResult().GetEndedAt().AsTime().UnixNano())
	})
	oldest := r.now().Add(-r.age)
	for i, rec := range kept {
		if total <= r.bytes && !rec.GetResult().GetEndedAt().AsTime().Before(oldest) {
			return kept[:i]
		}
		total -= keptBytes(rec.GetResult())
	}
	return kept
}

func keptBytes(e *nodev1.Exec) int64 { return e.GetLogBytes() - e.GetLogDroppedBytes() }

// trimLogs deletes the logs that are not to be kept. It is written down first:
// a log that is missing is never without a word.
func (s *Service) trimLogs(ctx context.Context) error {
	records, err := s.ledger.Execs(ctx, "", false)
	if err != nil {
		return err
	}
	gone := s.logs.tooMany(records)
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

// deleteLog deletes an exec's log and leaves the rest of its folder, by which
// init knows that it was started.
func (s *Service) deleteLog(spec *nodev1.ExecSpec) error {
	dir, err := s.jails.OpenExec(spec.GetJailId(), spec.GetExecId())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	// Who sees data sees its index too.
	for _, name := range []string{execlog.DataFile, execlog.IndexFile} {
		if err := dir.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete the log of %s: %w", spec.GetExecId(), err)
		}
	}
	return nil
}
