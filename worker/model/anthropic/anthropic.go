// Package anthropic implements a model with the Anthropic Messages API, through
// the official SDK, always streaming.
//
// The SDK's own retries are disabled, because the loop has one retry policy for
// all providers, and so are its defaults from the environment: the caller sets
// base URL and key, which in a worker are the hub's relay and the lease. A
// stream that ends without message_stop, stalls, or breaks in the middle of a
// tool call is an error; an incomplete turn is never returned.
//
// Wire format: https://docs.anthropic.com/en/docs/build-with-claude/streaming
package anthropic

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// Provider is the name of this model family.
const Provider = "anthropic"

// Config says where the API is and which model to use.
type Config struct {
	// BaseURL is what "/v1/messages" is added to; empty for Anthropic's own.
	BaseURL string
	// Key is sent as x-api-key. Required.
	Key string
	// Model is Anthropic's name of the model. Required.
	Model string
	// HTTPClient is used for all calls; nil for http.DefaultClient.
	HTTPClient *http.Client
	// StallTimeout ends a call on which no byte came for so long, pings
	// included; 0 for 90 s. (The API pings about every 15 s.)
	StallTimeout time.Duration
}

// Model is one model of Anthropic's.
type Model struct {
	cfg      Config
	knows    provider.Model
	messages sdk.MessageService

	transcript wire.Transcript
}

// New creates a Model. Nothing is sent before the first turn.
func New(cfg Config) (*Model, error) {
	switch {
	case cfg.Key == "":
		return nil, errors.New("anthropic: the key is empty")
	case cfg.Model == "":
		return nil, errors.New("anthropic: the model is empty: name one in the persona")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = "https://api.anthropic.com"
	}
	return &Model{
		cfg: cfg, knows: provider.ModelInfo(Provider, cfg.Model),
		// The service by itself: a client would read the environment.
		messages: sdk.NewMessageService(
			option.WithBaseURL(strings.TrimRight(cfg.BaseURL, "/")+"/"),
			option.WithAPIKey(cfg.Key),
			option.WithHTTPClient(wire.Client(cfg.HTTPClient)),
			option.WithMaxRetries(0),
		),
	}, nil
}

// Generate implements model.Model.
func (m *Model) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	params, body, err := m.request(req)
	if err != nil {
		return nil, &model.Error{Kind: model.Invalid, Provider: Provider, Message: err.Error(), Err: err}
	}
	call := wire.Begin(ctx, Provider, m.cfg.StallTimeout)
	defer call.End()
	stream := m.messages.NewStreaming(call.Context(), params, option.WithRequestBody("application/json", body))
	defer func() { _ = stream.Close() }()
	acc := accumulator{Answer: wire.Answer{Sink: sink}}
	for stream.Next() {
		if err := acc.add(stream.Current()); err != nil {
			return nil, &model.Error{Kind: model.Unavailable, Provider: Provider, Message: err.Error(), Err: err}
		}
	}
	if err := stream.Err(); err != nil || !acc.stopped {
		return nil, call.Fail(err, classify)
	}
	turn := acc.turn()
	turn.Provider = Provider
	if turn.Model == "" {
		turn.Model = m.cfg.Model
	}
	return turn, nil
}
