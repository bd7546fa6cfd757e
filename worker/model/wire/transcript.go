package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
)

// Transcript keeps the JSON of the messages of the last request, for the next
// one: a conversation grows at its end, and only what is new is encoded. It is
// safe for use by many goroutines; its zero value keeps nothing yet.
type Transcript struct {
	mu   sync.Mutex
	kept []entry
}

// entry is a message and its JSON, nil for one that is nothing.
type entry struct {
	of      identity
	encoded []byte
}

// identity identifies a message: turns and results are never changed.
type identity struct {
	turn   *deckhandv1.Turn
	result *model.Result
	text   string
}

func identify(message model.Message) identity {
	of := identity{turn: message.Turn, text: message.Text}
	if len(message.Results) > 0 {
		of.result = &message.Results[0]
	}
	return of
}

// Encode returns what encode makes of each message, in their order, except for
// what is nothing. It lets go of what is not among them.
func (t *Transcript) Encode(messages []model.Message, encode func(model.Message) ([]byte, error)) ([][]byte, error) {
	t.mu.Lock()
	kept := t.kept
	t.mu.Unlock()
	next, out := make([]entry, len(messages), len(messages)+2), make([][]byte, 0, len(messages)+1)
	// Most messages keep their position. When older ones are replaced by a
	// summary, the remaining ones move.
	var moved map[identity][]byte
	for i, message := range messages {
		of := identify(message)
		var encoded []byte
		var ok bool
		if i < len(kept) && kept[i].of == of {
			encoded, ok = kept[i].encoded, true
		} else if i < len(kept) || moved != nil {
			if moved == nil {
				moved = make(map[identity][]byte, len(kept))
				for _, e := range kept {
					moved[e.of] = e.encoded
				}
			}
			encoded, ok = moved[of]
		}
		if !ok {
			var err error
			if encoded, err = encode(message); err != nil {
				return nil, err
			}
		}
		next[i] = entry{of, encoded}
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
	size := len(head) + len(list) + len(`,"stream":true,"":[]}`)
	for _, item := range items {
		size += len(item) + len(",")
	}
	out := append(make([]byte, 0, size), bytes.TrimSuffix(head, []byte("}"))...)
	out = fmt.Appendf(out, `,"stream":true,%q:[`, list)
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, "]}"...), nil
}
