package execlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Mask masks secrets in p in place, each by as many bytes as it has, and
// returns how many bytes of p are settled: the rest, at most MaskReach of them,
// may be the beginning of a secret that goes on after p. It is called by one
// goroutine of each Reader.
type Mask func(p []byte) (settled int)

// MaskReach is how many bytes before and after those that are read a Mask is
// shown, so that a secret is known however it is read.
const MaskReach = 16 << 10

// SetMask masks everything that is read from now on. The mask is applied to the
// log as a whole and to each stream separately, because the output of one
// stream may split a secret of another.
func (r *Reader) SetMask(m Mask) {
	r.mask, r.view = m, view{}
}

// view is a part of the log as it may be shown: buf is from base on, and what
// is from from up to good is masked and settled.
type view struct {
	buf        []byte
	base       int64
	from, good int64
}

// bytes returns data from at up to an offset, or less of it; nothing when what
// is there cannot be shown before more is written. With whole nothing more
// will be.
func (r *Reader) bytes(at, to int64, whole bool) ([]byte, error) {
	if at < r.view.from || at >= r.view.good {
		if err := r.fill(at, to, whole); err != nil {
			return nil, err
		}
	}
	to = min(to, r.view.good)
	if to <= at {
		return nil, nil
	}
	return r.view.buf[at-r.view.base : to-r.view.base], nil
}

// fill makes the view one of data from at on, of as much as is wanted.
func (r *Reader) fill(at, to int64, whole bool) error {
	size, err := r.Size()
	if err != nil {
		return err
	}
	if at >= size {
		return fmt.Errorf("read the log: it became shorter than %d bytes", to)
	}
	reach := int64(0)
	if r.mask != nil {
		reach = MaskReach
	}
	base, end := max(0, at-reach), min(size, at+maxChunk+reach)
	if want := int(end - base); cap(r.view.buf) < want {
		r.view.buf = make([]byte, want)
	}
	r.view = view{buf: r.view.buf[:end-base], base: base, from: at}
	n, err := r.data.ReadAt(r.view.buf, base)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the log: %w", err)
	}
	end = base + int64(n)
	r.view.buf = r.view.buf[:n]
	r.view.good = min(end, at+maxChunk)
	if r.mask == nil || n == 0 {
		return nil
	}
	settled, err := r.maskView(end)
	if err != nil {
		return err
	}
	if !whole || end < size {
		r.view.good = max(at, min(r.view.good, base+settled))
	}
	return nil
}

// maskView masks the view's bytes, as they are and stream by stream, and
// returns how many of them are settled.
func (r *Reader) maskView(end int64) (settled int64, err error) {
	parts, err := r.parts(end)
	if err != nil {
		return 0, err
	}
	settled = end - r.view.base
	for _, p := range parts {
		p.raw = bytes.Clone(p.data)
		known := r.mask(p.data)
		if known < len(p.data) {
			settled = min(settled, p.at[known])
		}
	}
	if known := r.mask(r.view.buf); int64(known) < settled {
		settled = int64(known)
	}
	for _, p := range parts {
		for i, c := range p.data {
			if c != p.raw[i] {
				r.view.buf[p.at[i]] = c
			}
		}
	}
	return settled, nil
}

// part is one stream's share of a view.
type part struct {
	data []byte
	raw  []byte  // data before it was masked
	at   []int64 // where in the view each byte is
}

// parts takes the view apart by streams; nil when there are not two of them.
func (r *Reader) parts(end int64) (map[Stream]*part, error) {
	records, err := r.records()
	if err != nil || records == 0 {
		return nil, err
	}
	first := r.search(records, r.view.base)
	mixed := false
	var only Stream
	if err := r.each(first, records, end, func(rec record) {
		mixed = mixed || only != Unknown && rec.stream != only
		only = rec.stream
	}); err != nil || !mixed {
		return nil, err
	}
	out := map[Stream]*part{}
	done := r.view.base
	err = r.each(first, records, end, func(rec record) {
		p := out[rec.stream]
		if p == nil {
			p = &part{}
			out[rec.stream] = p
		}
		// Each byte once, whatever a damaged index says.
		for at := max(rec.offset, done); at < min(rec.end(), end); at++ {
			p.data = append(p.data, r.view.buf[at-r.view.base])
			p.at = append(p.at, at-r.view.base)
			done = at + 1
		}
	})
	return out, err
}

// each calls fn with the records of bytes from one on that begin before end. A
// record has a byte, so that there are not more of them than bytes, except for
// some changes of a terminal's size.
func (r *Reader) each(first, records, end int64, fn func(record)) error {
	records = min(records, first+2*(end-r.view.base)+pageRecords)
	for n := first; n < records; n++ {
		rec, ok, err := r.record(n)
		if err != nil {
			return err
		}
		if ok && rec.offset >= end {
			return nil
		}
		if ok && rec.stream != Gap && rec.stream != Resize {
			fn(rec)
		}
	}
	return nil
}
