package gitpush

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
)

// The types of a pack's entries.
const (
	entryCommit   = 1
	entryTree     = 2
	entryBlob     = 3
	entryTag      = 4
	entryOfsDelta = 6
	entryRefDelta = 7
)

// packHeader is the length of what precedes the first entry.
const packHeader = 12

// packReader reads a pack once, from start to end, into a spool, and finds the
// commits in it. Deltas are looked at afterwards, from the spool: a delta is a commit
// if its base is one.
type packReader struct {
	format Format
	limits Limits
	spool  Spool
	graph  *Graph
	// found are the commits by their offsets, and at has the offset of each. A
	// commit that is left out of the graph is in neither.
	found map[int64]foundCommit
	at    map[oid]int64
	// deltas are those that may turn out to be commits, in the order of their
	// offsets.
	deltas []delta
	// budget is the bytes that may still be decompressed.
	budget int64
	size   int64 // of the pack
	zlib   io.ReadCloser
	buffer []byte
	// recent has the content of commits that deltas may be based on.
	recent map[int64][]byte
	seek   *bufio.Reader // of the spool
}

type foundCommit struct {
	base  int64 // the offset of the commit that it is a delta of; 0 for none
	depth int   // the number of deltas up to an object that is stored whole
}

type delta struct {
	offset int64
	base   int64 // 0 if the base is named by its hash
	ref    oid
}

// readPack reads a pack. The error is an *Error if the pack is damaged.
func readPack(ctx context.Context, from io.Reader, spool Spool, format Format, limits Limits) (*packReader, error) {
	limits = limits.complete()
	p := &packReader{
		format: format, limits: limits, spool: spool, graph: NewGraph(format, limits.Commits),
		found: map[int64]foundCommit{}, at: map[oid]int64{}, recent: map[int64][]byte{},
		budget: limits.Inflated, buffer: make([]byte, 32<<10),
	}
	s := newSpooler(from, spool, format, limits.Pack)
	err := p.readEntries(ctx, s, bufio.NewReaderSize(s, 64<<10))
	if s.err != nil { // whatever it looked like to the reader
		err = s.err
	}
	if err == nil {
		p.size = s.n
		err = p.resolve(ctx)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// readEntries reads all that there is. Every entry must be complete: the place where
// one ends is found by decompressing it only.
func (p *packReader) readEntries(ctx context.Context, s *spooler, r *bufio.Reader) error {
	header := make([]byte, packHeader)
	if _, err := io.ReadFull(r, header); err != nil {
		return damaged(err)
	}
	if version := binary.BigEndian.Uint32(header[4:]); string(header[:4]) != "PACK" || version != 2 && version != 3 {
		return malformed("what follows the references is not a pack of version 2 or 3")
	}
	for range binary.BigEndian.Uint32(header[8:]) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.readEntry(s.n-int64(r.Buffered()), r); err != nil {
			return err
		}
	}
	sum := make([]byte, p.format.Size())
	if _, err := io.ReadFull(r, sum); err != nil {
		return damaged(err)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		return malformed("data follows the pack")
	}
	if !bytes.Equal(sum, s.sum.Sum(nil)) || !bytes.Equal(sum, s.last) {
		return malformed("the checksum of the pack is wrong")
	}
	return nil
}

// readEntry reads an entry that begins at an offset.
func (p *packReader) readEntry(offset int64, r *bufio.Reader) error {
	e, err := p.readEntryHeader(offset, r)
	if err != nil {
		return err
	}
	switch e.kind {
	case entryCommit:
		if e.size > int64(p.limits.CommitSize) {
			return p.inflate(r, e.size, nil)
		}
		content := make([]byte, 0, e.size)
		if err := p.inflate(r, e.size, &content); err != nil {
			return err
		}
		p.add(offset, content, foundCommit{})
		return nil
	case entryOfsDelta, entryRefDelta:
		if (e.delta.base == 0 || p.couldBeCommit(e.delta.base)) && len(p.deltas) < p.limits.Deltas {
			p.deltas = append(p.deltas, e.delta)
		}
	}
	return p.inflate(r, e.size, nil)
}

type entry struct {
	kind  byte
	size  int64 // decompressed
	delta delta // if it is one
}

func (p *packReader) readEntryHeader(offset int64, r *bufio.Reader) (entry, error) {
	c, err := r.ReadByte()
	if err != nil {
		return entry{}, damaged(err)
	}
	e := entry{kind: c >> 4 & 7, size: int64(c & 15)}
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = r.ReadByte(); err != nil {
			return e, damaged(err)
		}
		if shift > 53 {
			return e, malformed("the pack has an object that is too large")
		}
		e.size |= int64(c&0x7f) << shift
	}
	e.delta.offset = offset
	switch e.kind {
	case entryCommit, entryTree, entryBlob, entryTag:
	case entryOfsDelta:
		// Each further byte begins where the numbers of fewer bytes end.
		back := int64(-1)
		for c = 0x80; c&0x80 != 0; {
			if c, err = r.ReadByte(); err != nil {
				return e, damaged(err)
			}
			if back++; back > 1<<48 {
				return e, malformed("the pack has a delta of an object that is not in it")
			}
			back = back<<7 | int64(c&0x7f)
		}
		if e.delta.base = offset - back; back <= 0 || e.delta.base < packHeader {
			return e, malformed("the pack has a delta of an object that is not in it")
		}
	case entryRefDelta:
		if _, err := io.ReadFull(r, e.delta.ref[:p.format.Size()]); err != nil {
			return e, damaged(err)
		}
	default:
		return e, malformed("the pack has an object of type %d, which is not known here", e.kind)
	}
	return e, nil
}

