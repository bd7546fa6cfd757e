package ledger

import (
	"context"
	"crypto/sha256"
	"fmt"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Digest returns the SHA-256 of a request in its deterministic encoding, which
// identifies the request.
func Digest(m proto.Message) ([]byte, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	sum := sha256.Sum256(raw)
	return sum[:], nil
}

// Exec gets or creates the record of an exec. If existed is false, the record
// is on disk and only this caller may start the command. A known id with a
// different request is refused with fault.Exists. instance names the init that
// is going to start it.
func (l *Ledger) Exec(ctx context.Context, spec *nodev1.ExecSpec, instance string) (rec *nodev1.ExecRecord, existed bool, err error) {
	id := spec.GetExecId()
	digest, err := Digest(spec)
	if err != nil {
		return nil, false, err
	}
	if err := l.reserve.accepting(); err != nil {
		return nil, false, err
	}
	err = l.update(ctx, func(tx *bbolt.Tx) error {
		execs := tx.Bucket(bucketExecs)
		have := &nodev1.ExecRecord{}
		if existed, err = get(execs, id, have); err != nil {
			return err
		}
		if existed {
			rec = have
			return sameExec(rec, digest)
		}
		rec = &nodev1.ExecRecord{
			Digest: digest, Spec: spec, BootId: l.bootID, InitInstance: instance,
			CreatedAt: timestamppb.New(l.now()),
		}
		if err := put(execs, id, rec); err != nil {
			return err
		}
		return tx.Bucket(bucketLive).Put([]byte(id), nil)
	})
	if err != nil {
		return nil, existed, err
	}
	return rec, existed, nil
}

// FindExec returns the existing record of an exec, as Exec would, or nil if
// there is none. It writes nothing.
func (l *Ledger) FindExec(ctx context.Context, spec *nodev1.ExecSpec) (*nodev1.ExecRecord, error) {
	rec, err := l.GetExec(ctx, spec.GetExecId())
	if err != nil || rec == nil {
		return nil, err
	}
	digest, err := Digest(spec)
	if err != nil {
		return nil, err
	}
	if err := sameExec(rec, digest); err != nil {
		return nil, err
	}
	return rec, nil
}

// sameExec refuses a different request under the id of a record. A buried
// record matches every request: none of them may start.
func sameExec(rec *nodev1.ExecRecord, digest []byte) error {
	if len(rec.GetDigest()) == 0 {
		return nil
	}
	return sameDigest("exec", rec.GetSpec().GetExecId(), rec.GetDigest(), digest)
}

// BuryExec records the end of an exec that was never asked for, so that a
// request for its id that is still on its way finds that end and starts
// nothing. An id that is known already is answered as it is.
func (l *Ledger) BuryExec(ctx context.Context, end *nodev1.Exec) (rec *nodev1.ExecRecord, existed bool, err error) {
	id := end.GetExecId()
	err = l.update(ctx, func(tx *bbolt.Tx) error {
		execs := tx.Bucket(bucketExecs)
		have := &nodev1.ExecRecord{}
		if existed, err = get(execs, id, have); err != nil || existed {
			rec = have
			return err
		}
		now := timestamppb.New(l.now())
		end.CreatedAt, end.EndedAt = now, now
		rec = &nodev1.ExecRecord{
			Spec: &nodev1.ExecSpec{ExecId: id}, BootId: l.bootID, CreatedAt: now, Result: end,
		}
		return put(execs, id, rec)
	})
	if err != nil {
		return nil, existed, err
	}
	return rec, existed, nil
}

// GetExec returns the record of an exec, or nil if there is none.
func (l *Ledger) GetExec(ctx context.Context, id string) (*nodev1.ExecRecord, error) {
	var rec *nodev1.ExecRecord
	err := l.view(ctx, func(tx *bbolt.Tx) error {
		have := &nodev1.ExecRecord{}
		ok, err := get(tx.Bucket(bucketExecs), id, have)
		if ok {
			rec = have
		}
		return err
	})
	return rec, err
}

// FinishExecs records how execs ended, in one write. The first end of an exec
// stays: finishing again changes nothing.
func (l *Ledger) FinishExecs(ctx context.Context, results []*nodev1.Exec) error {
	return l.update(ctx, func(tx *bbolt.Tx) error {
		execs, live := tx.Bucket(bucketExecs), tx.Bucket(bucketLive)
		for _, result := range results {
			id := result.GetExecId()
			rec := &nodev1.ExecRecord{}
			ok, err := get(execs, id, rec)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("finish exec %s: it is not in the ledger", id)
			}
			if rec.GetResult() != nil {
				continue
			}
			rec.Result = result
			// These may be large and contain secrets, and are not needed any
			// more.
			rec.Spec.Stdin, rec.Spec.Env = nil, nil
			if err := put(execs, id, rec); err != nil {
				return err
			}
			if err := live.Delete([]byte(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// BecameJob records that an exec became a job, with its changes to the workspace
// until then. The first record stays, and is returned.
func (l *Ledger) BecameJob(ctx context.Context, id string, change *nodev1.WorkspaceChange) (*nodev1.ExecRecord, error) {
	rec := &nodev1.ExecRecord{}
	err := l.update(ctx, func(tx *bbolt.Tx) error {
		execs := tx.Bucket(bucketExecs)
		ok, err := get(execs, id, rec)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("exec %s became a job: it is not in the ledger", id)
		}
		if rec.GetResult() != nil {
			return fmt.Errorf("exec %s became a job: it has ended", id)
		}
		if rec.GetJobSince() != nil {
			return nil
		}
		rec.JobSince, rec.Workspace = timestamppb.New(l.now()), change
		return put(execs, id, rec)
	})
	return rec, err
}

// LogsDeleted records that the logs of finished execs are deleted.
func (l *Ledger) LogsDeleted(ctx context.Context, ids []string, at *timestamppb.Timestamp) error {
	return l.update(ctx, func(tx *bbolt.Tx) error {
		execs := tx.Bucket(bucketExecs)
		for _, id := range ids {
			rec := &nodev1.ExecRecord{}
			ok, err := get(execs, id, rec)
			if err != nil {
				return err
			}
			if !ok || rec.GetResult() == nil {
				continue // collected meanwhile
			}
			rec.Result.LogDeletedAt = at
			if err := put(execs, id, rec); err != nil {
				return err
			}
		}
		return nil
	})
}

// Execs returns the records of a jail's execs in the order of their ids: all
// jails' for "", only unfinished ones if liveOnly.
func (l *Ledger) Execs(ctx context.Context, jailID string, liveOnly bool) ([]*nodev1.ExecRecord, error) {
	var out []*nodev1.ExecRecord
	err := l.view(ctx, func(tx *bbolt.Tx) error {
		execs := tx.Bucket(bucketExecs)
		over := execs
		if liveOnly {
			over = tx.Bucket(bucketLive)
		}
		return over.ForEach(func(id, _ []byte) error {
			rec := &nodev1.ExecRecord{}
			ok, err := get(execs, string(id), rec)
			if err != nil || !ok {
				return err
			}
			if jailID == "" || rec.GetSpec().GetJailId() == jailID {
				out = append(out, rec)
			}
			return nil
		})
	})
	return out, err
}
