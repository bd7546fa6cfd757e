package wire

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// A worker repeats a call that the relay refused exactly where the catalogue of
// errors says that a retry can help.
func TestRefusalsAreRetriedAsTheCatalogueSays(t *testing.T) {
	t.Parallel()
	for code, kind := range byCode {
		entry, ok := fault.Lookup(code)
		require.True(t, ok, code)
		require.Equal(t, entry.Retry, (&model.Error{Kind: kind}).Retryable(), code)
	}
}
