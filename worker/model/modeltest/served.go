package modeltest

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic"
	google "github.com/deckhand-sh/deckhand/worker/model/gemini" // gemini is the format here
	"github.com/deckhand-sh/deckhand/worker/model/openai"
)

// Served are a provider and a model of each format.
var Served = map[Format][2]string{
	Messages: {"anthropic", "claude-sonnet-5-5"}, Chat: {"vllm", "qwen3"},
	Responses: {"openai", "gpt-5"}, Gemini: {"gemini", "gemini-2.5-pro"},
}

// NewModel returns a model that asks a server in a format. stall is how long a call may be
// silent; 0 for the default.
func NewModel(t testing.TB, f Format, url string, stall time.Duration) model.Model {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	const key = "key-of-the-test"
	name := Served[f][1]
	var m model.Model
	var err error
	switch f {
	case Messages:
		m, err = anthropic.New(anthropic.Config{BaseURL: url, Key: key, Model: name, HTTPClient: client, StallTimeout: stall})
	case Gemini:
		m, err = google.New(google.Config{BaseURL: url, Key: key, Model: name, HTTPClient: client, StallTimeout: stall})
	default:
		p, ok := provider.Of(Served[f][0])
		require.True(t, ok)
		m, err = openai.New(openai.Config{Provider: p, BaseURL: url + "/v1", Key: key, Model: name, HTTPClient: client, StallTimeout: stall})
	}
	require.NoError(t, err)
	return m
}
