package execlog

import (
	"fmt"
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
	offset int64 // end of data
	at     int64 // end of index
	err    error // the first failure; nothing is written after it
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

// Append adds what was read from a stream. After an error, such as a full
// disk, the log takes nothing more and answers that error again: what is in it
// stays one unbroken run.
func (w *Writer) Append(stream Stream, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	r := record{time: w.now().UnixNano(), offset: w.offset, length: uint32(len(p)), stream: stream}
	n, err := w.data.WriteAt(p, w.offset)
	if err != nil {
		// What did fit is output as well, and is told of if there is room.
		r.length, w.err = uint32(n), fmt.Errorf("write the log: %w", err)
		if n == 0 {
			return w.err
		}
	}
	var buf [RecordSize]byte
	r.encode(&buf)
	if _, err := w.index.WriteAt(buf[:], w.at); err != nil && w.err == nil {
		w.err = fmt.Errorf("write the log's index: %w", err)
	}
	w.offset += int64(n)
	w.at += RecordSize
	return w.err
}

// Size answers how many bytes of output the log holds.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offset
}

// Err answers why the log takes nothing more; nil while it does.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close closes the files.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.data.Close()
	if ierr := w.index.Close(); err == nil {
		err = ierr
	}
	return err
}
