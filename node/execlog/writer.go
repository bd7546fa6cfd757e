package execlog

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Writer appends to a log. Its methods may be called from several goroutines,
// one for each stream; it alone decides their order.
type Writer struct {
	now func() time.Time

	mu     sync.Mutex
	data   *os.File
	index  *os.File
	offset int64 // end of the log
	at     int64 // end of index
	last   int64 // time of the last record
	gap    gap   // at the end of the log
	err    error // the first failure; no output is written after it
}

// gap is a run of output that was not kept and goes up to the log's end.
type gap struct {
	from int64
	told int64 // up to where records tell of it
	open bool
}

// Create makes the log in a folder that has none.
func Create(dir string) (*Writer, error) {
	w := &Writer{now: time.Now}
	var err error
	// The index first: who sees data then sees its index too.
	if w.index, err = create(dir, IndexFile); err != nil {
		return nil, err
	}
	if w.data, err = create(dir, DataFile); err != nil {
		_ = w.index.Close()
		return nil, err
	}
	return w, nil
}

func create(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the log: %w", err)
	}
	return f, nil
}

// Append adds what was read from a stream. After an error, such as a full disk,
// the log keeps nothing more, returns that error again and counts what it
// drops: what is in it stays one unbroken run.
func (w *Writer) Append(stream Stream, p []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		p = p[w.keep(stream, p):]
	}
	if len(p) > 0 {
		w.drop(int64(len(p)))
	}
	return w.err
}

// keep writes bytes and their record, and returns how many bytes there was room
// for.
func (w *Writer) keep(stream Stream, p []byte) int {
	r := record{offset: w.offset, length: uint32(len(p)), stream: stream}
	n, err := w.data.WriteAt(p, w.offset)
	if err != nil {
		// The part that fitted is output as well, and gets a record if there is
		// room for one.
		r.length, w.err = uint32(n), fmt.Errorf("write the log: %w", err)
		if n == 0 {
			return 0
		}
	}
	w.offset += int64(n)
	if err := w.writeRecord(r); err != nil && w.err == nil {
		w.err = err
	}
	return n
}

// drop counts bytes that are not kept. A record is written when the gap begins,
// each time it has doubled, and at the end.
func (w *Writer) drop(n int64) {
	if !w.gap.open {
		w.gap = gap{from: w.offset, told: w.offset, open: true}
	}
	w.offset += n
	if w.offset-w.gap.from >= 2*(w.gap.told-w.gap.from) {
		w.writeGap()
	}
}

// writeGap writes a record for the dropped bytes that have none yet. On a full
// disk there may be no room for it; the end of the log is then known from the
// exec's status.
func (w *Writer) writeGap() {
	for w.gap.open && w.gap.told < w.offset {
		r := record{
			offset: w.gap.told, stream: Gap, reason: DiskFull,
			length: uint32(min(w.offset-w.gap.told, math.MaxUint32)),
		}
		if w.writeRecord(r) != nil {
			return
		}
		w.gap.told = r.end()
	}
}

// Resize records a new size of the terminal.
func (w *Writer) Resize(rows, cols uint16) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeRecord(record{offset: w.offset, stream: Resize, rows: rows, cols: cols})
}

// writeRecord adds a record to the index, with the time.
func (w *Writer) writeRecord(r record) error {
	w.last = max(w.last, w.now().UnixNano())
	r.time = w.last
	var buf [RecordSize]byte
	r.encode(&buf)
	if _, err := w.index.WriteAt(buf[:], w.at); err != nil {
		return fmt.Errorf("write the log's index: %w", err)
	}
	w.at += RecordSize
	return nil
}

// Size returns where the log ends: how many bytes of output there were.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offset
}

// Dropped returns how many of them were not kept.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.gap.open {
		return 0
	}
	return w.offset - w.gap.from
}

// Err returns why the log takes nothing more; nil while it does.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close records the last gap and closes the files.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeGap()
	err := w.data.Close()
	if ierr := w.index.Close(); err == nil {
		err = ierr
	}
	return err
}
