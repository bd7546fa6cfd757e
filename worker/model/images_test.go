package model_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
	"github.com/deckhand-sh/deckhand/worker/model/openai"
)

// Images of a tool's result go where each format takes them: into the result
// itself, or behind all results. A model that cannot see is told of them.
func TestImagesInResults(t *testing.T) {
	t.Parallel()
	picture := &deckhandv1.Image{MediaType: "image/png", Data: []byte("\x89PNG")}
	const encoded = "iVBORw=="
	ask := func(t *testing.T, f modeltest.Format, m model.Model, srv *modeltest.Server) list {
		t.Helper()
		req := request(t)
		req.Messages = append(req.Messages, model.Message{Turn: &deckhandv1.Turn{Provider: "other", Blocks: []*deckhandv1.Block{
			model.CallBlock(&deckhandv1.Block_ToolCall{Id: "call_a", Name: "file_read", ArgumentsJson: `{}`}),
			model.CallBlock(&deckhandv1.Block_ToolCall{Id: "call_b", Name: "file_read", ArgumentsJson: `{}`}),
		}}}, model.Message{Results: []model.Result{
			{CallID: "call_a", Tool: "file_read", Text: "a square", Images: []*deckhandv1.Image{picture}}, {CallID: "call_b", Tool: "file_read", Text: "b"},
		}, Text: "Note: hurry."})
		_, err := m.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		for _, key := range []string{"messages", "input", "contents"} {
			if messages, ok := srv.Requests()[0].Body[key].(list); ok {
				return messages
			}
		}
		t.Fatal("no messages in the request")
		return nil
	}
	ok := modeltest.List(answer(anthropictest.Block{Text: "ok"}))
	const unseen = "[an image, image/png, 4 bytes, which this model cannot be shown]"
	for name, f := range map[string]modeltest.Format{"messages": modeltest.Messages, "responses": modeltest.Responses, "gemini": modeltest.Gemini, "chat": modeltest.Chat} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := modeltest.New(t, ok)
			messages := ask(t, f, modeltest.NewModel(t, f, srv.URL, 0), srv)
			switch f {
			case modeltest.Messages:
				result := messages[2].(object)["content"].(list)[0].(object)
				require.Equal(t, list{
					object{"type": "text", "text": "a square"},
					object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": encoded}},
				}, result["content"])
			case modeltest.Responses:
				require.Equal(t, object{"type": "function_call_output", "call_id": "call_a", "output": list{
					object{"type": "input_text", "text": "a square"}, object{"type": "input_image", "image_url": "data:image/png;base64," + encoded},
				}}, messages[3])
			case modeltest.Gemini:
				parts := messages[2].(object)["parts"].(list)
				require.Len(t, parts, 5)
				require.Contains(t, parts[1].(object), "functionResponse")
				require.Equal(t, object{"text": "What the call call_a of file_read answered, as images:"}, parts[2])
				require.Equal(t, object{"inlineData": object{"mimeType": "image/png", "data": encoded}}, parts[3])
			default: // of a model that nobody knows
				require.Equal(t, object{"role": "tool", "tool_call_id": "call_a", "content": "a square\n" + unseen}, messages[3])
				require.Equal(t, object{"role": "user", "content": "Note: hurry."}, messages[5])
			}
		})
	}
	t.Run("a chat completion of a model that sees", func(t *testing.T) {
		t.Parallel()
		srv := modeltest.New(t, ok)
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		p, _ := provider.Of("qwen")
		m, err := openai.New(openai.Config{Provider: p, BaseURL: srv.URL + "/v1", Key: "k", Model: "qwen3-vl-plus", HTTPClient: &http.Client{Transport: transport}})
		require.NoError(t, err)
		messages := ask(t, modeltest.Chat, m, srv)
		require.Equal(t, object{"role": "tool", "tool_call_id": "call_b", "content": "b"}, messages[4], "all results stand behind their calls")
		require.Equal(t, object{"role": "user", "content": list{
			object{"type": "text", "text": "What the call call_a of file_read answered, as images:"},
			object{"type": "image_url", "image_url": object{"url": "data:image/png;base64," + encoded}},
		}}, messages[5])
		require.Equal(t, object{"role": "user", "content": "Note: hurry."}, messages[6])
	})
}
