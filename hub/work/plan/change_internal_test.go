package plan

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/plantree"
)

// What is more than a plan has is refused before the task is locked, however wide or deep.
func TestAPlanThatIsTooLargeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	wide := make([]Node, 20_000)
	deep := Node{Item: plantree.Item{Title: "the last"}}
	for range 5_000 {
		deep = Node{Item: plantree.Item{Title: "x"}, Children: []Node{deep}}
	}
	for _, nodes := range [][]Node{wide, {deep}, make([]Node, maxItems+1)} {
		_, err := Replace(nodes)
		require.True(t, fault.Is(err, fault.Invalid), err)
		require.ErrorContains(t, err, "more than 100 items")
		_, err = Add(Node{Children: nodes}, "", "")
		require.True(t, fault.Is(err, fault.Invalid), err)
	}
}

func TestItemsWithoutAnIDGetOneThatIsFree(t *testing.T) {
	t.Parallel()
	nodes := make([]Node, maxItems-2)
	nodes[0].Children = []Node{{Item: plantree.Item{ID: "p2"}}, {}}
	change, err := Replace(nodes)
	require.NoError(t, err)
	items, _, err := change(nil)
	require.NoError(t, err)
	require.Len(t, items, maxItems)
	require.NoError(t, plantree.Check(items))
	for i, want := range []string{"p1", "p2", "p3", "p4"} {
		require.Equal(t, want, items[i].ID)
	}
	require.Equal(t, "p1", items[2].Parent)
	require.Equal(t, "p"+strconv.Itoa(maxItems), items[maxItems-1].ID)
}
