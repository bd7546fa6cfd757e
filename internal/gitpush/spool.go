package gitpush

import (
	"crypto/sha1" //nolint:gosec // the checksum of a pack is SHA-1; commits are hashed with collision detection
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// Spool keeps a pack while it is inspected, such as a file without a name. It is
// empty at first, and is written once, from start to end. If it is an io.Closer it is
// closed with the push.
type Spool interface {
	io.ReadWriteSeeker
}

// spooler passes on what it reads, writes it to the spool, and computes the checksum
// that a pack ends with.
type spooler struct {
	from  io.Reader
	spool Spool
	limit int64
	n     int64
	// sum is that of all bytes but the last ones, which are kept: they may be the
	// checksum.
	sum  hash.Hash
	last []byte
	// err is what failed other than the pack: from or spool.
	err error
}

func newSpooler(from io.Reader, spool Spool, format Format, limit int64) *spooler {
	s := &spooler{from: from, spool: spool, limit: limit, sum: sha1.New()} //nolint:gosec // as above
	if format == SHA256 {
		s.sum = sha256.New()
	}
	return s
}

func (s *spooler) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = fmt.Errorf("read the pack: %w", err)
	}
	if s.n += int64(n); s.n > s.limit {
		s.err = tooLarge("its pack has more than %d bytes and must be inspected", s.limit)
		return 0, s.err
	}
	if _, werr := s.spool.Write(b[:n]); werr != nil {
		s.err = fmt.Errorf("spool the pack: %w", werr)
		return 0, s.err
	}
	s.add(b[:n])
	return n, err
}

func (s *spooler) add(b []byte) {
	size := s.sum.Size()
	if len(b) >= size {
		_, _ = s.sum.Write(s.last) // a hash returns no errors
		_, _ = s.sum.Write(b[:len(b)-size])
		s.last = append(s.last[:0], b[len(b)-size:]...)
		return
	}
	s.last = append(s.last, b...)
	if extra := len(s.last) - size; extra > 0 {
		_, _ = s.sum.Write(s.last[:extra])
		s.last = append(s.last[:0], s.last[extra:]...)
	}
}

// FileSpool returns a function that creates spools which are files in a folder. They
// have no name there, so that nothing is left of them when they are closed.
func FileSpool(folder string) func() (Spool, error) {
	return func() (Spool, error) {
		f, err := os.CreateTemp(folder, "push-*.pack")
		if err != nil {
			return nil, err
		}
		return f, os.Remove(f.Name())
	}
}
