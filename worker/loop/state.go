package loop

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/loopguard"
)

// state is what a checkpoint keeps beyond the turns and steps, from which
// everything else follows.
type state struct {
	// Iteration is how many have finished.
	Iteration int32 `json:"iteration"`
	// Opening is the first message, kept so that the transcript stays the same
	// over all attempts.
	Opening string `json:"opening"`
	// Active is the time that workers have spent on the task.
	Active time.Duration `json:"active_ns"`
	// Progress of the last reflection.
	Progress float64 `json:"progress"`
	// Notes are the loop's messages to the model, by the turn after which they
	// were sent.
	Notes map[int32]string `json:"notes,omitempty"`
	// Warned are the limits of which 80 % were reached.
	Warned []string `json:"warned,omitempty"`
	// Summary replaces the oldest turns.
	// The hub reads its up_to: what was told before it is told again.
	Summary summary `json:"summary"`
	// Summaries is how many calls to the model were for summaries, and no turns. The hub
	// counts their tokens with the next turn's.
	Summaries int64 `json:"summaries,omitempty"`
	// Guard watches for circles.
	Guard loopguard.Guard `json:"guard"`
}

func decodeState(checkpoint *deckhandv1.Checkpoint) (state, error) {
	out := state{Notes: map[int32]string{}}
	if checkpoint == nil {
		return out, nil
	}
	data, err := checkpoint.GetState().MarshalJSON()
	if err != nil {
		return out, fmt.Errorf("encode the checkpoint: %w", err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("read the checkpoint of iteration %d: %w", checkpoint.GetIteration(), err)
	}
	if out.Notes == nil {
		out.Notes = map[int32]string{}
	}
	out.Iteration = checkpoint.GetIteration()
	return out, nil
}

func (s state) encode() (*structpb.Struct, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the loop's state: %w", err)
	}
	out := &structpb.Struct{}
	if err := out.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("encode the loop's state: %w", err)
	}
	return out, nil
}

// toStruct makes a payload. What structpb does not take goes through JSON, which
// takes every number and list type there is.
func toStruct(payload map[string]any) *structpb.Struct {
	if out, err := structpb.NewStruct(plain(payload)); err == nil {
		return out
	}
	data, err := json.Marshal(payload)
	out := &structpb.Struct{}
	if err == nil {
		err = out.UnmarshalJSON(data)
	}
	if err != nil {
		out, _ = structpb.NewStruct(map[string]any{"payload_error": err.Error()})
	}
	return out
}

// plain returns a payload with its lists of texts as lists of anything.
func plain(payload map[string]any) map[string]any {
	out := make(map[string]any, len(payload))
	for k, v := range payload {
		switch v := v.(type) {
		case []string:
			list := make([]any, len(v))
			for i, text := range v {
				list[i] = text
			}
			out[k] = list
		case map[string]any:
			out[k] = plain(v)
		default:
			out[k] = v
		}
	}
	return out
}
