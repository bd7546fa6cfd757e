package knowledge

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// The nearest vectors are those that sorting all of them gives.
func TestTheNearestAreExact(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // of a test
	const n, size, want = 3000, 35, 20
	ids, data, question := make([]int64, n), make([]float32, n*size), make([]float32, size)
	for i := range ids {
		ids[i] = int64(i)
	}
	for i := range data {
		data[i] = r.Float32() - 0.5
	}
	for i := range question {
		question[i] = r.Float32() - 0.5
	}
	best := top{n: want}
	best.scan(ids[:1000], data[:1000*size], question)
	best.scan(ids[1000:], data[1000*size:], question)
	all := slices.Clone(ids)
	slices.SortFunc(all, func(a, b int64) int {
		x, y := dot(data[a*size:(a+1)*size], question), dot(data[b*size:(b+1)*size], question)
		if x > y || x == y && a < b {
			return -1
		}
		return 1
	})
	require.Equal(t, all[:want], best.ids())
}

// A scope that has as many vectors as it may gets no more, in any of its collections, unless the
// database compares them.
func TestAScopeHasABoundedNumberOfVectors(t *testing.T) {
	t.Parallel()
	rows := []db.KnowledgeVectorCountsRow{{ID: "a", Scope: "team:x"}, {ID: "b", Scope: "team:x"}, {ID: "c", Scope: "user:y"}}
	l := &limits{of: map[string]int64{"team:x": maxVectors - 1}, most: maxVectors}
	l.add(rows, "c")
	require.Empty(t, l.collections)
	l.add(rows, "b")
	require.Equal(t, []string{"a", "b"}, l.collections)
	free := &limits{of: map[string]int64{"team:x": maxVectors - 1}}
	free.add(rows, "a")
	require.Empty(t, free.collections)
}

// Vectors that nobody searches are given up, and those that were searched last stay.
func TestVectorsInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	v := newVectors(nil)
	for i, id := range []string{"old", "new"} {
		v.take(id).used = time.Now().Add(time.Duration(i-10) * time.Second)
		require.True(t, v.room(id, maxKept/2))
	}
	v.take("third")
	require.True(t, v.room("third", maxKept/2))
	require.NotContains(t, v.kept, "old")
	require.Contains(t, v.kept, "new")
	v.take("large")
	require.False(t, v.room("large", maxKept+1))
	require.NotContains(t, v.kept, "large")
	v.expire(time.Now().Add(2 * keptFor))
	require.Empty(t, v.kept)
}

// A search does not wait longer than its time for another one that loads the same vectors.
func TestASearchDoesNotWaitForAnotherPastItsTime(t *testing.T) {
	t.Parallel()
	v := newVectors(nil)
	v.take("c").held <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, v.search(ctx, db.KnowledgeCollectionsSeenRow{ID: "c"}, "model", []float32{1}, &top{n: 1}), context.Canceled)
}

// How long a question is compared with as many vectors as a scope may have.
func BenchmarkNearest(b *testing.B) {
	const size = shortened
	ids, data, question := make([]int64, maxVectors), make([]float32, maxVectors*size), make([]float32, size)
	for i := range data {
		data[i] = float32(i%97) / 97
	}
	for i := range question {
		question[i] = float32(i%89) / 89
	}
	for b.Loop() {
		best := top{n: ranked}
		best.scan(ids, data, question)
	}
}
