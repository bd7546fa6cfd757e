package persona_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// The API takes every mode and no other, and docs/modes.md describes each, in the same
// order.
func TestModesAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	for _, mode := range persona.Modes() {
		require.NoError(t, protovalidate.Validate(&deckhandv1.TaskOverride{Mode: mode}))
	}
	err := protovalidate.Validate(&deckhandv1.TaskOverride{Mode: "careless"})
	require.Error(t, err)
	taken := regexp.MustCompile(`\b[a-z]+\b`).FindAllString(regexp.MustCompile(`\[.*\]`).FindString(err.Error()), -1)
	require.Equal(t, persona.Modes(), taken, err.Error())

	page, err := os.ReadFile("../../docs/modes.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "\n| mode | ")
	table, _, _ := strings.Cut(rest, "\n\n")
	var described []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ").FindAllStringSubmatch(table, -1) {
		described = append(described, row[1])
	}
	require.Equal(t, persona.Modes(), described)
}
