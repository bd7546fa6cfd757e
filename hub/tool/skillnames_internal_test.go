package tool

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
	require.ElementsMatch(t, skill.Names(), offered)
}
