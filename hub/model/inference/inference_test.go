package inference_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/inference"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// asked is a request that a provider got, and settled what calls cost.
type rig struct {
	*inference.Models

	mu       sync.Mutex
	path     string
	header   http.Header
	body     map[string]any
	reserved []budget.Call
	settled  []budget.Cost
	refused  int
}

func newRig(t *testing.T, answer func(w http.ResponseWriter)) *rig {
	t.Helper()
	r := &rig{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		data, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.path, r.header, r.body = req.URL.Path, req.Header, nil
		_ = json.Unmarshal(data, &r.body)
		r.mu.Unlock()
		answer(w)
	}))
	t.Cleanup(server.Close)
	mask := &redact.Redactor{}
	mask.Org("org_1").Learn("test", "blackbird-secret-value")
	r.Models = inference.New(inference.Config{
		Usable: func(_ context.Context, _, _, model string) error {
			if model == "forbidden" {
				return fault.New(fault.Precondition, "not allowed")
			}
			return nil
		},
		Price: func(context.Context, string, string, string) (price.Model, error) {
			return price.Model{Input: 2, Output: 10}, nil
		},
		Access: func(_ context.Context, _, name string) (credential.Access, error) {
			p, _ := provider.Of(name)
			return credential.Access{Provider: p, BaseURL: server.URL, Key: config.Secret("a-key-of-the-test-77")}, nil
		},
		Refused: func(context.Context, string, credential.Access) error { r.refused++; return nil },
		Turn:    func(context.Context, string, string) error { return nil },
		Reserve: func(_ context.Context, call budget.Call) (*budget.Reservation, error) {
			r.reserved = append(r.reserved, call)
			return &budget.Reservation{OrgID: call.Task.OrgID}, nil
		},
		Settle: func(_ context.Context, _ *budget.Reservation, cost budget.Cost) error {
			r.settled = append(r.settled, cost)
			return nil
		},
		Redact: mask,
	})
	t.Cleanup(r.Close)
	return r
}

func answers(text string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }
}

func embedding(name string) inference.Embedding {
	return inference.Embedding{Model: inference.Model{OrgID: "org_1", Provider: name, Name: "m", User: "ann"}, Dimensions: 2, Question: true}
}

// Each wire format is what the provider's documentation has, and the texts are without secrets.
func TestEmbeddingsInEachFormat(t *testing.T) {
	t.Parallel()
	texts := []string{"one blackbird-secret-value", ""}
	r := newRig(t, answers(`{"data":[{"index":1,"embedding":[0,5]},{"index":0,"embedding":[3,4]}],"usage":{"prompt_tokens":7}}`))
	got, err := r.Embed(t.Context(), embedding("openai"), texts)
	require.NoError(t, err)
	require.Equal(t, [][]float32{{0.6, 0.8}, {0, 1}}, got, "in their order, of length 1")
	require.Equal(t, "/embeddings", r.path)
	require.Equal(t, "Bearer a-key-of-the-test-77", r.header.Get("Authorization"))
	require.Equal(t, map[string]any{"model": "m", "encoding_format": "float", "dimensions": 2.0, "input": []any{r.body["input"].([]any)[0], "-"}}, r.body)
	require.NotContains(t, r.body["input"].([]any)[0], "blackbird-secret-value")
	require.Len(t, r.reserved, 1)
	require.Equal(t, "ann", r.reserved[0].Task.CreatedBy)
	require.Empty(t, r.reserved[0].Task.ID)
	require.Positive(t, r.reserved[0].Amount)
	require.Equal(t, []budget.Cost{{Basis: budget.Reported, Usage: price.Usage{Input: 7}, Micros: 14, LimitTokens: 7}}, r.settled)

	r = newRig(t, answers(`{"embeddings":[{"values":[3,4]},{"values":[1,0]}]}`))
	got, err = r.Embed(t.Context(), embedding("gemini"), texts)
	require.NoError(t, err)
	require.Equal(t, [][]float32{{0.6, 0.8}, {1, 0}}, got)
	require.Equal(t, "/v1beta/models/m:batchEmbedContents", r.path)
	require.Equal(t, "a-key-of-the-test-77", r.header.Get("X-Goog-Api-Key"))
	first := r.body["requests"].([]any)[0].(map[string]any)
	require.Equal(t, "RETRIEVAL_QUERY", first["taskType"])
	require.EqualValues(t, 2, first["outputDimensionality"])
	require.Equal(t, budget.Estimated, r.settled[0].Basis, "it does not say what it used")
	require.Positive(t, r.settled[0].Micros)

	_, err = r.Embed(t.Context(), embedding("anthropic"), texts)
	require.ErrorContains(t, err, "has no models for embeddings")
	of := embedding("openai")
	of.Name = "forbidden"
	_, err = r.Embed(t.Context(), of, texts)
	require.ErrorContains(t, err, "not allowed")
	require.Len(t, r.reserved, 1, "neither is sent")
}

