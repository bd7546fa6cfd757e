package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// Transcript keeps the JSON of the messages of the last request, for the next
// one: a conversation grows at its end, and only what is new is encoded. It is
// safe for use by many goroutines; its zero value keeps nothing yet.
type Transcript struct {
	mu   sync.Mutex
	kept map[entry][]byte
}

// entry tells messages apart: turns and results are never changed.
type entry struct {
	turn   *deckhandv1.Turn
	result *model.Result
	text   string
}

// Encode answers what encode makes of each message, in their order, but for
// what is nothing. It lets go of what is not among them.
func (t *Transcript) Encode(messages []model.Message, encode func(model.Message) ([]byte, error)) ([][]byte, error) {
	t.mu.Lock()
	kept := t.kept
	t.mu.Unlock()
	next, out := make(map[entry][]byte, len(messages)), make([][]byte, 0, len(messages)+1)
	for _, message := range messages {
		of := entry{turn: message.Turn, text: message.Text}
		if len(message.Results) > 0 {
			of.result = &message.Results[0]
		}
		encoded, ok := kept[of]
		if !ok {
			var err error
			if encoded, err = encode(message); err != nil {
				return nil, err
			}
		}
		next[of] = encoded
		if len(encoded) > 0 {
			out = append(out, encoded)
		}
	}
	t.mu.Lock()
	t.kept = next
	t.mu.Unlock()
	return out, nil
}

// Items encodes values as JSON, with commas between them.
func Items[T json.Marshaler](values ...T) ([]byte, error) {
	encoded := make([][]byte, 0, len(values))
	for _, value := range values {
		data, err := value.MarshalJSON()
		if err != nil {
			return nil, err
		}
		encoded = append(encoded, data)
	}
	return bytes.Join(encoded, []byte(",")), nil
}

// Body is the JSON of a streaming request: the parameters, which have at least
// one field, and a list of Items that they have not.
func Body(params json.Marshaler, list string, items [][]byte) ([]byte, error) {
	head, err := params.MarshalJSON()
	if err != nil {
		return nil, err
	}
	head = bytes.TrimSuffix(head, []byte("}"))
	return slices.Concat(head, fmt.Appendf(nil, `,"stream":true,%q:[`, list), bytes.Join(items, []byte(",")), []byte("]}")), nil
}
