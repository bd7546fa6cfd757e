package ledger

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Operation gets or creates the record of an operation that must take effect
// once. digest tells one request from another; plan is kept as it is, and
// should let its writer tell after a crash whether the effect happened (the
// digest that a file will have, for example).
//
// When it answers existed == false, the record is on disk and this caller may
// take effect, then Complete. When existed and not Done, an earlier caller
// began and nobody knows how far it came: compare the world with the plan that
// is answered. The same id with another digest is refused with fault.Exists.
func (l *Ledger) Operation(ctx context.Context, id string, digest, plan []byte) (rec *nodev1.OperationRecord, existed bool, err error) {
	err = l.update(ctx, func(tx *bbolt.Tx) error {
		operations := tx.Bucket(bucketOperations)
		have := &nodev1.OperationRecord{}
		if existed, err = get(operations, id, have); err != nil {
			return err
		}
		if existed {
			rec = have
			return sameDigest("operation", id, rec.GetDigest(), digest)
		}
		rec = &nodev1.OperationRecord{Digest: digest, Plan: plan, CreatedAt: timestamppb.New(l.now())}
		return put(operations, id, rec)
	})
	if err != nil {
		return nil, existed, err
	}
	return rec, existed, nil
}

// Complete records that an operation took effect and what was answered. The
// first completion stays.
func (l *Ledger) Complete(ctx context.Context, id string, result []byte) error {
	return l.update(ctx, func(tx *bbolt.Tx) error {
		operations := tx.Bucket(bucketOperations)
		rec := &nodev1.OperationRecord{}
		ok, err := get(operations, id, rec)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("complete operation %s: it is not in the ledger", id)
		}
		if rec.GetDone() {
			return nil
		}
		rec.Done, rec.Result, rec.DoneAt = true, result, timestamppb.New(l.now())
		return put(operations, id, rec)
	})
}
