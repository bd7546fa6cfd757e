package ledger

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Recorded notes that the hub has the ends of execs and operations on record:
// it will not ask for them to be begun again, and they may be forgotten in
// their time. Ids that are not here are passed over.
func (l *Ledger) Recorded(ctx context.Context, ids []string) error {
	return l.update(ctx, func(tx *bbolt.Tx) error {
		for _, id := range ids {
			exec, operation := &nodev1.ExecRecord{}, &nodev1.OperationRecord{}
			if err := change(tx.Bucket(bucketExecs), id, exec, func() bool {
				exec.Recorded = exec.GetResult() != nil
				return exec.GetRecorded()
			}); err != nil {
				return err
			}
			if err := change(tx.Bucket(bucketOperations), id, operation, func() bool {
				operation.Recorded = true
				return true
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// change reads the record of a key into m, and writes it back if edit says so.
func change(b *bbolt.Bucket, id string, m proto.Message, edit func() bool) error {
	ok, err := get(b, id, m)
	if err != nil || !ok || !edit() {
		return err
	}
	return put(b, id, m)
}

// Collect forgets the records whose time is over and returns those of execs,
// whose logs may go with them. heard says that there is contact with the hub:
// only then is anything forgotten that the hub may not have, since a clock that
// is far off allows none, and would forget all.
func (l *Ledger) Collect(ctx context.Context, heard bool) ([]*nodev1.ExecRecord, error) {
	now := l.now()
	over := func(end time.Time, recorded bool) bool {
		if recorded {
			return end.Before(now.Add(-l.retention))
		}
		return heard && end.Before(now.Add(-l.unknown))
	}
	var gone []*nodev1.ExecRecord
	err := l.update(ctx, func(tx *bbolt.Tx) error {
		gone = nil
		var keys [][]byte
		execs := tx.Bucket(bucketExecs)
		if err := execs.ForEach(func(id, raw []byte) error {
			rec := &nodev1.ExecRecord{}
			if err := decode(string(id), raw, rec); err != nil {
				return err
			}
			if rec.GetResult() != nil && over(rec.GetResult().GetEndedAt().AsTime(), rec.GetRecorded()) {
				gone, keys = append(gone, rec), append(keys, id)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := deleteAll(execs, keys); err != nil {
			return err
		}
		return collectOperations(tx.Bucket(bucketOperations), over)
	})
	if err != nil {
		return nil, fmt.Errorf("collect the ledger: %w", err)
	}
	return gone, nil
}

// collectOperations removes the operations whose retention, counted from their
// beginning, has passed, whether they are done or not: they are not retried any
// more.
func collectOperations(b *bbolt.Bucket, over func(end time.Time, recorded bool) bool) error {
	var keys [][]byte
	if err := b.ForEach(func(id, raw []byte) error {
		rec := &nodev1.OperationRecord{}
		if err := decode(string(id), raw, rec); err != nil {
			return err
		}
		if over(rec.GetCreatedAt().AsTime(), rec.GetRecorded()) {
			keys = append(keys, id)
		}
		return nil
	}); err != nil {
		return err
	}
	return deleteAll(b, keys)
}

func deleteAll(b *bbolt.Bucket, keys [][]byte) error {
	for _, key := range keys {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}
