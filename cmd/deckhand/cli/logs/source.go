package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/journalfield"
)

// maxLine bounds a line: longer ones are left out.
const maxLine = 1 << 20

// followEvery is how often a file is looked at for new lines.
const followEvery = 200 * time.Millisecond

// source is a log.
type source interface {
	// rereadable reports whether it can be read more than once.
	rereadable() bool
	// read calls line with each line from the beginning to the end, until that returns false.
	read(ctx context.Context, line func([]byte) bool) error
	// follow calls line with each line that comes after what the last read has read, until
	// ctx ends.
	follow(ctx context.Context, line func([]byte)) error
	close()
}

// lines calls line with each line of r that ends, and returns how many bytes those have. Of a
// line that is too long it passes the beginning, which is no line of a log. With last, what
// follows the last line break is a line as well.
func lines(r io.Reader, last bool, line func([]byte) bool) (read int64, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var whole []byte
	var length int64 // of the line, with what is left out of whole
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		if len(whole) <= maxLine {
			whole = append(whole, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			if last && length > 0 {
				read += length
				line(bytes.TrimSpace(whole))
			}
			return read, nil
		case err != nil:
			return read, err
		}
		read += length
		if len(whole) > maxLine {
			whole = whole[:maxLine]
		}
		if !line(bytes.TrimSpace(whole)) {
			return read, nil
		}
		whole, length = whole[:0], 0
	}
}

// stream is standard input.
type stream struct{ in io.Reader }

func (s *stream) rereadable() bool { return false }
func (s *stream) close()           {}

func (s *stream) read(_ context.Context, line func([]byte) bool) error {
	if _, err := lines(s.in, true, line); err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return nil
}

// follow has nothing more: standard input was read to its end.
func (s *stream) follow(context.Context, func([]byte)) error { return nil }

// file is a file of a log, which may be replaced by a new one of its name.
type file struct {
	name   string
	f      *os.File
	offset int64
	// whole reports that nothing is added to it: it is read to its last byte.
	whole bool
}

func openFile(name string, whole bool) (*file, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return &file{name: name, f: f, whole: whole}, nil
}

func (s *file) rereadable() bool { return true }
func (s *file) close()           { _ = s.f.Close() }

func (s *file) read(_ context.Context, line func([]byte) bool) error {
	s.offset = 0
	return s.rest(line)
}

// rest reads what has been added.
func (s *file) rest(line func([]byte) bool) error {
	if _, err := s.f.Seek(s.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	n, err := lines(s.f, s.whole, line)
	s.offset += n
	if err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	return nil
}

// follow looks for new lines every followEvery: of what has been added, and of a new file of the
// name after the rest of the old one.
func (s *file) follow(ctx context.Context, line func([]byte)) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	all := func(text []byte) bool { line(text); return true }
	for {
		if err := s.rest(all); err != nil {
			return err
		}
		if err := s.replaced(all); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// replaced opens the file of the name again if that is another one by now, or shorter.
func (s *file) replaced(line func([]byte) bool) error {
	ours, err := s.f.Stat()
	if err != nil {
		return fmt.Errorf("look at %s: %w", s.name, err)
	}
	now, err := os.Stat(s.name)
	if err != nil {
		return nil //nolint:nilerr // between the old file and the new one
	}
	if os.SameFile(ours, now) {
		if now.Size() < s.offset {
			s.offset = 0 // cut off
		}
		return nil
	}
	// Whatever was written to the old one before it was renamed.
	if err := s.rest(line); err != nil {
		return err
	}
	f, err := os.Open(s.name)
	if err != nil {
		return nil //nolint:nilerr // it is tried again
	}
	s.close()
	s.f, s.offset = f, 0
	return nil
}

// reopenEvery is how often a journal that is followed is opened again: journalctl looks for
// units of a pattern once.
const reopenEvery = 10 * time.Second

// journal is the journal of systemd units, as journalctl prints it.
type journal struct {
	unit string
	args []string
	// cursor is the place of the last entry that was read; "" for none yet.
	cursor string
}

func (j *journal) rereadable() bool { return true }
func (j *journal) close()           {}

func (j *journal) read(ctx context.Context, line func([]byte) bool) error {
	j.cursor = ""
	return j.run(ctx, line)
}

func (j *journal) follow(ctx context.Context, line func([]byte)) error {
	for {
		args := []string{"--follow", "--no-tail"}
		if j.cursor != "" {
			args = append(args, "--after-cursor", j.cursor)
		}
		running, cancel := context.WithTimeout(ctx, reopenEvery)
		err := j.run(running, func(text []byte) bool { line(text); return true }, args...)
		over := running.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if over {
			continue
		}
		if err != nil {
			return err
		}
		// No unit has logged yet.
		if err := backoff.Wait(ctx, followEvery); err != nil {
			return context.Cause(ctx)
		}
	}
}

func (j *journal) run(ctx context.Context, line func([]byte) bool, more ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", append(append([]string{}, j.args...), more...)...) //nolint:gosec // arguments of the person who runs it
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	enough := false
	_, err = lines(out, false, func(text []byte) bool {
		cursor, message := read(text)
		enough = !line(message)
		if cursor != "" {
			j.cursor = cursor
		}
		return !enough
	})
	if enough || err != nil {
		cancel()
	}
	ended := cmd.Wait()
	switch {
	case enough || ctx.Err() != nil && err == nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("read the journal: %w", err)
	case ended != nil && (bytes.Contains(stderr.Bytes(), []byte("No data available")) || bytes.Contains(stderr.Bytes(), []byte("No such boot ID"))):
		return nil // no unit matches, there is nothing of this boot, or no journal may be read
	case ended != nil:
		return fmt.Errorf("read the journal: %w: %s", ended, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// read returns the place of an entry of the journal and its message.
func read(entry []byte) (cursor string, message []byte) {
	var e struct {
		Cursor  string          `json:"__CURSOR"`
		Message json.RawMessage `json:"MESSAGE"`
	}
	if json.Unmarshal(entry, &e) != nil {
		return "", entry
	}
	return e.Cursor, []byte(journalfield.Text(e.Message))
}
