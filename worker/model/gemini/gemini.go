// Package gemini implements a model with Google's Generative Language API,
// through the official SDK, always streaming.
//
// The SDK's retries and automatic continuation are not used, because the loop
// has one policy for all providers. The caller sets base URL and key, which in
// a worker are the hub's relay and the lease. A stream that ends without a
// finish reason, or stalls, is an error; an incomplete turn is never returned.
//
// Wire format: https://ai.google.dev/api/generate-content
package gemini

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	sdk "google.golang.org/genai"

	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// Provider is the name of this model family.
const Provider = "gemini"

// Config says where the API is and which model to use.
type Config struct {
	// BaseURL is what "/v1beta/models/…" is added to; empty for Google's own.
	BaseURL string
	// Key is sent as x-goog-api-key. Required.
	Key string
	// Model is Google's name of the model. Required.
	Model string
	// HTTPClient is used for all calls; nil for http.DefaultClient.
	HTTPClient *http.Client
	// StallTimeout ends a call on which no byte came for so long; 0 for
	// wire.StallTimeout.
	StallTimeout time.Duration
}

// Model is one model of Google's.
type Model struct {
	cfg    Config
	thinks bool
	sees   bool
	client *sdk.Client
}

// New creates a Model. Nothing is sent before the first turn.
func New(cfg Config) (*Model, error) {
	switch {
	case cfg.Key == "":
		return nil, errors.New("gemini: the key is empty")
	case cfg.Model == "":
		return nil, errors.New("gemini: the model is empty: name one in the persona")
	}
	if cfg.BaseURL == "" {
		p, _ := provider.Of(Provider)
		cfg.BaseURL = p.BaseURL
	}
	calls := wire.Client(cfg.HTTPClient)
	calls.Transport = exactly{calls.Transport}
	client, err := sdk.NewClient(context.Background(), &sdk.ClientConfig{
		APIKey: cfg.Key, Backend: sdk.BackendGeminiAPI, HTTPClient: calls,
		HTTPOptions: sdk.HTTPOptions{BaseURL: strings.TrimRight(cfg.BaseURL, "/") + "/", APIVersion: "v1beta"},
	})
	if err != nil {
		return nil, fmt.Errorf("gemini: make the client: %w", err)
	}
	knows := provider.ModelInfo(Provider, cfg.Model)
	return &Model{cfg: cfg, thinks: knows.Thinks, sees: knows.Images, client: client}, nil
}

// Generate implements model.Model.
func (m *Model) Generate(ctx context.Context, req *model.Request, sink model.Sink) (*deckhandv1.Turn, error) {
	contents, err := m.contents(req)
	if err != nil {
		return nil, &model.Error{Kind: model.Invalid, Provider: Provider, Message: err.Error(), Err: err}
	}
	call := wire.Begin(ctx, Provider, m.cfg.StallTimeout)
	defer call.End()
	acc := accumulator{Answer: wire.Answer{Sink: sink}}
	for chunk, err := range m.client.Models.GenerateContentStream(call.Context(), m.cfg.Model, contents, m.config(req)) {
		if err != nil {
			return nil, call.Fail(err, classify)
		}
		if err := acc.add(chunk); err != nil {
			return nil, &model.Error{Kind: model.Unavailable, Provider: Provider, Message: err.Error(), Err: err}
		}
	}
	if acc.reason == "" {
		return nil, call.Fail(acc.blocked(), classify)
	}
	turn, err := acc.turn()
	if err != nil {
		return nil, call.Fail(err, classify)
	}
	turn.Provider = Provider
	if turn.Model == "" {
		turn.Model = m.cfg.Model
	}
	return turn, nil
}

func (m *Model) config(req *model.Request) *sdk.GenerateContentConfig {
	out := &sdk.GenerateContentConfig{
		MaxOutputTokens:       int32(min(req.MaxTokens, math.MaxInt32)), //nolint:gosec // bounded
		AutomaticContinuation: new(false),
	}
	if req.System != "" {
		out.SystemInstruction = &sdk.Content{Parts: []*sdk.Part{{Text: req.System}}}
	}
	const asMuchAsItLikes = -1
	switch {
	case !m.thinks:
	case req.Thinking.Adaptive:
		out.ThinkingConfig = &sdk.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: new(int32(asMuchAsItLikes))}
	case req.Thinking.Tokens > 0:
		budget := int32(min(req.Thinking.Tokens, math.MaxInt32)) //nolint:gosec // bounded
		out.ThinkingConfig = &sdk.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: &budget}
	}
	var declared []*sdk.FunctionDeclaration
	for _, tool := range req.Tools {
		declared = append(declared, &sdk.FunctionDeclaration{
			Name: tool.GetName(), Description: tool.GetDescription(), ParametersJsonSchema: tool.GetInputSchema().AsMap(),
		})
	}
	if len(declared) > 0 {
		out.Tools = []*sdk.Tool{{FunctionDeclarations: declared}}
	}
	return out
}
