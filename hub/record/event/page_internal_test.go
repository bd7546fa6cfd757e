package event

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// A page has as many events as fit, at least one, and ends where those of watches at other
// events end, too.
func TestPagesEndAtTheSameEvents(t *testing.T) {
	t.Parallel()
	rows := func(from, to int64, size int) (out []db.EventsAfterRow) {
		for id := from; id <= to; id++ {
			out = append(out, db.EventsAfterRow{ID: id, Payload: make([]byte, size)})
		}
		return out
	}
	for name, c := range map[string]struct {
		rows []db.EventsAfterRow
		most int
		last int64
		more bool
		next int
	}{
		"nothing":                      {nil, 32, 0, false, 32},
		"the last events":              {rows(5, 25, 10), 32, 25, false, 32},
		"more than were asked for":     {rows(5, 36, 10), 32, 32, true, 64},
		"of many":                      {rows(1, 256, 10), 256, 256, true, 256},
		"as many as fit":               {rows(5, 36, 1000), 32, 32, true, 64},
		"much more than fit":           {rows(5, 36, 2000), 32, 16, true, 16},
		"the last events do not fit":   {rows(5, 25, 2000), 32, 16, true, 16},
		"one that does not fit":        {rows(5, 6, batchBytes+1), 2, 5, true, 1},
		"no aligned one among them":    {rows(17, 20, 10), 4, 20, true, 8},
		"one was asked for, and is it": {rows(17, 17, batchBytes+1), 1, 17, true, 2},
	} {
		got := pageOf(c.rows, c.most)
		require.Equal(t, c.more, got.more, name)
		require.Equal(t, c.next, got.most, name)
		require.False(t, got.ended, name)
		if c.last == 0 {
			require.Empty(t, got.rows, name)
			continue
		}
		require.Equal(t, c.rows[0].ID, got.rows[0].ID, name)
		require.Equal(t, c.last, got.rows[len(got.rows)-1].ID, name)
		require.Len(t, got.rows, int(c.last-c.rows[0].ID+1), name)
	}
}

// A page that others follow is read once for all watches of the same, and the last page anew. A
// watch that is alone keeps none, and with the last one all go.
func TestSlowWatchesShareWhatWasRead(t *testing.T) {
	t.Parallel()
	p, read := newPages(), 0
	get := func(id int64, is page) *Stored {
		got, err := p.get(t.Context(), position{what: "task_1", at: Cursor{7, id}, most: 32}, func(context.Context) (page, error) {
			read++
			is.rows = []*Stored{{}}
			return is, nil
		})
		require.NoError(t, err)
		return got.rows[0]
	}
	followed, last, large := page{more: true}, page{}, page{more: true, large: true}
	one := p.open("task_1")
	require.NotSame(t, get(16, followed), get(16, followed), "the watch is alone")
	two := p.open("task_1")
	read = 0
	kept := get(16, followed)
	require.Same(t, kept, get(16, followed))
	require.Equal(t, 1, read)
	require.NotSame(t, get(32, last), get(32, last))
	require.NotSame(t, get(48, large), get(48, large))
	require.Equal(t, 5, read)
	one()
	require.Same(t, kept, get(16, followed))
	two()
	require.NotSame(t, kept, get(16, followed))
	require.Empty(t, p.watches)
}
