// Package ledger is a node's durable record of the effects it was asked for:
// one record per exec and one per file operation, on disk before the effect
// begins. It guarantees "at most once" across crashes of the daemon.
//
// Every write is fsynced before it returns; concurrent writes share one bbolt
// transaction. A request with a known id returns the existing record, and is
// refused if its content differs. After a reboot the records of earlier boots
// remain and are recognised by their boot id. A file that cannot be read is
// refused when it is opened, because a ledger that had lost records would run
// commands again.
package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Config says where the ledger is and how long it remembers.
type Config struct {
	// Path of the database file. Its folder must exist.
	Path string
	// Retention is how long a finished record is kept that the hub has on record
	// as well; 0 for 7 days.
	Retention time.Duration
	// KeepUnrecorded is how long one is kept that it has not, as far as is known
	// here; 0 for 30 days, and never less than Retention.
	KeepUnrecorded time.Duration
	// Reserve is how many bytes of the disk are kept beside the file, so that
	// ends can be recorded when it is full; 0 for 8 MiB, negative for none.
	Reserve int64
	// BootID names the running boot of the machine; empty to read the kernel's.
	BootID string
	// Committed, if set, is called with the duration of each commit to disk.
	Committed func(took time.Duration)
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Default retention of finished records.
const (
	DefaultRetention      = 7 * 24 * time.Hour
	DefaultKeepUnrecorded = 30 * 24 * time.Hour
)

// lockTimeout bounds the wait for another process that has the file open.
const lockTimeout = 2 * time.Second

// format is the number of the file's layout.
const format = 1

var (
	bucketMeta       = []byte("meta")
	bucketExecs      = []byte("execs")
	bucketLive       = []byte("live")
	bucketOperations = []byte("operations")
	keyFormat        = []byte("format")
	keyRestored      = []byte("restored_at")
)

// Ledger is an open ledger. Its methods may be called from anywhere.
type Ledger struct {
	db        *bbolt.DB
	reserve   *reserve
	retention time.Duration
	unknown   time.Duration // the retention of what the hub may not have
	bootID    string
	now       func() time.Time
	commits   *commits
	committed func(took time.Duration)
}

// Open opens the ledger, and creates it if it does not exist.
func Open(cfg Config) (*Ledger, error) {
	if cfg.Path == "" {
		return nil, errors.New("ledger: Path is empty; name the database file")
	}
	if cfg.Retention == 0 {
		cfg.Retention = DefaultRetention
	}
	if cfg.KeepUnrecorded == 0 {
		cfg.KeepUnrecorded = DefaultKeepUnrecorded
	}
	if cfg.Retention < 0 {
		return nil, fmt.Errorf("ledger: Retention is %s; use a positive duration", cfg.Retention)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.BootID == "" {
		id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return nil, fmt.Errorf("ledger: read the boot id: %w", err)
		}
		cfg.BootID = strings.TrimSpace(string(id))
	}
	if cfg.Reserve == 0 {
		cfg.Reserve = DefaultReserve
	}
	if cfg.Committed == nil {
		cfg.Committed = func(time.Duration) {}
	}
	l := &Ledger{
		committed: cfg.Committed,
		commits:   newCommits(),
		reserve:   &reserve{path: cfg.Path + ".reserve", size: max(0, cfg.Reserve)},
		retention: cfg.Retention, unknown: max(cfg.KeepUnrecorded, cfg.Retention), bootID: cfg.BootID, now: cfg.Now,
	}
	if err := guard(cfg.Path, func() (err error) {
		if err := verify(cfg.Path); err != nil {
			return err
		}
		return l.reserve.withReserve(func() (err error) {
			l.db, err = open(cfg.Path)
			return err
		})
	}); err != nil {
		return nil, err
	}
	// Without room for it the node can still end what runs, and say how it ended.
	l.reserve.take()
	return l, nil
}

func open(path string) (*bbolt.DB, error) {
	opts := *bbolt.DefaultOptions
	opts.Timeout = lockTimeout
	opts.FreelistType = bbolt.FreelistMapType
	opts.NoFreelistSync = true
	db, err := bbolt.Open(path, 0o600, &opts)
	if err != nil {
		return nil, err
	}
	if err := prepare(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func prepare(db *bbolt.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return err
		}
		if have := meta.Get(keyFormat); have == nil {
			if err := meta.Put(keyFormat, binary.BigEndian.AppendUint32(nil, format)); err != nil {
				return err
			}
		} else if len(have) != 4 || binary.BigEndian.Uint32(have) != format {
			return fmt.Errorf("its format is %x, this build reads %d", have, format)
		}
		for _, name := range [][]byte{bucketExecs, bucketLive, bucketOperations} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return checkRecords(tx)
	})
}

