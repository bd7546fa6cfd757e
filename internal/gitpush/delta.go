package gitpush

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// Bounds of what is rebuilt from deltas. Git makes chains of 50 deltas, and of 4095
// at most.
const (
	maxChain  = 4095
	maxPasses = 64
)

func (p *packReader) findDelta(offset int64) (int, bool) {
	return slices.BinarySearchFunc(p.deltas, offset, func(d delta, o int64) int { return cmp.Compare(d.offset, o) })
}

// resolve rebuilds the commits that are stored as deltas. A base that is named by its
// hash may come later in the pack than the delta, so it passes over the deltas until
// there is nothing more to find.
func (p *packReader) resolve(ctx context.Context) error {
	for pass := 0; pass < maxPasses && len(p.deltas) > 0; pass++ {
		before := len(p.deltas)
		left := p.deltas[:0]
		for _, d := range p.deltas {
			base := d.base
			if base == 0 {
				base = p.at[d.ref]
			}
			b, ok := p.found[base]
			if !ok {
				left = append(left, d)
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if b.depth >= maxChain {
				continue
			}
			c := foundCommit{base: base, depth: b.depth + 1}
			content, err := p.content(d.offset, c)
			if err != nil {
				return err
			}
			if content != nil {
				p.add(d.offset, content, c)
			}
		}
		if p.deltas = left; len(left) == before {
			break
		}
	}
	p.deltas = nil
	return nil
}

// content returns the content of a commit in the spool, or nil if it cannot be
// rebuilt: its deltas are not valid, or are larger than a commit may be.
func (p *packReader) content(offset int64, c foundCommit) ([]byte, error) {
	var chain [][]byte // the deltas, the last one first
	for {
		if content, ok := p.recent[offset]; ok {
			return p.apply(content, chain), nil
		}
		content, err := p.entryContent(offset)
		if err != nil || content == nil {
			return nil, err
		}
		if c.base == 0 {
			return p.apply(content, chain), nil
		}
		chain = append(chain, content)
		offset = c.base
		c = p.found[offset]
	}
}

// apply applies deltas to a base, the last one first.
func (p *packReader) apply(content []byte, chain [][]byte) []byte {
	for _, d := range slices.Backward(chain) {
		_, n := binary.Uvarint(d)
		if n <= 0 {
			return nil
		}
		// The size of the result comes second: it is checked before it is made.
		size, m := binary.Uvarint(d[n:])
		if m <= 0 || size > uint64(p.limits.CommitSize) {
			return nil
		}
		var err error
		if content, err = packfile.PatchDelta(content, d); err != nil {
			return nil
		}
	}
	return content
}

// entryContent returns the decompressed content of an entry in the spool, or nil if it
// is too large for a commit.
func (p *packReader) entryContent(offset int64) ([]byte, error) {
	if _, err := p.spool.Seek(offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the spooled pack: %w", err)
	}
	if p.seek == nil {
		p.seek = bufio.NewReaderSize(nil, 4<<10)
	}
	p.seek.Reset(io.LimitReader(p.spool, p.size-offset))
	e, err := p.readEntryHeader(offset, p.seek)
	if err != nil {
		return nil, err
	}
	if e.size > int64(p.limits.CommitSize) {
		return nil, nil
	}
	content := make([]byte, 0, e.size)
	if err := p.inflate(p.seek, e.size, &content); err != nil {
		return nil, err
	}
	return content, nil
}
