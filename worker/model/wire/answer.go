package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// MaxAnswer limits the size of one response, in bytes.
const MaxAnswer = 8 << 20

// Answer assembles a turn from the pieces of its stream. Visible pieces are
// passed to Sink, which may be nil.
type Answer struct {
	Sink model.Sink

	blocks []*Block
	size   int
}

// Block is one block that is being put together. Set one of Reasoning and Call
// for other than text; their own text is left empty.
type Block struct {
	Reasoning *deckhandv1.Block_Reasoning
	Call      *deckhandv1.Block_ToolCall

	text strings.Builder
}

// Open adds a block.
func (a *Answer) Open(b *Block) *Block {
	a.blocks = append(a.blocks, b)
	return b
}

// Last returns the last block, or nil if there is none.
func (a *Answer) Last() *Block {
	if len(a.blocks) == 0 {
		return nil
	}
	return a.blocks[len(a.blocks)-1]
}

// IsText reports whether a block is text that people read.
func (b *Block) IsText() bool { return b != nil && b.Reasoning == nil && b.Call == nil }

// Add makes a block longer. What a tool is called with is not shown.
func (a *Answer) Add(b *Block, text string) error {
	a.size += len(text)
	if a.size > MaxAnswer {
		return fmt.Errorf("the answer is longer than %d bytes", MaxAnswer)
	}
	b.text.WriteString(text)
	if b.Call == nil && text != "" && a.Sink != nil {
		a.Sink(model.Delta{Text: text})
	}
	return nil
}

// AppendText adds visible text to the last block, or to a new one.
func (a *Answer) AppendText(text string) error {
	b := a.Last()
	if !b.IsText() {
		b = a.Open(&Block{})
	}
	return a.Add(b, text)
}

// Think adds reasoning to the last block, or to a new one.
func (a *Answer) Think(text string) error {
	b := a.Last()
	if b == nil || b.Reasoning == nil || b.Reasoning.GetSignature() != "" {
		b = a.Open(&Block{Reasoning: &deckhandv1.Block_Reasoning{}})
	}
	return a.Add(b, text)
}

// Calls reports whether a tool is called.
func (a *Answer) Calls() bool {
	for _, b := range a.blocks {
		if b.Call != nil {
			return true
		}
	}
	return false
}

// Blocks returns the blocks of the turn. Arguments are kept as the model wrote
// them, even if they are not JSON: the model is told what is wrong with them.
func (a *Answer) Blocks() []*deckhandv1.Block {
	out := make([]*deckhandv1.Block, 0, len(a.blocks))
	for _, b := range a.blocks {
		text := b.text.String()
		switch {
		case b.Reasoning != nil:
			b.Reasoning.Text = text
			out = append(out, model.ReasoningBlock(b.Reasoning))
		case b.Call != nil:
			if b.Call.ArgumentsJson = text; strings.TrimSpace(text) == "" {
				b.Call.ArgumentsJson = "{}" // a call without arguments may stream none
			}
			out = append(out, model.CallBlock(b.Call))
		default:
			out = append(out, model.TextBlock(text))
		}
	}
	return out
}

// CallInput returns a call's arguments as a JSON object. APIs take no other
// input back, so arguments that were no JSON object are quoted in one.
func CallInput(arguments string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) == nil && object != nil {
		return json.RawMessage(arguments)
	}
	quoted, _ := json.Marshal(map[string]string{"_not_a_json_object": arguments}) // strings always marshal
	return quoted
}

// Called returns the tool that the model called itself and its arguments, as the API
// wants them back. A call through another tool is written as that tool's.
func Called(call *deckhandv1.Block_ToolCall) (name string, input json.RawMessage) {
	input = CallInput(call.GetArgumentsJson())
	if call.GetVia() == "" {
		return call.GetName(), input
	}
	wrapped, _ := json.Marshal(Via{Tool: call.GetName(), Arguments: input}) // JSON always marshals
	return call.GetVia(), wrapped
}

// Via is the arguments of a tool through which another one is called.
type Via struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// Schema returns a tool's schema, the same bytes each time.
func Schema(tool *deckhandv1.Tool) json.RawMessage {
	schema := tool.GetInputSchema().AsMap()
	if schema["properties"] == nil {
		schema["properties"] = map[string]any{}
	}
	schema["type"] = "object"
	data, _ := json.Marshal(schema) // of JSON, so JSON
	return data
}

// NoOutput and NoAnswer replace empty text, which some APIs reject.
const (
	NoOutput = "(no output)"
	NoAnswer = "(no answer)"
)

// OrElse returns text, or instead if text is empty.
func OrElse(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

// callID is what every API takes as the id of a call.
var callID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// CallID returns the id of a call as an API takes it that did not give it
// itself: as it is where it fits, and another that follows from it otherwise.
func CallID(id string) string {
	if callID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// shortCallID is how Mistral wants its ids.
var shortCallID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// ShortCallID is CallID for an API that wants nine letters and digits.
func ShortCallID(id string) string {
	if shortCallID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}