// checkRecords looks at every record, once, so that one that is damaged is
// said now and not met in the middle of a task.
func checkRecords(tx *bbolt.Tx) error {
	live := tx.Bucket(bucketLive)
	rec := &nodev1.ExecRecord{}
	execs := tx.Bucket(bucketExecs)
	if err := execs.ForEach(func(id, _ []byte) error {
		if _, err := get(execs, string(id), rec); err != nil {
			return err
		}
		if unfinished := live.Get(id) != nil; unfinished == (rec.GetResult() != nil) {
			return fmt.Errorf("the end of %s is in one place and not in the other", id)
		}
		return nil
	}); err != nil {
		return err
	}
	operations := tx.Bucket(bucketOperations)
	return operations.ForEach(func(id, _ []byte) error {
		_, err := get(operations, string(id), &nodev1.OperationRecord{})
		return err
	})
}

// guard runs fn on the file and turns what goes wrong with it, panics of the
// database included, into one error that says what to do.
func guard(path string, fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		switch {
		case err == nil, fault.Is(err, fault.Exhausted):
		case errors.Is(err, bolterrors.ErrTimeout), errors.Is(err, errLocked):
			err = fault.New(fault.Unavailable, "the ledger %s is open in another process", path).
				WithFix("stop the other deckhand-node that uses this data folder").WithCause(err)
		case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
			err = fmt.Errorf("open the ledger: %w", err)
		default:
			err = fault.New(fault.Internal, "the ledger %s is damaged: %v", path, err).
				WithFix("restore it, or move it away: the node then no longer knows which commands it ran before, and answers not found for them").
				WithCause(err)
		}
	}()
	return fn()
}

// Close closes the file. Nothing may be called after it.
func (l *Ledger) Close() error { return l.db.Close() }

// Path returns where the ledger is.
func (l *Ledger) Path() string { return filepath.Clean(l.db.Path()) }

// BootID names the running boot: records of another one are from before a
// reboot of the machine.
func (l *Ledger) BootID() string { return l.bootID }

// update runs fn in a transaction and returns when it is on disk. fn may be run
// more than once, and the last time is what counts.
func (l *Ledger) update(ctx context.Context, fn func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.commits.do(fn, func(fn func(tx *bbolt.Tx) error) error {
		return l.reserve.withReserve(func() error {
			began := time.Now()
			defer func() { l.committed(time.Since(began)) }()
			return guardUse(func() error { return l.db.Update(fn) })
		})
	})
}

func (l *Ledger) view(ctx context.Context, fn func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return guardUse(func() error { return l.db.View(fn) })
}

// guardUse keeps a page that went bad while the file was open from taking the
// daemon down with it: the call fails, the rest continues.
func guardUse(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.New(fault.Internal, "the ledger is damaged: %v", r).
				WithFix("restart deckhand-node: it checks the file and reports how to repair it")
		}
	}()
	return fn()
}

// put stores a record under a key, with a checksum of both: bbolt keeps one of
// its head pages only.
func put(b *bbolt.Bucket, id string, m proto.Message) error {
	raw, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", id, err)
	}
	return b.Put([]byte(id), binary.BigEndian.AppendUint32(raw, checksum(id, raw)))
}

// get reads the record of a key into m and says whether there is one.
func get(b *bbolt.Bucket, id string, m proto.Message) (bool, error) {
	value := b.Get([]byte(id))
	if value == nil {
		return false, nil
	}
	return true, decode(id, value, m)
}

func decode(id string, value []byte, m proto.Message) error {
	if len(value) < crc32.Size {
		return fmt.Errorf("the ledger's record of %q is damaged", id)
	}
	raw, sum := value[:len(value)-crc32.Size], value[len(value)-crc32.Size:]
	if binary.BigEndian.Uint32(sum) != checksum(id, raw) {
		return fmt.Errorf("the ledger's record of %q is damaged", id)
	}
	if err := proto.Unmarshal(raw, m); err != nil {
		return fmt.Errorf("decode the ledger's record of %q: %w", id, err)
	}
	return nil
}

func checksum(id string, raw []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(id)), crc32.IEEETable, raw)
}

func sameDigest(kind, id string, have, want []byte) error {
	if bytes.Equal(have, want) {
		return nil
	}
	return fault.New(fault.Exists, "%s %s is in the ledger with another request", kind, id).
		WithFix("use a new id for a new request").WithObject(id)
}
