package loop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A task's context and conversation reach the model with its goal.
func TestTheOpeningHasContextAndConversation(t *testing.T) {
	t.Parallel()
	text := opening(&deckhandv1.Task{
		Goal: "Mend it", Context: "rack 4", Conversation: []*deckhandv1.ConversationMessage{{Role: "user", Text: "the disk is loud"}},
	}, Project{}, "")
	require.Contains(t, text, "# Context\n\nrack 4")
	require.Contains(t, text, "# Earlier messages\n\nuser: the disk is loud\n")
	require.NotContains(t, opening(&deckhandv1.Task{Goal: "Mend it"}, Project{}, ""), "# Context")
}

// Texts are cut to one size that makes them fit, the longest first.
func TestShare(t *testing.T) {
	t.Parallel()
	require.Equal(t, math.MaxInt, share([]int{10, 20, 30}, 60))
	require.Equal(t, 5000, share([]int{100, 9000, 9000}, 10_100))
	require.Equal(t, least, share([]int{9000, 9000}, 100))
}
