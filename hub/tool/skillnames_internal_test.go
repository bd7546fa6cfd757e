package tool

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/node/skill"
)

// What the hub offers as a skill is what the program in the jail has, and the other way
// round.
func TestTheSkillsOfTheHubAreThoseOfTheJail(t *testing.T) {
	t.Parallel()
	var offered []string
	for _, tool := range slices.Concat(skillTools(), httpTools()) {
		offered = append(offered, tool.Name)
	}
	// These are run by the hub for the knowledge base.
	offered = append(offered, extracted.Folder, extracted.Document)
	require.ElementsMatch(t, skill.Names(), offered)
}
