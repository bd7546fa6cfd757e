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
)

// maxLine bounds a line: longer ones are left out.
const maxLine = 1 << 20

// followEvery is how often a file is looked at for new lines.
const followEvery = 200 * time.Millisecond

// source is a log.
type source interface {
	// again reports whether it can be read more than once.
	again() bool
	// read calls line with each line from the beginning to the end, until that returns false.
	read(ctx context.Context, line func([]byte) bool) error
	// follow calls line with each line that comes after what the last read has read, until
	// ctx ends.
	follow(ctx context.Context, line func([]byte)) error
	close()
}

// lines calls line with each line of r that ends, and returns how many bytes those have.
func lines(r io.Reader, line func([]byte) bool) (read int64, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) <= maxLine {
				long = append(long, part...)
			} else {
				read += int64(len(part))
			}
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return read, nil // the rest is being written
			}
			return read, err
		}
		whole := part
		if long != nil {
			whole = append(long, part...)
			long = nil
		}
		read += int64(len(whole))
		if len(whole) > maxLine {
			whole = nil
		}
		if !line(bytes.TrimSpace(whole)) {
			return read, nil
		}
	}
}

// stream is standard input.
type stream struct{ in io.Reader }

func (s *stream) again() bool { return false }
func (s *stream) close()      {}

func (s *stream) read(_ context.Context, line func([]byte) bool) error {
	if _, err := lines(s.in, line); err != nil {
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
}

func openFile(name string) (*file, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return &file{name: name, f: f}, nil
}

func (s *file) again() bool { return true }
func (s *file) close()      { _ = s.f.Close() }

func (s *file) read(_ context.Context, line func([]byte) bool) error {
	s.offset = 0
	return s.rest(line)
}

// rest reads what has been added.
func (s *file) rest(line func([]byte) bool) error {
	if _, err := s.f.Seek(s.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	n, err := lines(s.f, line)
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

// journal is the journal of systemd units, as journalctl prints it.
type journal struct{ args []string }

func (j *journal) again() bool { return true }
func (j *journal) close()      {}

func (j *journal) read(ctx context.Context, line func([]byte) bool) error {
	return j.run(ctx, line)
}

func (j *journal) follow(ctx context.Context, line func([]byte)) error {
	return j.run(ctx, func(text []byte) bool { line(text); return true }, "--follow", "--lines", "0")
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
	_, err = lines(out, func(text []byte) bool {
		enough = !line(message(text))
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
	case ended != nil && bytes.Contains(stderr.Bytes(), []byte("No data available")):
		return nil // no unit matches
	case ended != nil:
		return fmt.Errorf("read the journal: %w: %s", ended, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// message returns the message of an entry of the journal: a text, or bytes if it is not one.
func message(entry []byte) []byte {
	var e struct {
		Message json.RawMessage `json:"MESSAGE"`
	}
	var text string
	var octets []uint16
	if json.Unmarshal(entry, &e) != nil {
		return nil
	}
	if json.Unmarshal(e.Message, &text) == nil {
		return []byte(text)
	}
	if json.Unmarshal(e.Message, &octets) != nil {
		return nil
	}
	out := make([]byte, len(octets))
	for i, b := range octets {
		out[i] = byte(b)
	}
	return out
}
