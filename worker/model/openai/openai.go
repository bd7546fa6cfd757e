// Package openai implements models with OpenAI's API and compatible ones,
// through the official SDK, always streaming. It supports the responses API,
// which keeps a model's reasoning between turns, and chat completions, which
// the compatible servers offer.
//
// The SDK's own retries are disabled, because the loop has one retry policy for
// all providers, and so are its defaults from the environment: the caller sets
// base URL and key, which in a worker are the hub's relay and the lease. A
// stream that ends without a finish reason, stalls, or breaks in the middle of
// a tool call is an error; an incomplete turn is never returned.
//
// Wire formats: https://platform.openai.com/docs/api-reference/chat-streaming
// and https://platform.openai.com/docs/api-reference/responses-streaming
package openai

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// Config says where the API is and which model to use.
type Config struct {
	// Provider says who serves the model, and by which of the two. Required.
	Provider provider.Provider
	// BaseURL is what "/chat/completions" and "/responses" are added to; empty
	// for the provider's own.
	BaseURL string
	// Key is sent as a bearer token. Required.
	Key string
	// Model is the provider's name of the model. Required.
	Model string
	// HTTPClient is used for all calls; nil for http.DefaultClient.
	HTTPClient *http.Client
	// StallTimeout ends a call on which no byte came for so long; 0 for
	// wire.StallTimeout.
	StallTimeout time.Duration
}

// Model is one model of a provider's.
type Model struct {
	cfg       Config
	knows     provider.Model
	chat      sdk.ChatCompletionService
	responses responses.ResponseService

	transcript wire.Transcript
}

// New creates a Model. Nothing is sent before the first turn.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = cfg.Provider.BaseURL
	}
	switch {
	case cfg.Key == "":
		return nil, errors.New("openai: the key is empty")
	case cfg.Model == "":
		return nil, errors.New("openai: the model is empty: name one in the persona")
	case cfg.BaseURL == "":
		return nil, errors.New("openai: the base URL is empty, and " + cfg.Provider.Name + " has none of its own")
	}
	// The services by themselves: a client would read the environment.
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimRight(cfg.BaseURL, "/") + "/"),
		option.WithAPIKey(cfg.Key),
		option.WithHTTPClient(wire.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0),
	}
	return &Model{
		cfg: cfg, knows: provider.ModelInfo(cfg.Provider.Name, cfg.Model),
		chat: sdk.NewChatCompletionService(options...), responses: responses.NewResponseService(options...),
	}, nil
}

// Generate implements model.Model.
func (m *Model) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	if len(req.Messages) == 0 {
		return nil, m.broken(model.Invalid, errors.New("the transcript is empty"))
	}
	call := wire.Begin(ctx, m.cfg.Provider.Name, m.cfg.StallTimeout)
	defer call.End()
	generate := m.complete
	if m.cfg.Provider.Responses {
		generate = m.respond
	}
	turn, err := generate(call, req, &wire.Answer{Sink: sink})
	if err != nil {
		return nil, err
	}
	turn.Provider = m.cfg.Provider.Name
	if turn.Model == "" {
		turn.Model = m.cfg.Model
	}
	return turn, nil
}

// broken is an error that did not come from the provider as a response.
func (m *Model) broken(kind model.ErrorKind, err error) error {
	return &model.Error{Kind: kind, Provider: m.cfg.Provider.Name, Message: err.Error(), Err: err}
}

// usage makes figures of the API's, which counts what was read from the cache
// as input.
func usage(input, cached, output int64) *deckhandv1.Usage {
	return &deckhandv1.Usage{InputTokens: max(0, input-cached), CacheReadTokens: cached, OutputTokens: output}
}