// inflate decompresses the content of an entry, which must have size bytes. They are
// appended to out, or discarded.
func (p *packReader) inflate(r *bufio.Reader, size int64, out *[]byte) error {
	if p.budget -= size; p.budget < 0 {
		return tooLarge("the objects of its pack have more than %d bytes and must be inspected", p.limits.Inflated)
	}
	var err error
	if p.zlib == nil {
		p.zlib, err = zlib.NewReader(r)
	} else {
		err = p.zlib.(zlib.Resetter).Reset(r, nil)
	}
	for err == nil {
		var n int
		n, err = p.zlib.Read(p.buffer)
		if size -= int64(n); size < 0 {
			return malformed("the pack has an object that is longer than it says")
		}
		if out != nil {
			*out = append(*out, p.buffer[:n]...)
		}
	}
	if !errors.Is(err, io.EOF) {
		return damaged(err)
	}
	if size != 0 {
		return malformed("the pack has an object that is shorter than it says")
	}
	return nil
}

// damaged returns the error for a pack that could not be read on.
func damaged(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("the pack is incomplete")
	case errors.As(err, &corrupt), errors.Is(err, zlib.ErrHeader), errors.Is(err, zlib.ErrChecksum), errors.Is(err, zlib.ErrDictionary):
		return malformed("the pack has an object that cannot be decompressed")
	}
	return err
}

// add adds a commit, and keeps its content for the deltas of it. One that is not
// valid is no proof; the server refuses it.
func (p *packReader) add(offset int64, content []byte, c foundCommit) {
	id, err := p.graph.add(content)
	if _, ok := p.graph.parents[id]; err != nil || !ok {
		return
	}
	p.found[offset] = c
	if _, ok := p.at[id]; !ok {
		p.at[id] = offset
	}
	p.keep(offset, content)
}

// maxRecent is the number of commits whose content is kept.
const maxRecent = 64

func (p *packReader) keep(offset int64, content []byte) {
	if len(p.recent) >= maxRecent {
		for oldest := range p.recent { // any
			delete(p.recent, oldest)
			break
		}
	}
	p.recent[offset] = content
}

func (p *packReader) couldBeCommit(offset int64) bool {
	if _, ok := p.found[offset]; ok {
		return true
	}
	i, ok := p.findDelta(offset)
	return ok && p.deltas[i].offset == offset
}
