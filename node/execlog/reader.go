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

// Reader reads a log, be it finished or still being written. It holds the files
// open: a log that is deleted in the meantime is read to its end. A Reader is
// for one goroutine.
type Reader struct {
	data  *os.File
	index *os.File
	mask  Mask
	view  view
	page  page
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

// Size returns how many bytes of output there are now.
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
	// Until ends the range before the first output read at that time or after;
	// zero for no end.
	Until time.Time
	// Limit is how many bytes to read at most; 0 for no limit.
	Limit int64
	// Ended is closed when nothing more will be written; nil when that is so
	// already. With Ended, Read continues until then.
	Ended <-chan struct{}
	// Live says that the log is being written although Ended is nil: what may
	// be the beginning of a secret at its end is left out.
	Live bool
}

// Read calls yield with the output in a range, in order, each byte once. It
// stops at yield's first error and returns it.
func (r *Reader) Read(ctx context.Context, rng Range, yield func(Chunk) error) error {
	p := pass{reader: r, at: rng.Offset, stop: -1, yield: yield}
	if !rng.Until.IsZero() {
		p.until = rng.Until.UnixNano()
	}
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
		p.whole = ended && !rng.Live
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
	until  int64 // time of its end; 0 for none
	record int64 // next record of the index
	found  bool  // record has been searched
	whole  bool  // nothing more will be written
	yield  func(Chunk) error
}

func (p *pass) full() bool { return p.stop >= 0 && p.at >= p.stop }

// run reads what is available now. It reads bytes that no record describes only
// after the log has ended.
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
		case ok && p.until > 0 && rec.time >= p.until:
			held, err := p.emit(ctx, Chunk{}, rec.offset)
			if err != nil || held {
				return progress, err
			}
			p.stop = p.at
			return true, nil
		case ok && rec.stream == Gap, ok && rec.stream == Resize:
			held, err := p.mark(ctx, rec)
			if err != nil || held {
				return progress, err
			}
			progress = true
		case !ok && (ended || p.record+1 < records), ok && rec.end() > size && ended:
			// Damaged: its bytes are answered without it.
		case !ok, rec.end() > size:
			// Being written. The next pass sees it whole.
			return progress, nil
		case rec.end() > p.at:
			// First the bytes before it that no record describes, then its own.
			held, err := p.emit(ctx, Chunk{}, rec.offset)
			if err != nil || held {
				return progress, err
			}
			chunk := Chunk{Stream: rec.stream, Time: time.Unix(0, rec.time)}
			from := p.at
			held, err = p.emit(ctx, chunk, rec.end())
			progress = progress || p.at > from
			if err != nil || held {
				return progress, err
			}
		}
		p.record++
	}
	if ended && size > p.at && !p.full() {
		_, err := p.emit(ctx, Chunk{}, size)
		return true, err
	}
	return progress, nil
}

// mark yields a record that describes no bytes.
func (p *pass) mark(ctx context.Context, rec record) (held bool, err error) {
	if rec.stream == Resize && rec.offset < p.at {
		return false, nil
	}
	if held, err := p.emit(ctx, Chunk{}, rec.offset); err != nil || held {
		return held, err
	}
	chunk := Chunk{
		Offset: rec.offset, Stream: rec.stream, Time: time.Unix(0, rec.time),
		Reason: rec.reason, Rows: rec.rows, Cols: rec.cols,
	}
	if rec.stream == Gap {
		chunk.Offset, chunk.To = max(p.at, rec.offset), rec.end()
		if p.stop >= 0 {
			chunk.To = min(chunk.To, p.stop)
		}
		if chunk.To <= chunk.Offset {
			return false, nil
		}
		p.at = chunk.To
	}
	return false, p.yield(chunk)
}

// emit yields data up to an offset, in chunks like the one given. held reports
// that some of it cannot be shown before more is written.
func (p *pass) emit(ctx context.Context, like Chunk, to int64) (held bool, err error) {
	if p.stop >= 0 {
		to = min(to, p.stop)
	}
	for p.at < to {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		data, err := p.reader.bytes(p.at, to, p.whole)
		if err != nil {
			return false, err
		}
		if len(data) == 0 {
			return true, nil
		}
		like.Offset, like.Data = p.at, data
		if err := p.yield(like); err != nil {
			return false, err
		}
		p.at += int64(len(data))
	}
	return false, nil
}

// records returns how many whole records the index holds.
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

// page is a run of records, read at once.
type page struct {
	raw   []byte
	first int64
}

// pageRecords is how many records are read at once.
const pageRecords = 512

// record reads the n-th record; ok is false when it is not one.
func (r *Reader) record(n int64) (rec record, ok bool, err error) {
	if at := (n - r.page.first) * RecordSize; at >= 0 && at+RecordSize <= int64(len(r.page.raw)) {
		// A record that was incomplete then may be complete now.
		if rec, ok := decode(r.page.raw[at:][:RecordSize]); ok {
			return rec, true, nil
		}
	}
	if r.page.raw == nil {
		r.page.raw = make([]byte, 0, pageRecords*RecordSize)
	}
	raw := r.page.raw[:cap(r.page.raw)]
	got, err := r.index.ReadAt(raw, n*RecordSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return record{}, false, fmt.Errorf("read the log's index: %w", err)
	}
	r.page = page{raw: raw[:got], first: n}
	if got < RecordSize {
		return record{}, false, nil
	}
	rec, ok = decode(raw[:RecordSize])
	return rec, ok, nil
}

// search returns the number of the first record that ends after an offset,
// by bisection: offsets only grow. A damaged record counts as after, so that
// reading begins before the damage.
func (r *Reader) search(records, offset int64) int64 {
	return int64(sort.Search(int(records), func(i int) bool {
		rec, ok, err := r.peek(int64(i))
		return err != nil || !ok || rec.end() > offset || rec.stream == Resize && rec.offset == offset
	}))
}

// peek reads the n-th record alone.
func (r *Reader) peek(n int64) (rec record, ok bool, err error) {
	var buf [RecordSize]byte
	if _, err := r.index.ReadAt(buf[:], n*RecordSize); err != nil {
		return record{}, false, err
	}
	rec, ok = decode(buf[:])
	return rec, ok, nil
}
