package execlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"syscall"
	"time"
)

// Reader reads a log, be it finished or still being written. It holds the
// files open: a log that is deleted meanwhile is read to its end. A Reader is
// for one goroutine.
type Reader struct {
	data  *os.File
	index *os.File
	buf   []byte
}

// maxChunk bounds the bytes of one Chunk.
const maxChunk = 256 << 10

// Open opens the log in a folder, which root is. What a jail's init could have
// put there instead of the files (links out of the folder, pipes) is refused.
// A log that was never begun is os.ErrNotExist.
func Open(root *os.Root) (*Reader, error) {
	data, err := openFile(root, DataFile)
	if err != nil {
		return nil, err
	}
	index, err := openFile(root, IndexFile)
	if errors.Is(err, os.ErrNotExist) {
		return &Reader{data: data}, nil
	}
	if err != nil {
		_ = data.Close()
		return nil, err
	}
	return &Reader{data: data, index: index}, nil
}

func openFile(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}

// Close closes the files.
func (r *Reader) Close() error {
	err := r.data.Close()
	if r.index != nil {
		if ierr := r.index.Close(); err == nil {
			err = ierr
		}
	}
	return err
}

// Size answers how many bytes of output there are now.
func (r *Reader) Size() (int64, error) {
	info, err := r.data.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the log: %w", err)
	}
	return info.Size(), nil
}

// Range says what to read.
type Range struct {
	// Offset of the first byte. Beyond the end there is nothing, or, when
	// following, nothing yet.
	Offset int64
	// Limit is how many bytes to read at most; 0 for no limit.
	Limit int64
	// Ended is closed when nothing more will be written; nil when that is so
	// already. With Ended, Read goes on until then.
	Ended <-chan struct{}
}

// Read calls yield with the output in a range, in order, each byte once. It
// stops at yield's first error and answers it.
func (r *Reader) Read(ctx context.Context, rng Range, yield func(Chunk) error) error {
	p := pass{reader: r, at: rng.Offset, stop: -1, yield: yield}
	if rng.Limit > 0 && rng.Limit <= math.MaxInt64-rng.Offset {
		p.stop = rng.Offset + rng.Limit
	}
	wait := newWaiter()
	defer wait.stop()
	for {
		// Ended is asked before reading: what was written before the end is
		// then seen by this pass.
		ended := rng.Ended == nil
		select {
		case <-rng.Ended:
			ended = true
		default:
		}
		progress, err := p.run(ctx, ended)
		if err != nil || ended || p.full() {
			return err
		}
		if err := wait.next(ctx, rng.Ended, progress); err != nil {
			return err
		}
	}
}

// pass is one reading of a log, possibly continued.
type pass struct {
	reader *Reader
	at     int64 // next byte of data
	stop   int64 // end of the range; -1 for none
	record int64 // next record of the index
	found  bool  // record has been searched
	yield  func(Chunk) error
}

func (p *pass) full() bool { return p.stop >= 0 && p.at >= p.stop }

// run reads what there is now. Only when the log has ended does it read the
// bytes that no record tells of.
func (p *pass) run(ctx context.Context, ended bool) (progress bool, err error) {
	size, err := p.reader.Size()
	if err != nil {
		return false, err
	}
	records, err := p.reader.records()
	if err != nil {
		return false, err
	}
	if !p.found {
		p.record = p.reader.search(records, p.at)
		p.found = records > 0
	}
	for p.record < records && !p.full() {
		rec, ok, err := p.reader.record(p.record)
		if err != nil {
			return progress, err
		}
		switch {
		case !ok && (ended || p.record+1 < records), ok && rec.end() > size && ended:
			// Damaged: its bytes are answered without it.
		case !ok, rec.end() > size:
			// Being written. The next pass sees it whole.
			return progress, nil
		case rec.end() > p.at:
			// Bytes before it that no record tells of, then its own.
			if err := p.emit(ctx, Chunk{}, rec.offset); err != nil {
				return progress, err
			}
			chunk := Chunk{Stream: rec.stream, Time: time.Unix(0, rec.time)}
			if err := p.emit(ctx, chunk, rec.end()); err != nil {
				return progress, err
			}
			progress = true
		}
		p.record++
	}
	if ended && size > p.at && !p.full() {
		return true, p.emit(ctx, Chunk{}, size)
	}
	return progress, nil
}

// emit yields data up to an offset, in chunks like the one given.
func (p *pass) emit(ctx context.Context, like Chunk, to int64) error {
	if p.stop >= 0 {
		to = min(to, p.stop)
	}
	for p.at < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.reader.buf == nil {
			p.reader.buf = make([]byte, maxChunk)
		}
		buf := p.reader.buf[:min(maxChunk, to-p.at)]
		n, err := p.reader.data.ReadAt(buf, p.at)
		if n == 0 {
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("read the log: it became shorter than %d bytes", to)
			}
			return fmt.Errorf("read the log: %w", err)
		}
		like.Offset, like.Data = p.at, buf[:n]
		if err := p.yield(like); err != nil {
			return err
		}
		p.at += int64(n)
	}
	return nil
}

// records answers how many whole records the index holds.
func (r *Reader) records() (int64, error) {
	if r.index == nil {
		return 0, nil
	}
	info, err := r.index.Stat()
	if err != nil {
		return 0, fmt.Errorf("read the log's index: %w", err)
	}
	return info.Size() / RecordSize, nil
}

// record reads the n-th record; ok is false when it is not one.
func (r *Reader) record(n int64) (rec record, ok bool, err error) {
	var buf [RecordSize]byte
	if _, err := r.index.ReadAt(buf[:], n*RecordSize); err != nil {
		if errors.Is(err, io.EOF) {
			return record{}, false, nil
		}
		return record{}, false, fmt.Errorf("read the log's index: %w", err)
	}
	rec, ok = decode(buf[:])
	return rec, ok, nil
}

// search answers the number of the first record that ends after an offset,
// by bisection: offsets only grow. A damaged record counts as after, so that
// reading begins before the damage.
func (r *Reader) search(records, offset int64) int64 {
	return int64(sort.Search(int(records), func(i int) bool {
		rec, ok, err := r.record(int64(i))
		return err != nil || !ok || rec.end() > offset
	}))
}
