package gemini

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	sdk "google.golang.org/genai"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/wire"
)

// ours begins the id of a call that the API gave none: it is not sent back.
const ours = "unnamed_"

// contents is the transcript in the API's form.
func (m *Model) contents(req *model.Request) ([]*sdk.Content, error) {
	if len(req.Messages) == 0 {
		return nil, errors.New("the transcript is empty")
	}
	out := make([]*sdk.Content, 0, len(req.Messages))
	for i, message := range req.Messages {
		if message.Turn != nil {
			parts, err := said(message.Turn)
			if err != nil {
				return nil, fmt.Errorf("message %d of the transcript: %w", i+1, err)
			}
			out = append(out, &sdk.Content{Role: sdk.RoleModel, Parts: parts})
			continue
		}
		var parts, pictures []*sdk.Part
		for _, result := range message.Results {
			key := "output"
			if result.IsError {
				key = "error"
			}
			parts = append(parts, &sdk.Part{FunctionResponse: &sdk.FunctionResponse{
				ID: theirs(result.CallID), Name: result.Calls(), Response: map[string]any{key: wire.ResultText(result, m.sees)},
			}})
			if m.sees && len(result.Images) > 0 {
				pictures = append(pictures, &sdk.Part{Text: wire.ShownWith(result)})
				for _, image := range result.Images {
					pictures = append(pictures, &sdk.Part{InlineData: &sdk.Blob{Data: image.GetData(), MIMEType: image.GetMediaType()}})
				}
			}
		}
		parts = append(parts, pictures...)
		for _, text := range message.Texts() {
			parts = append(parts, &sdk.Part{Text: text})
		}
		if len(parts) == 0 {
			return nil, fmt.Errorf("message %d of the transcript has neither results nor text", i+1)
		}
		out = append(out, &sdk.Content{Role: sdk.RoleUser, Parts: parts})
	}
	return out, nil
}

// theirs returns an id of the API's own, or another model's as it takes it.
func theirs(id string) string {
	if strings.HasPrefix(id, ours) {
		return ""
	}
	return wire.CallID(id)
}

// said is a turn of the model in the form in which the API expects it back:
// without its thoughts, but with their signatures on the parts that they came
// with. A signature's block precedes its part's. Signatures of another provider
// are left out.
func said(turn *deckhandv1.Turn) ([]*sdk.Part, error) {
	var parts []*sdk.Part
	var signature []byte
	add := func(p *sdk.Part) {
		p.ThoughtSignature, signature = signature, nil
		parts = append(parts, p)
	}
	for _, block := range turn.GetBlocks() {
		switch kind := block.GetKind().(type) {
		case *deckhandv1.Block_Text_:
			if text := kind.Text.GetText(); text != "" {
				add(&sdk.Part{Text: text})
			}
		case *deckhandv1.Block_Reasoning_:
			if turn.GetProvider() == Provider && kind.Reasoning.GetSignature() != "" {
				var err error
				if signature, err = base64.StdEncoding.DecodeString(kind.Reasoning.GetSignature()); err != nil {
					return nil, fmt.Errorf("read the signature of a thought: %w", err)
				}
			}
		case *deckhandv1.Block_ToolCall_:
			name, input := wire.Called(kind.ToolCall)
			var args map[string]any
			if err := numbers(input, &args); err != nil {
				return nil, fmt.Errorf("read the arguments of %s: %w", name, err)
			}
			withMarks(args)
			add(&sdk.Part{FunctionCall: &sdk.FunctionCall{ID: theirs(kind.ToolCall.GetId()), Name: name, Args: args}})
		}
	}
	if len(parts) == 0 {
		add(&sdk.Part{Text: wire.NoAnswer})
	}
	return parts, nil
}

var _ model.Model = (*Model)(nil)
