// Package inferencetest provides a server with OpenAI's API for tests of what the hub asks
// models. Its embeddings are deterministic: a text's vector counts its words, of which those that
// mean the same count as one. They prove that vectors are made, kept and merged, and say nothing
// of how good a real model is.
package inferencetest

import (
	"encoding/json"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"

	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

// Key is the key that the server takes.
const Key = "sk-inference-test-0123456789"

// Meaning maps words to another word that means the same.
var Meaning = map[string]string{"automobile": "car", "vehicle": "car", "holiday": "leave", "vacation": "leave"}

// Server is a provider of models.
type Server struct {
	*httptest.Server

	mu sync.Mutex
	// Size is how many dimensions vectors have unless a call says, Status the answer instead of
	// vectors and texts, 0 for none, most how many texts a call may have, 0 for any number, and
	// Refuse the word that a text must not have.
	size   int
	status int
	most   int
	refuse string
	answer string
	texts  []string
	calls  int
}

// New starts a server. It ends with the test.
func New(t testing.TB) *Server {
	s := &Server{size: 64}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Model      string   `json:"model"`
			Input      []string `json:"input"`
			Dimensions int      `json:"dimensions"`
		}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&req))
		status, size := s.take(r, req.Input)
		if status != 0 {
			w.WriteHeader(status)
			return
		}
		if req.Dimensions > 0 {
			size = req.Dimensions
		}
		var data []any
		tokens := 0
		for i, text := range req.Input {
			data = append(data, map[string]any{"index": i, "embedding": Vector(req.Model, text, size)})
			tokens += len(words(text))
		}
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"data": data, "usage": map[string]any{"prompt_tokens": tokens}}))
	})
	mux.HandleFunc("GET /v1/models", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []struct {
				Content string `json:"content"`
			} `json:"messages"`
		}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&req))
		var said []string
		for _, m := range req.Messages {
			said = append(said, m.Content)
		}
		if status, _ := s.take(r, said); status != 0 {
			w.WriteHeader(status)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"message": map[string]any{"content": s.answer}}}, "usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 20},
		}))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *Server) take(r *http.Request, texts []string) (status, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if r.Header.Get("Authorization") != "Bearer "+Key {
		return http.StatusUnauthorized, 0
	}
	if s.most > 0 && len(texts) > s.most {
		return http.StatusBadRequest, 0
	}
	for _, text := range texts {
		if s.refuse != "" && strings.Contains(text, s.refuse) {
			return http.StatusBadRequest, 0
		}
	}
	if s.status == 0 {
		s.texts = append(s.texts, texts...)
	}
	return s.status, s.size
}

// Access is the way to the server.
func (s *Server) Access() credential.Access {
	p, _ := provider.Of("compatible")
	return credential.Access{Provider: p, BaseURL: s.URL + "/v1", Key: config.Secret(Key)}
}

// Fail has the server answer with a status of HTTP; 0 for none.
func (s *Server) Fail(status int) { s.set(func() { s.status = status }) }

// Refuse has the server refuse calls with texts that have a word.
func (s *Server) Refuse(word string) { s.set(func() { s.refuse = word }) }

// Limit has the server refuse calls with more texts.
func (s *Server) Limit(texts int) { s.set(func() { s.most = texts }) }

// Resize has vectors have as many dimensions.
func (s *Server) Resize(size int) { s.set(func() { s.size = size }) }

// Answer sets the text that the server answers with.
func (s *Server) Answer(text string) { s.set(func() { s.answer = text }) }

func (s *Server) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// Texts returns the texts that the server has taken since the last call.
func (s *Server) Texts() (out []string) {
	s.set(func() { out, s.texts = s.texts, nil })
	return out
}

// Calls returns how many calls there were.
func (s *Server) Calls() (n int) {
	s.set(func() { n = s.calls })
	return n
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// Vector returns the vector that a model has of a text.
func Vector(model, text string, size int) []float32 {
	out := make([]float32, size)
	out[0] = 0.01 // a text without words has one, too
	for _, word := range words(text) {
		if same := Meaning[word]; same != "" {
			word = same
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(model + " " + word))
		out[h.Sum32()%uint32(size)]++ //nolint:gosec // a size of tests
	}
	return out
}
