package loop

import (
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
