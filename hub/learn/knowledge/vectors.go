package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

const (
	// maxKept bounds the vectors that a hub keeps in memory, in bytes; those of collections that
	// do not fit are read from the database in each search.
	maxKept = 512 << 20
	// keptFor is for how long the vectors of a collection are kept that nobody searches.
	keptFor = 10 * time.Minute
	// readVectors is how many are read from the database at once.
	readVectors = 2000
	// lookAgain is how often it is looked whether the database can compare vectors.
	lookAgain = time.Minute
	perFloat  = 4
)

// vectors compares a question with the vectors of collections, exactly. It keeps those of
// collections that are searched in memory.
type vectors struct {
	store *store.Store

	mu    sync.Mutex
	kept  map[string]*block
	able  bool
	asked time.Time
}

func newVectors(s *store.Store) *vectors { return &vectors{store: s, kept: map[string]*block{}} }

// block has the vectors of a collection, in the order of the passages' ids.
type block struct {
	// held has one element while a search uses the block.
	held chan struct{}
	// of says which model made them, and stamp is the collection's when they were read.
	of    string
	stamp int64
	size  int
	ids   []int64
	data  []float32
	// used is when it was searched last, and bytes how many it has; under vectors.mu.
	used  time.Time
	bytes int64
}

// inDatabase reports whether the database compares vectors: pgvector is installed there.
func (v *vectors) inDatabase(ctx context.Context) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.asked) < lookAgain {
		return v.able, nil
	}
	able, err := v.store.HasVectorExtension(ctx)
	if err != nil {
		return false, fmt.Errorf("look for pgvector: %w", err)
	}
	v.able, v.asked = able, time.Now()
	return able, nil
}

// nearest returns the passages of some collections that are nearest to a question, the nearest
// first. of says which model made the vectors.
func (v *vectors) nearest(ctx context.Context, collections []db.KnowledgeCollectionsSeenRow, of string, question []float32, n int) ([]int64, error) {
	able, err := v.inDatabase(ctx)
	if err != nil {
		return nil, err
	}
	if able {
		ids := make([]string, len(collections))
		for i, c := range collections {
			ids[i] = c.ID
		}
		found, err := v.store.NearestPassages(ctx, db.NearestPassagesParams{Collections: ids, Size: int32(len(question)), Question: question, MaxRows: int32(n)}) //nolint:gosec // both are bounded
		if err != nil {
			return nil, fmt.Errorf("compare vectors in the database: %w", err)
		}
		return found, nil
	}
	best := top{n: n}
	for _, c := range collections {
		if err := v.search(ctx, c, of, question, &best); err != nil {
			return nil, err
		}
	}
	return best.ids(), nil
}

