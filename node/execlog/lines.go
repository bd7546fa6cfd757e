package execlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// A row is a line of a log, or a part of a longer one, without its line feed. It is
// what a window of the log shows, and what its scroll bar counts.
const (
	// DefaultRow is how many bytes a row has at most, if nothing else is asked for.
	DefaultRow = 2_000
	// leastStride is how far marks are apart at least, and mostMarks how many a log
	// has about, whatever its length.
	leastStride = 64 << 10
	mostMarks   = 4096
)

// Count says what to count.
type Count struct {
	// Offset is where a row begins: 0, or the Next of an earlier result.
	Offset int64
	// Row is how many bytes a row has at most, and Stride how far marks are apart
	// at least; 0 for the defaults.
	Row, Stride int64
	// Budget is how many bytes to look at, at most; 0 for all.
	Budget int64
}

// Mark is where a row begins, after how many rows and line feeds.
type Mark struct {
	Offset, Rows, Lines int64
	// Continued says that it is not the first row of its line.
	Continued bool
}

// Counted is the result of a count.
type Counted struct {
	Marks []Mark
	// Next is where the last row begins that has not ended.
	Next Mark
	// End is the end of the log, and Complete that all of it was looked at.
	End      int64
	Complete bool
}

// counter counts the rows of what it is fed.
type counter struct {
	out    Counted
	row    int64 // how many bytes a row has at most
	stride int64
	at     int64 // the next byte
	marked int64 // where the last mark is
}

// CountLines counts the rows and line feeds of a log from an offset on. It holds no
// more than 1 MiB of it.
func (r *Reader) CountLines(ctx context.Context, of Count) (Counted, error) {
	size, err := r.Size()
	if err != nil {
		return Counted{}, err
	}
	c := counter{row: of.Row, stride: of.Stride, at: of.Offset}
	if c.row <= 0 {
		c.row = DefaultRow
	}
	if c.stride <= 0 {
		c.stride = leastStride
	}
	// However long the log, it has no more marks.
	c.stride = max(c.stride, size/mostMarks)
	c.out.Next = Mark{Offset: of.Offset}
	if of.Offset > 0 && of.Offset <= size {
		var before [1]byte
		if _, err := r.data.ReadAt(before[:], of.Offset-1); err != nil {
			return Counted{}, fmt.Errorf("read the log: %w", err)
		}
		c.out.Next.Continued = before[0] != '\n'
	}
	c.out.Marks, c.marked = []Mark{c.out.Next}, of.Offset
	end := size
	if of.Budget > 0 {
		end = min(size, of.Offset+of.Budget)
	}
	buf := make([]byte, max(0, min(searchWindow, end-c.at)))
	for c.at < end {
		if err := ctx.Err(); err != nil {
			return Counted{}, err
		}
		n, err := r.data.ReadAt(buf[:min(int64(len(buf)), end-c.at)], c.at)
		c.add(buf[:n])
		if err != nil && !errors.Is(err, io.EOF) {
			return Counted{}, fmt.Errorf("read the log: %w", err)
		}
		if n == 0 {
			break
		}
	}
	c.out.End, c.out.Complete = size, c.at >= size
	return c.out, nil
}

// add counts the next bytes.
func (c *counter) add(data []byte) {
	for len(data) > 0 {
		feed := bytes.IndexByte(data, '\n')
		n := int64(len(data))
		if feed >= 0 {
			n = int64(feed)
		}
		// A row ends when another byte of its line comes after it.
		for c.at+n-c.out.Next.Offset > c.row {
			c.begin(Mark{Offset: c.out.Next.Offset + c.row, Lines: c.out.Next.Lines, Continued: true})
		}
		c.at += n
		if feed < 0 {
			return
		}
		c.at++
		c.begin(Mark{Offset: c.at, Lines: c.out.Next.Lines + 1})
		data = data[feed+1:]
	}
}

// begin ends a row: the next one begins at a mark.
func (c *counter) begin(next Mark) {
	next.Rows = c.out.Next.Rows + 1
	c.out.Next = next
	if next.Offset-c.marked >= c.stride {
		c.out.Marks, c.marked = append(c.out.Marks, next), next.Offset
	}
}

// Grown waits until a log is longer than an offset, or ended is closed.
func (r *Reader) Grown(ctx context.Context, offset int64, ended <-chan struct{}) error {
	wait := newWaiter()
	defer wait.stop()
	for {
		select {
		case <-ended:
			return nil
		default:
		}
		size, err := r.Size()
		if err != nil || size > offset {
			return err
		}
		if err := wait.next(ctx, ended, false); err != nil {
			return err
		}
	}
}
