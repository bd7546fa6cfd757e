package ledger

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Subject is what an operation is about.
type Subject struct {
	JailID string
	// What it does to which file, such as "append notes.txt".
	What string
}

// Operation gets or creates the record of an operation that must take effect
// once. digest identifies the request. plan is stored unchanged, and should
// allow its writer to determine after a crash whether the operation took effect
// (for example the digest that a file will have).
//
// If existed is false, the record is on disk and this caller may take effect,
// and must then call Complete. If existed is true and the record is not Done,
// an earlier caller began and its progress is unknown: compare the actual state
// with the returned plan. A known id with a different digest is refused with
// fault.Exists. of is stored for those who look at the record later.
func (l *Ledger) Operation(ctx context.Context, id string, digest, plan []byte, of Subject) (rec *nodev1.OperationRecord, existed bool, err error) {
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
		rec = &nodev1.OperationRecord{Digest: digest, Plan: plan, CreatedAt: timestamppb.New(l.now()), JailId: of.JailID, What: of.What}
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
