package anthropictest

import "fmt"

// Events returns the events of one streamed response, in order, without pings.
func Events(model string, number int, a Answer) []map[string]any {
	opening := map[string]any{
		"input_tokens": a.Usage.Input, "output_tokens": 1,
		"cache_creation_input_tokens": a.Usage.CacheWrite, "cache_read_input_tokens": a.Usage.CacheRead,
		"service_tier": "standard",
	}
	out := []map[string]any{{"type": "message_start", "message": map[string]any{
		"id": fmt.Sprintf("msg_%d", number), "type": "message", "role": "assistant", "model": model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": opening,
	}}}
	reason := "end_turn"
	for i, b := range a.Blocks {
		out = append(out, b.events(i, a.Piece)...)
		if b.Tool != "" {
			reason = "tool_use"
		}
	}
	if a.StopReason != "" {
		reason = a.StopReason
	}
	return append(
		out,
		map[string]any{
			"type":  "message_delta",
			"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil},
			"usage": map[string]any{"output_tokens": a.Usage.Output},
		},
		map[string]any{"type": "message_stop"},
	)
}

func (b Block) events(index, piece int) []map[string]any {
	var start map[string]any
	var deltas []map[string]any
	switch {
	case b.Tool != "":
		start = map[string]any{"type": "tool_use", "id": b.ID, "name": b.Tool, "input": map[string]any{}}
		deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": ""})
		for _, piece := range Pieces(b.Input, piece) {
			deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": piece})
		}
	case b.Redacted != "":
		start = map[string]any{"type": "redacted_thinking", "data": b.Redacted}
	case b.Thinking != "" || b.Signature != "":
		start = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
		for _, piece := range Pieces(b.Thinking, piece) {
			deltas = append(deltas, map[string]any{"type": "thinking_delta", "thinking": piece})
		}
		deltas = append(deltas, map[string]any{"type": "signature_delta", "signature": b.Signature})
	default:
		start = map[string]any{"type": "text", "text": ""}
		for _, piece := range Pieces(b.Text, piece) {
			deltas = append(deltas, map[string]any{"type": "text_delta", "text": piece})
		}
	}
	out := []map[string]any{{"type": "content_block_start", "index": index, "content_block": start}}
	for _, delta := range deltas {
		out = append(out, map[string]any{"type": "content_block_delta", "index": index, "delta": delta})
	}
	return append(out, map[string]any{"type": "content_block_stop", "index": index})
}

// Pieces cuts text as a stream does: anywhere but inside a character.
func Pieces(text string, size int) []string {
	if size == 0 {
		size = 7
	}
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}
