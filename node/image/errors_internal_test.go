package image

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A registry that does not respond in time is tried again; a caller that has gone is not told
// anything else.
func TestATimeoutIsNotTheEndOfTheCaller(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	defer server.Close()
	defer close(stuck)
	client := &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: time.Millisecond}}
	_, err := client.Get(server.URL) //nolint:noctx,bodyclose // it fails
	require.Error(t, err)
	err = explain("registry.example.com/app:1", err)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.ErrorContains(t, err, "the registry of image registry.example.com/app:1 cannot be reached or broke off")

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	_, err = http.DefaultClient.Do(req) //nolint:bodyclose // it fails
	require.ErrorIs(t, explain("registry.example.com/app:1", err), context.DeadlineExceeded)
}