// search compares a question with the vectors of one collection.
func (v *vectors) search(ctx context.Context, c db.KnowledgeCollectionsSeenRow, of string, question []float32, best *top) error {
	b := v.take(c.ID)
	select {
	case b.held <- struct{}{}:
		defer func() { <-b.held }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if b.of == of && b.stamp == c.Vectors && b.size == len(question) {
		best.scan(b.ids, b.data, question)
		return nil
	}
	size := len(question)
	ids, err := v.store.KnowledgeVectorIDs(ctx, db.KnowledgeVectorIDsParams{CollectionID: c.ID, Size: int32(size)}) //nolint:gosec // it is bounded
	if err != nil {
		return fmt.Errorf("list the vectors of collection %s: %w", c.ID, err)
	}
	if bytes := int64(len(ids)) * int64(size) * perFloat; !v.room(c.ID, bytes) {
		b.stamp, b.size, b.ids, b.data = -1, 0, nil, nil
		return v.read(ctx, c.ID, ids, size, func(ids []int64, data []float32) { best.scan(ids, data, question) })
	}
	if err := b.fill(ctx, v, c, of, ids, size); err != nil {
		return err
	}
	best.scan(b.ids, b.data, question)
	return nil
}

// fill brings a block up to date: what it has of the same model and is still there is kept. What
// was read before the time is over is kept, too, so that a later search goes on from there.
func (b *block) fill(ctx context.Context, v *vectors, c db.KnowledgeCollectionsSeenRow, of string, ids []int64, size int) error {
	have := map[int64]int{}
	if b.of == of && b.size == size {
		for i, id := range b.ids {
			have[id] = i
		}
	}
	var missing []int64
	for _, id := range ids {
		if _, there := have[id]; !there {
			missing = append(missing, id)
		}
	}
	fresh := make(map[int64][]float32, len(missing))
	err := v.read(ctx, c.ID, missing, size, func(ids []int64, data []float32) {
		for i, id := range ids {
			fresh[id] = data[i*size : (i+1)*size]
		}
	})
	data, order := make([]float32, 0, len(ids)*size), make([]int64, 0, len(ids))
	for _, id := range ids {
		one := fresh[id]
		if at, there := have[id]; there {
			one = b.data[at*size : (at+1)*size]
		}
		if one != nil { // it was deleted meanwhile
			data, order = append(data, one...), append(order, id)
		}
	}
	b.of, b.stamp, b.size, b.ids, b.data = of, c.Vectors, size, order, data
	if err != nil {
		b.stamp = -1
	}
	return err
}

// read reads some vectors of a collection, and passes them on in parts.
func (v *vectors) read(ctx context.Context, collectionID string, ids []int64, size int, each func(ids []int64, data []float32)) error {
	for part := range slices.Chunk(ids, readVectors) {
		rows, err := v.store.KnowledgeVectors(ctx, db.KnowledgeVectorsParams{CollectionID: collectionID, Ids: part})
		if err != nil {
			return fmt.Errorf("read the vectors of collection %s: %w", collectionID, err)
		}
		got, data := make([]int64, 0, len(rows)), make([]float32, 0, len(rows)*size)
		for _, row := range rows {
			if len(row.Vector) == size {
				got, data = append(got, row.PassageID), append(data, row.Vector...)
			}
		}
		each(got, data)
	}
	return nil
}

// take returns the block of a collection.
func (v *vectors) take(collectionID string) *block {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := v.kept[collectionID]
	if b == nil {
		b = &block{stamp: -1, held: make(chan struct{}, 1)}
		v.kept[collectionID] = b
	}
	b.used = time.Now()
	return b
}

// room makes room for the vectors of a collection, by giving up those that were not searched for
// longest. It reports false if there cannot be enough.
func (v *vectors) room(collectionID string, bytes int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if bytes > maxKept {
		delete(v.kept, collectionID)
		return false
	}
	total := bytes
	for id, b := range v.kept {
		if id != collectionID {
			total += b.bytes
		}
	}
	for total > maxKept {
		oldest := ""
		for id, b := range v.kept {
			if id != collectionID && (oldest == "" || b.used.Before(v.kept[oldest].used)) {
				oldest = id
			}
		}
		total -= v.kept[oldest].bytes
		delete(v.kept, oldest)
	}
	if b := v.kept[collectionID]; b != nil {
		b.bytes = bytes
	}
	return true
}

// expire gives up the vectors that nobody has searched for some time.
func (v *vectors) expire(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, b := range v.kept {
		if now.Sub(b.used) > keptFor {
			delete(v.kept, id)
		}
	}
}

// top are the best of the vectors that were compared, at most n, the best first.
type top struct {
	n    int
	list []scored
}

type scored struct {
	id    int64
	score float32
}

// scan compares a question with vectors that lie one behind the other.
func (t *top) scan(ids []int64, data, question []float32) {
	size := len(question)
	for i, id := range ids {
		t.add(scored{id, dot(data[i*size:(i+1)*size], question)})
	}
}

func (t *top) add(s scored) {
	if len(t.list) == t.n && s.score <= t.list[t.n-1].score {
		return
	}
	at, _ := slices.BinarySearchFunc(t.list, s, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) })
	t.list = slices.Insert(t.list, at, s)
	t.list = t.list[:min(len(t.list), t.n)]
}

func (t *top) ids() []int64 {
	out := make([]int64, len(t.list))
	for i, s := range t.list {
		out[i] = s.id
	}
	return out
}

// dot returns the product of two vectors, which for those of length 1 is the cosine of their
// angle. Four sums at once do not wait for each other.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}
