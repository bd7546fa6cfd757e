// Package history stores the states of one workspace in one file: the newest
// state, the changes between consecutive states, and the undo that is in
// progress. Every write is one fsynced transaction, so a crash leaves either
// the state before it or the state after it.
//
// Old changes can be removed; the newest state always remains.
package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	lockTimeout = 2 * time.Second
	// format is the number of the file's layout.
	format = 1
)

var (
	bucketMeta    = []byte("meta")
	bucketEntries = []byte("entries")
	bucketDeltas  = []byte("deltas")
	// bucketBy finds the deltas of an id: the id, a NUL, and the delta's number.
	bucketBy  = []byte("by")
	keyFormat = []byte("format")
	// keyRecord names the record: another one has other states under the same
	// numbers.
	keyRecord = []byte("record")
	keySeq    = []byte("seq")
	keyBytes  = []byte("bytes")
	keyIntent = []byte("intent")
	// keyStage is the folder that an undo in a folder of the machine makes contents ready in.
	keyStage = []byte("stage")
)

// History is an open record.
type History struct{ db *bbolt.DB }

// Open opens a record, and creates it if it does not exist.
func Open(path string) (h *History, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = damaged(path, fmt.Errorf("%v", r))
		}
	}()
	opts := *bbolt.DefaultOptions
	opts.Timeout = lockTimeout
	opts.FreelistType = bbolt.FreelistMapType
	opts.NoFreelistSync = true
	db, err := bbolt.Open(path, 0o600, &opts)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fault.New(fault.Unavailable, "the record %s is open in another process", path).
			WithFix("stop the other deckhand-node that uses this data folder").WithCause(err)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("open the record of a workspace: %w", err)
	case err != nil:
		return nil, damaged(path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return err
		}
		if have := meta.Get(keyFormat); have == nil {
			if err := meta.Put(keyFormat, number(format)); err != nil {
				return err
			}
		} else if len(have) != 8 || binary.BigEndian.Uint64(have) != format {
			return fmt.Errorf("its format is %x, this build reads %d", have, format)
		}
		if meta.Get(keyRecord) == nil {
			if err := meta.Put(keyRecord, []byte(ident.New("record"))); err != nil {
				return err
			}
		}
		for _, name := range [][]byte{bucketEntries, bucketDeltas, bucketBy} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(damaged(path, err), db.Close())
	}
	return &History{db}, nil
}

func damaged(path string, err error) error {
	return fault.New(fault.Internal, "the record %s of a workspace's states is damaged: %v", path, err).
		WithFix("move it away: the workspace stays as it is, and earlier changes can no longer be undone").WithCause(err)
}

// Close closes the file.
func (h *History) Close() error { return h.db.Close() }

// Path returns where the record is.
func (h *History) Path() string { return h.db.Path() }

// Name returns the record's name, which no other one has.
func (h *History) Name() (name string, err error) {
	err = h.view(func(tx *bbolt.Tx) error {
		name = string(tx.Bucket(bucketMeta).Get(keyRecord))
		return nil
	})
	return name, err
}

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// Load returns the newest state, its number, and how many bytes of contents it
// and the changes before it were said to take.
func (h *History) Load() (t *tree.Tree, seq, bytes int64, err error) {
	t = tree.New()
	err = h.view(func(tx *bbolt.Tx) error {
		seq, bytes = get(tx, keySeq), get(tx, keyBytes)
		rec := &nodev1.SnapshotEntry{}
		// The workspace itself first: "." is not before all other names.
		if raw := tx.Bucket(bucketEntries).Get([]byte(tree.Root)); raw != nil {
			if err := proto.Unmarshal(raw, rec); err != nil {
				return err
			}
			t.Set(tree.Root, decode(rec))
		}
		return tx.Bucket(bucketEntries).ForEach(func(path, raw []byte) error {
			if string(path) == tree.Root {
				return nil
			}
			proto.Reset(rec)
			if err := proto.Unmarshal(raw, rec); err != nil {
				return fmt.Errorf("the entry %q: %w", path, err)
			}
			if !t.Set(string(path), decode(rec)) {
				return fmt.Errorf("the entry %q has no folder", path)
			}
			return nil
		})
	})
	return t, seq, bytes, err
}

