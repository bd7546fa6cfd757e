package inference

import (
	"context"
	"encoding/json"
	"math"
	"net/url"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
)

// MaxDimensions is how many a vector has at most.
const MaxDimensions = 4096

// Embedding is a model that turns texts into vectors.
type Embedding struct {
	Model

	// Dimensions is how many the vectors are asked to have; 0 for as many as the model has.
	Dimensions int32
	// Question reports that the texts are questions, and not documents: some models embed them
	// in different ways.
	Question bool
}

// Embed returns the vector of each text, of length 1, so that their product is their
// likeness. All have as many dimensions.
func (m *Models) Embed(ctx context.Context, of Embedding, texts []string) (vectors [][]float32, err error) {
	p, _ := provider.Of(of.Provider)
	masked := make([]string, len(texts))
	for i, text := range texts {
		// An empty text is an error of some providers.
		if masked[i] = m.cfg.Redact.Org(of.OrgID).String(text); strings.TrimSpace(masked[i]) == "" {
			masked[i] = "-"
		}
	}
	var c call
	var read func(answer []byte) ([][]float32, used, error)
	switch p.Format {
	case provider.OpenAI:
		c, read = openaiEmbedding(of, masked)
	case provider.Gemini:
		c, read = geminiEmbedding(of, masked)
	default:
		return nil, fault.New(fault.Invalid, "provider %.60q has no models for embeddings that the hub can call", of.Provider).WithCode(fault.InvalidParameters).
			WithFix("use one with the API of OpenAI or Gemini, such as openai, gemini, mistral, ollama or vllm")
	}
	err = m.send(ctx, of.Model, c, func(answer []byte) (u used, err error) {
		if vectors, u, err = read(answer); err != nil {
			return u, err
		}
		return u, checkVectors(of, vectors, len(texts))
	})
	if err != nil {
		return nil, err
	}
	return vectors, nil
}

// openaiEmbedding is https://platform.openai.com/docs/api-reference/embeddings.
func openaiEmbedding(of Embedding, texts []string) (call, func([]byte) ([][]float32, used, error)) {
	body := map[string]any{"model": of.Name, "input": texts, "encoding_format": "float"}
	if of.Dimensions > 0 {
		body["dimensions"] = of.Dimensions
	}
	return call{path: "/embeddings", body: body}, func(answer []byte) ([][]float32, used, error) {
		var got struct {
			Data []struct {
				Index     *int      `json:"index"`
				Embedding []float32 `json:"embedding"`
			} `json:"data"`
			Usage struct {
				Prompt *int64 `json:"prompt_tokens"`
			} `json:"usage"`
		}
		if json.Unmarshal(answer, &got) != nil {
			return nil, used{-1, -1}, strange(of.Model, "it has no vectors")
		}
		out := make([][]float32, len(got.Data))
		for i, one := range got.Data {
			at := i
			if one.Index != nil {
				at = *one.Index
			}
			if at < 0 || at >= len(out) || out[at] != nil {
				return nil, used{-1, -1}, strange(of.Model, "its vectors are not numbered")
			}
			out[at] = one.Embedding
		}
		u := used{-1, 0}
		if got.Usage.Prompt != nil {
			u.input = *got.Usage.Prompt
		}
		return out, u, nil
	}
}

// geminiEmbedding is https://ai.google.dev/api/embeddings.
func geminiEmbedding(of Embedding, texts []string) (call, func([]byte) ([][]float32, used, error)) {
	kind := "RETRIEVAL_DOCUMENT"
	if of.Question {
		kind = "RETRIEVAL_QUERY"
	}
	requests := make([]map[string]any, len(texts))
	for i, text := range texts {
		requests[i] = map[string]any{"model": "models/" + of.Name, "content": map[string]any{"parts": []any{map[string]any{"text": text}}}, "taskType": kind}
		if of.Dimensions > 0 {
			requests[i]["outputDimensionality"] = of.Dimensions
		}
	}
	return call{path: "/v1beta/models/" + url.PathEscape(of.Name) + ":batchEmbedContents", body: map[string]any{"requests": requests}}, func(answer []byte) ([][]float32, used, error) {
		var got struct {
			Embeddings []struct {
				Values []float32 `json:"values"`
			} `json:"embeddings"`
		}
		if json.Unmarshal(answer, &got) != nil {
			return nil, used{-1, -1}, strange(of.Model, "it has no vectors")
		}
		out := make([][]float32, len(got.Embeddings))
		for i, one := range got.Embeddings {
			out[i] = one.Values
		}
		return out, used{-1, -1}, nil // it does not say
	}
}

// checkVectors scales vectors to the length 1. It returns an error if one is empty, too long, of
// another size than the first, or has a length that is 0 or not finite.
func checkVectors(of Embedding, vectors [][]float32, want int) error {
	if len(vectors) != want {
		return strange(of.Model, "it has %d vectors for %d texts", len(vectors), want)
	}
	for _, v := range vectors {
		if len(v) == 0 || len(v) > MaxDimensions || len(v) != len(vectors[0]) {
			return strange(of.Model, "a vector has %d dimensions", len(v))
		}
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
			return strange(of.Model, "a vector has no length")
		}
		for i := range v {
			v[i] = float32(float64(v[i]) / math.Sqrt(sum))
		}
	}
	return nil
}
