package relay

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// No error that has a code looks to a client as if the hub had broken.
func TestEachKindOfErrorHasAStatus(t *testing.T) {
	t.Parallel()
	for _, entry := range fault.Catalogue() {
		for _, kind := range entry.Kinds {
			refused := refuseFault(fault.New(kind, "x").WithCode(entry.Code))
			require.Equal(t, entry.Code, refused.Code)
			if kind != fault.Internal {
				require.NotEqual(t, http.StatusInternalServerError, refused.Status, "%s, %v", entry.Code, kind)
			}
		}
	}
}