func get(tx *bbolt.Tx, key []byte) int64 {
	if raw := tx.Bucket(bucketMeta).Get(key); len(raw) == 8 {
		return int64(binary.BigEndian.Uint64(raw))
	}
	return 0
}

// Refreshed is an entry that is the same for a person, with another status.
type Refreshed struct {
	Path  string
	Entry *tree.Entry
}

// Next is what Commit records.
type Next struct {
	// Delta is what changed; nil for nothing.
	Delta     *tree.Delta
	Refreshed []Refreshed
	// Bytes that contents take.
	Bytes int64
	// EndIntent says that the undo which is on its way is done.
	EndIntent bool
}

// Commit records the next state.
func (h *History) Commit(n Next) error {
	return h.update(func(tx *bbolt.Tx) error {
		entries := tx.Bucket(bucketEntries)
		for _, r := range n.Refreshed {
			if err := putEntry(entries, r.Path, r.Entry); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		if n.EndIntent {
			if err := errors.Join(meta.Delete(keyIntent), meta.Delete(keyStage)); err != nil {
				return err
			}
		}
		if err := meta.Put(keyBytes, number(n.Bytes)); err != nil {
			return err
		}
		d := n.Delta
		if d == nil {
			return nil
		}
		for _, c := range d.Changes {
			if err := putEntry(entries, c.Path, c.After); err != nil {
				return err
			}
		}
		raw, err := proto.Marshal(EncodeDelta(d))
		if err != nil {
			return err
		}
		if err := tx.Bucket(bucketDeltas).Put(number(d.Seq), raw); err != nil {
			return err
		}
		by := tx.Bucket(bucketBy)
		for _, id := range d.By {
			if err := by.Put(indexKey(id, d.Seq), nil); err != nil {
				return err
			}
		}
		return meta.Put(keySeq, number(d.Seq))
	})
}

func indexKey(id string, seq int64) []byte {
	return append(append([]byte(id), 0), number(seq)...)
}

func putEntry(b *bbolt.Bucket, path string, e *tree.Entry) error {
	if e == nil {
		return b.Delete([]byte(path))
	}
	raw, err := proto.Marshal(encode(e))
	if err != nil {
		return err
	}
	return b.Put([]byte(path), raw)
}

// Deltas returns the changes after one state up to another, oldest first.
func (h *History) Deltas(from, to int64) (out []tree.Delta, err error) {
	err = h.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketDeltas).Cursor()
		for key, raw := c.Seek(number(from + 1)); key != nil; key, raw = c.Next() {
			seq := int64(binary.BigEndian.Uint64(key))
			if seq > to {
				break
			}
			rec := &nodev1.SnapshotDelta{}
			if err := proto.Unmarshal(raw, rec); err != nil {
				return fmt.Errorf("the changes up to state %d: %w", seq, err)
			}
			out = append(out, DecodeDelta(seq, rec))
		}
		return nil
	})
	return out, err
}

// Newest returns up to limit deltas below a number, newest first; 0 for all.
func (h *History) Newest(below int64, limit int) (out []tree.Delta, err error) {
	err = h.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketDeltas).Cursor()
		key, raw := c.Last()
		if below > 0 { // from the first that is not below, one back
			if at, _ := c.Seek(number(below)); at != nil {
				key, raw = c.Prev()
			}
		}
		for ; key != nil && len(out) < limit; key, raw = c.Prev() {
			seq := int64(binary.BigEndian.Uint64(key))
			rec := &nodev1.SnapshotDelta{}
			if err := proto.Unmarshal(raw, rec); err != nil {
				return fmt.Errorf("the changes up to state %d: %w", seq, err)
			}
			out = append(out, DecodeDelta(seq, rec))
		}
		return nil
	})
	return out, err
}

