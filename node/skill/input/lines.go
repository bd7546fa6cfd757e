package input

import (
	"bytes"
	"errors"
	"io"
)

const (
	bufferBytes = 256 << 10
	// MaxLine is how much of a line is read; what is longer is skipped.
	MaxLine = 32 << 10
)

// Lines reads a text line by line in constant memory, however long a line is.
type Lines struct {
	r    io.Reader
	buf  []byte
	from int // what is not yet given is buf[from:to]
	to   int
	eof  bool
	err  error

	offset int64 // of buf[from] in the text
	// Of the line that was given last.
	line   []byte
	at     int64
	number int64

	// Cut counts lines of which a part was skipped.
	Cut int64
}

// NewLines reads from r; what comes of it is counted from offset and line 1.
func NewLines(r io.Reader) *Lines { return &Lines{r: r, buf: make([]byte, bufferBytes)} }

// Next goes to the next line, and returns false at the end.
func (l *Lines) Next() bool {
	if end := bytes.IndexByte(l.buf[l.from:l.to], '\n'); end >= 0 {
		l.give(l.buf[l.from:l.from+end], end+1)
		return true
	}
	return l.slow()
}

// give takes so many bytes, and shows the line in them.
func (l *Lines) give(line []byte, taken int) {
	if len(line) > MaxLine {
		line = line[:MaxLine]
		l.Cut++
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	l.line, l.at = line, l.offset
	l.number++
	l.from += taken
	l.offset += int64(taken)
}

// slow reads more of the text.
func (l *Lines) slow() bool {
	for {
		if l.eof {
			if l.from == l.to {
				return false
			}
			l.give(l.buf[l.from:l.to], l.to-l.from)
			return true
		}
		if l.from > 0 {
			copy(l.buf, l.buf[l.from:l.to])
			l.from, l.to = 0, l.to-l.from
		}
		if l.to == len(l.buf) {
			return l.skip()
		}
		had := l.to
		l.fill()
		if end := bytes.IndexByte(l.buf[had:l.to], '\n'); end >= 0 {
			l.give(l.buf[:had+end], had+end+1)
			return true
		}
	}
}

func (l *Lines) fill() {
	n, err := l.r.Read(l.buf[l.to:])
	l.to += n
	if err != nil {
		l.eof = true
		if !errors.Is(err, io.EOF) {
			l.err = err
		}
	}
}

// skip gives the start of a line that is longer than the buffer, and drops the
// rest of it.
func (l *Lines) skip() bool {
	start := l.offset
	head := bytes.Clone(l.buf[:MaxLine])
	taken := int64(l.to)
	for {
		l.from, l.to = 0, 0
		if l.eof {
			break
		}
		l.fill()
		if end := bytes.IndexByte(l.buf[:l.to], '\n'); end >= 0 {
			l.from = end + 1
			taken += int64(end + 1)
			break
		}
		taken += int64(l.to)
	}
	l.line, l.at = head, start
	l.number++
	l.offset = start + taken
	l.Cut++
	return true
}

// Line is the line without its end, valid until Next.
func (l *Lines) Line() []byte { return l.line }

// Offset is where the line begins, in bytes of the text.
func (l *Lines) Offset() int64 { return l.at }

// Number is the line's, from 1.
func (l *Lines) Number() int64 { return l.number }

// Read returns how many bytes of the text were read so far.
func (l *Lines) Read() int64 { return l.offset }

// Err returns what ended the reading early; nil at the end of the text.
func (l *Lines) Err() error { return l.err }
