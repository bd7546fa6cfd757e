package inbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// What is offered against a failure fits its cause: memory only where memory was missing.
func TestRemediesFitTheFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code    fault.Code
		message string
		want    []string
	}{
		{fault.ModelUnavailable, "anthropic: unavailable (HTTP 500): boom", []string{RemedyRetry, RemedyModel}},
		{fault.RateLimited, "anthropic: too many requests", []string{RemedyRetry, RemedyModel}},
		{fault.CredentialInvalid, "the key was refused", []string{RemedyModel, RemedyRetry}},
		{fault.NodeUnavailable, "node web-1 is not connected", []string{RemedyRetry, RemedyNode}},
		{fault.CommandFailed, "the jail ran out of memory", []string{RemedyMemory, RemedyNode}},
		{fault.CommandFailed, "exit status 2", []string{RemedyRetry}},
	} {
		require.Equal(t, c.want, remediesOf(c.code, c.message), c.message)
	}
}