// Of returns the numbers of the deltas that an id has a part in, in order.
func (h *History) Of(id string) (out []int64, err error) {
	err = h.view(func(tx *bbolt.Tx) error {
		prefix := append([]byte(id), 0)
		c := tx.Bucket(bucketBy).Cursor()
		for key, _ := c.Seek(prefix); len(key) == len(prefix)+8 && string(key[:len(prefix)]) == string(prefix); key, _ = c.Next() {
			out = append(out, int64(binary.BigEndian.Uint64(key[len(prefix):])))
		}
		return nil
	})
	return out, err
}

// Oldest returns the number of the state that the oldest kept changes begin
// at: nothing before it can be restored.
func (h *History) Oldest() (seq int64, err error) {
	err = h.view(func(tx *bbolt.Tx) error {
		if key, _ := tx.Bucket(bucketDeltas).Cursor().First(); key != nil {
			seq = int64(binary.BigEndian.Uint64(key)) - 1
		} else {
			seq = get(tx, keySeq)
		}
		return nil
	})
	return seq, err
}

// Forget drops the oldest deltas as long as old says so, and returns how many.
func (h *History) Forget(old func(tree.Delta) bool) (n int, err error) {
	err = h.update(func(tx *bbolt.Tx) error {
		deltas, by := tx.Bucket(bucketDeltas), tx.Bucket(bucketBy)
		for {
			key, raw := deltas.Cursor().First()
			if key == nil {
				return nil
			}
			rec := &nodev1.SnapshotDelta{}
			if err := proto.Unmarshal(raw, rec); err != nil {
				return err
			}
			d := DecodeDelta(int64(binary.BigEndian.Uint64(key)), rec)
			if !old(d) {
				return nil
			}
			for _, id := range d.By {
				if err := by.Delete(indexKey(id, d.Seq)); err != nil {
					return err
				}
			}
			if err := deltas.Delete(number(d.Seq)); err != nil {
				return err
			}
			n++
		}
	})
	return n, err
}

// Intent is an undo that is on its way.
type Intent struct {
	Stage string
	Delta tree.Delta
}

// SetStage writes down the name of the folder in which an undo makes contents ready, before it
// is made.
func (h *History) SetStage(name string) error {
	return h.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyStage, []byte(name)) })
}

// Stage returns the name that was set last. The folder may be removed by now.
func (h *History) Stage() (name string, err error) {
	err = h.view(func(tx *bbolt.Tx) error {
		name = string(tx.Bucket(bucketMeta).Get(keyStage))
		return nil
	})
	return name, err
}

// Begin writes down an undo before the workspace is touched.
func (h *History) Begin(in Intent) error {
	rec := &nodev1.SnapshotIntent{Stage: in.Stage, Delta: EncodeDelta(&in.Delta)}
	raw, err := proto.Marshal(rec)
	if err != nil {
		return fmt.Errorf("write down an undo: %w", err)
	}
	return h.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyIntent, raw) })
}

// Intent returns the undo that is on its way, or nil.
func (h *History) Intent() (*Intent, error) {
	var out *Intent
	err := h.view(func(tx *bbolt.Tx) error {
		raw := tx.Bucket(bucketMeta).Get(keyIntent)
		if raw == nil {
			return nil
		}
		rec := &nodev1.SnapshotIntent{}
		if err := proto.Unmarshal(raw, rec); err != nil {
			return err
		}
		out = &Intent{Stage: rec.GetStage(), Delta: DecodeDelta(get(tx, keySeq)+1, rec.GetDelta())}
		return nil
	})
	return out, err
}

func (h *History) update(fn func(tx *bbolt.Tx) error) error {
	if err := h.guard(func() error { return h.db.Update(fn) }); err != nil {
		return fmt.Errorf("record a workspace's state: %w", err)
	}
	return nil
}

func (h *History) view(fn func(tx *bbolt.Tx) error) error {
	if err := h.guard(func() error { return h.db.View(fn) }); err != nil {
		return fmt.Errorf("read the record of a workspace's states: %w", err)
	}
	return nil
}

// guard keeps a page that went bad from taking the daemon down.
func (h *History) guard(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = damaged(h.db.Path(), fmt.Errorf("%v", r))
		}
	}()
	return fn()
}