// Responses that are not as documented are errors, and what they cost is settled.
func TestStrangeAnswersAreErrors(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		`no JSON`, `{}`, `{"data":[{"embedding":[1,2]}]}`, `{"data":[{"embedding":[1,2]},{"embedding":[1]}]}`, `{"data":[{"embedding":[1,2]},{"embedding":[]}]}`,
		`{"data":[{"embedding":[1,2]},{"embedding":[0,0]}]}`, `{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}`, `{"data":[{"index":5,"embedding":[1,2]},{"index":0,"embedding":[1,2]}]}`,
		`{"data":[{"embedding":[1e39,2]},{"embedding":[1,2]}]}`,
	} {
		r := newRig(t, answers(answer))
		_, err := r.Embed(t.Context(), embedding("openai"), []string{"a", "b"})
		require.Error(t, err, answer)
		require.False(t, inference.Retriable(err), answer)
		require.Len(t, r.settled, 1, answer)
		require.Equal(t, budget.Estimated, r.settled[0].Basis, answer)
	}
	for status, again := range map[int]bool{http.StatusTooManyRequests: true, http.StatusBadGateway: true, http.StatusBadRequest: false, http.StatusUnauthorized: false} {
		r := newRig(t, func(w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "the key a-key blackbird-secret-value")
		})
		_, err := r.Embed(t.Context(), embedding("openai"), []string{"a"})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "blackbird-secret-value")
		require.Equal(t, again, inference.Retriable(err), "%d", status)
		require.Equal(t, budget.Unsent, r.settled[0].Basis)
		require.Equal(t, status == http.StatusUnauthorized, r.refused == 1)
	}
	r := newRig(t, func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"code":400,"details":[{"reason":"API_KEY_INVALID"}]}}`)
	})
	_, err := r.Embed(t.Context(), embedding("gemini"), []string{"a"})
	require.ErrorContains(t, err, "gemini refuses the key", "with this status")
	require.Equal(t, 1, r.refused)
}

// A text is asked for in the format of each provider.
func TestTextsInEachFormat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, answer, most string }{
		"openai":    {"/chat/completions", `{"choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, "max_completion_tokens"},
		"vllm":      {"/chat/completions", `{"choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, "max_tokens"},
		"anthropic": {"/v1/messages", `{"content":[{"type":"thinking"},{"type":"text","text":"hello"}],"usage":{"input_tokens":5,"output_tokens":2}}`, "max_tokens"},
		"gemini":    {"/v1beta/models/m:generateContent", `{"candidates":[{"content":{"parts":[{"text":"x","thought":true},{"text":"hello"}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2}}`, "generationConfig"},
	} {
		r := newRig(t, answers(c.answer))
		said, err := r.Text(t.Context(), inference.Model{OrgID: "org_1", Provider: name, Name: "m"}, inference.Prompt{System: "be brief", Input: "hi blackbird-secret-value", MaxTokens: 9})
		require.NoError(t, err, name)
		require.Equal(t, "hello", said, name)
		require.Equal(t, c.path, r.path, name)
		require.Contains(t, r.body, c.most, name)
		sent, err := json.Marshal(r.body)
		require.NoError(t, err)
		require.NotContains(t, string(sent), "blackbird-secret-value", name)
		require.Equal(t, []budget.Cost{{Basis: budget.Reported, Usage: price.Usage{Input: 5, Output: 2}, Micros: 30, LimitTokens: 7}}, r.settled, name)
	}
	r := newRig(t, answers(`{"choices":[{"message":{"content":""}}]}`))
	_, err := r.Text(t.Context(), inference.Model{OrgID: "org_1", Provider: "openai", Name: "m"}, inference.Prompt{Input: "hi", MaxTokens: 9})
	require.Error(t, err)
}
