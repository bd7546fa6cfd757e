package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// defaultList is how many entries List returns if no limit is given.
	defaultList = 500
	// maxListedArg and maxListedArgs bound the arguments of a listed command.
	maxListedArg  = 4 << 10
	maxListedArgs = 64
)

// List returns the records that were made after a time, in the order of their ids.
// Commands and operations are merged: both have ids of steps. A command that runs has no
// end; its state is what the ledger knows.
func (l *Ledger) List(ctx context.Context, req *nodev1.ListLedgerRequest) (*nodev1.ListLedgerResponse, error) {
	limit := int(req.GetLimit())
	if limit <= 0 {
		limit = defaultList
	}
	out := &nodev1.ListLedgerResponse{CompleteSince: timestamppb.New(l.now().Add(-l.retention))}
	err := l.view(ctx, func(tx *bbolt.Tx) error {
		out.Entries = nil
		if at := tx.Bucket(bucketMeta).Get(keyRestored); len(at) == 8 {
			if restored := time.UnixMicro(int64(binary.BigEndian.Uint64(at))); restored.After(out.GetCompleteSince().AsTime()) {
				out.CompleteSince = timestamppb.New(restored)
			}
		}
		if err := l.listBucket(tx.Bucket(bucketExecs), req, limit, func() listed { return &nodev1.ExecRecord{} }, out); err != nil {
			return err
		}
		return l.listBucket(tx.Bucket(bucketOperations), req, limit, func() listed { return &nodev1.OperationRecord{} }, out)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out.Entries, func(a, b *nodev1.LedgerEntry) int { return strings.Compare(a.GetId(), b.GetId()) })
	if len(out.Entries) > limit {
		out.Entries, out.More = out.Entries[:limit], true
	}
	return out, nil
}

// listed is a record of either bucket.
type listed interface {
	proto.Message
	GetCreatedAt() *timestamppb.Timestamp
}

// listBucket appends up to limit+1 entries of a bucket: one more than is returned says
// that there are more.
func (l *Ledger) listBucket(b *bbolt.Bucket, req *nodev1.ListLedgerRequest, limit int, record func() listed, out *nodev1.ListLedgerResponse) error {
	after := req.GetAfterId()
	cursor := b.Cursor()
	key, value := cursor.First()
	if after != "" {
		if key, value = cursor.Seek([]byte(after)); string(key) == after {
			key, value = cursor.Next()
		}
	}
	for n := 0; key != nil && n <= limit; key, value = cursor.Next() {
		rec := record()
		if err := decode(string(key), value, rec); err != nil {
			return err
		}
		if since := req.GetCreatedAfter(); since != nil && !rec.GetCreatedAt().AsTime().After(since.AsTime()) {
			continue
		}
		out.Entries = append(out.Entries, l.entry(string(key), rec))
		n++
	}
	return nil
}

// entry returns a record as it is listed. What a command was given on standard input and
// in its environment is left out.
func (l *Ledger) entry(id string, rec listed) *nodev1.LedgerEntry {
	entry := &nodev1.LedgerEntry{Id: id, CreatedAt: rec.GetCreatedAt()}
	switch rec := rec.(type) {
	case *nodev1.OperationRecord:
		entry.JailId, entry.Operation, entry.Done = rec.GetJailId(), rec.GetWhat(), rec.GetDone()
	case *nodev1.ExecRecord:
		spec := rec.GetSpec()
		entry.JailId, entry.Done = spec.GetJailId(), rec.GetResult() != nil
		for _, arg := range spec.GetArgv()[:min(len(spec.GetArgv()), maxListedArgs)] {
			entry.Argv = append(entry.Argv, textcut.Bytes(arg, maxListedArg, "…"))
		}
		entry.Exec = rec.GetResult()
		if entry.Exec == nil {
			entry.Exec = &nodev1.Exec{ExecId: id, JailId: spec.GetJailId(), State: nodev1.ExecState_EXEC_STATE_RUNNING, CreatedAt: rec.GetCreatedAt()}
			if rec.GetBootId() != l.bootID {
				entry.Exec.State, entry.Exec.EndReason = nodev1.ExecState_EXEC_STATE_ENDED, nodev1.EndReason_END_REASON_UNKNOWN
			}
		}
	}
	return entry
}

// MarkRestored notes in the ledger at path that it was restored from a backup now, so that
// what the node did before may be missing. No daemon may have it open.
func MarkRestored(path string, now time.Time) error {
	return guard(path, func() error {
		if err := verify(path); err != nil {
			return err
		}
		db, err := open(path)
		if err != nil {
			return err
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keyRestored, binary.BigEndian.AppendUint64(nil, uint64(now.UnixMicro())))
		})
		return errors.Join(err, db.Close())
	})
}
