package output_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
)

func TestASpreadsheetTakesNoTextForAFormula(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r=1", "\tx"} {
		require.Equal(t, "'"+text, output.SpreadsheetText(text))
	}
	for _, text := range []string{"", "walker", "a=b", "web-1", "2026-11-27"} {
		require.Equal(t, text, output.SpreadsheetText(text))
	}
}
