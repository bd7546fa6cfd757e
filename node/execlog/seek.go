package execlog

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"time"
)

// At returns the offset of the first output that was read at or after a time,
// or the current end of the log if there is none. It bisects the index.
func (r *Reader) At(t time.Time) (int64, error) {
	records, err := r.records()
	if err != nil {
		return 0, err
	}
	nanos := t.UnixNano()
	n := int64(sort.Search(int(records), func(i int) bool {
		rec, ok, err := r.peek(int64(i))
		// A damaged record counts as after: reading begins before the damage.
		return err != nil || !ok || rec.time >= nanos
	}))
	for ; n < records; n++ {
		rec, ok, err := r.record(n)
		if err != nil {
			return 0, err
		}
		if ok && rec.time >= nanos {
			return rec.offset, nil
		}
	}
	return r.End()
}

// End returns where the log ends now: after its last byte, or after the gap
// that follows it.
func (r *Reader) End() (int64, error) {
	end, err := r.Size()
	if err != nil {
		return 0, err
	}
	records, err := r.records()
	if err != nil || records == 0 {
		return end, err
	}
	rec, ok, err := r.record(records - 1)
	if ok && rec.stream == Gap {
		end = max(end, rec.end())
	}
	return end, err
}

// maxTail bounds how far back the last lines are looked for.
const maxTail = 16 << 20

// TailBytes returns the offset of the last n bytes that are kept.
func (r *Reader) TailBytes(n int64) (int64, error) {
	size, err := r.Size()
	return max(0, size-n), err
}

// TailLines returns the offset of the last n lines, the one that is not ended
// yet included, within the last 16 MiB.
func (r *Reader) TailLines(n int64) (int64, error) {
	size, err := r.Size()
	if err != nil {
		return 0, err
	}
	least := max(0, size-maxTail)
	buf := make([]byte, 64<<10)
	for end := size; end > least; {
		from := max(least, end-int64(len(buf)))
		part := buf[:end-from]
		if _, err := r.data.ReadAt(part, from); err != nil && err != io.EOF {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		for len(part) > 0 {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			// The line end of the last line is its own.
			if at := from + int64(i); at != size-1 {
				if n--; n == 0 {
					return at + 1, nil
				}
			}
			part = part[:i]
		}
		end = from
	}
	return least, nil
}
