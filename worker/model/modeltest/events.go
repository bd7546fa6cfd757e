package modeltest

import (
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// chat are the chunks of a chat completion.
func chat(r Request, a Answer) []string {
	chunk := func(delta any, finish any) string {
		return line(object(map[string]any{
			"id": fmt.Sprintf("chatcmpl-%d", r.Number), "object": "chat.completion.chunk", "created": 1, "model": r.Body["model"],
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}, "usage": nil,
		}))
	}
	out := []string{chunk(map[string]any{"role": "assistant", "content": ""}, nil)}
	calls := 0
	for _, b := range a.Blocks {
		switch {
		case b.Tool != "":
			call := func(function map[string]any, id any) any {
				c := map[string]any{"index": calls, "function": function}
				if id != nil {
					c["id"], c["type"] = id, "function"
				}
				return map[string]any{"tool_calls": []any{c}}
			}
			out = append(out, chunk(call(map[string]any{"name": b.Tool, "arguments": ""}, b.ID), nil))
			for _, piece := range anthropictest.Pieces(b.Input, a.Piece) {
				out = append(out, chunk(call(map[string]any{"arguments": piece}, nil), nil))
			}
			calls++
		case b.Thinking != "":
			for _, piece := range anthropictest.Pieces(b.Thinking, a.Piece) {
				out = append(out, chunk(map[string]any{"reasoning_content": piece}, nil))
			}
		default:
			for _, piece := range anthropictest.Pieces(b.Text, a.Piece) {
				out = append(out, chunk(map[string]any{"content": piece}, nil))
			}
		}
	}
	out = append(out, chunk(map[string]any{}, reason(a, "tool_calls", "stop",
		map[string]string{"max_tokens": "length", "refusal": "content_filter", "end_turn": "stop"})))
	if !a.Silent {
		out = append(out, line(object(map[string]any{
			"id": fmt.Sprintf("chatcmpl-%d", r.Number), "object": "chat.completion.chunk", "created": 1, "model": r.Body["model"], "choices": []any{},
			"usage": map[string]any{
				"prompt_tokens": a.Usage.Input + a.Usage.CacheRead, "completion_tokens": a.Usage.Output,
				"total_tokens":          a.Usage.Input + a.Usage.CacheRead + a.Usage.Output,
				"prompt_tokens_details": map[string]any{"cached_tokens": a.Usage.CacheRead},
			},
		})))
	}
	return append(out, line("[DONE]"))
}

// responses are the events of a response.
func responses(r Request, a Answer) []string {
	var out []string
	event := func(kind string, fields map[string]any) {
		e := map[string]any{"type": kind, "sequence_number": len(out)}
		for k, v := range fields {
			e[k] = v
		}
		out = append(out, named(e))
	}
	state := func(status string) map[string]any {
		return map[string]any{"id": fmt.Sprintf("resp_%d", r.Number), "object": "response", "model": r.Body["model"], "status": status, "output": []any{}}
	}
	event("response.created", map[string]any{"response": state("in_progress")})
	for i, b := range a.Blocks {
		var item map[string]any
		delta, text := "response.output_text.delta", b.Text
		switch {
		case b.Tool != "":
			delta, text = "response.function_call_arguments.delta", b.Input
			item = map[string]any{"type": "function_call", "id": "fc_" + b.ID, "call_id": b.ID, "name": b.Tool, "arguments": b.Input, "status": "completed"}
		case b.Thinking != "" || b.Redacted != "":
			delta, text = "response.reasoning_summary_text.delta", b.Thinking
			item = map[string]any{
				"type": "reasoning", "id": b.Signature, "encrypted_content": b.Redacted,
				"summary": []any{map[string]any{"type": "summary_text", "text": b.Thinking}},
			}
		case a.StopReason == "refusal":
			delta = "response.refusal.delta"
			item = map[string]any{"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": []any{
				map[string]any{"type": "refusal", "refusal": b.Text},
			}}
		default:
			item = map[string]any{"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": []any{
				map[string]any{"type": "output_text", "text": b.Text, "annotations": []any{}},
			}}
		}
		event("response.output_item.added", map[string]any{"output_index": i, "item": map[string]any{"type": item["type"], "id": item["id"]}})
		for _, piece := range anthropictest.Pieces(text, a.Piece) {
			event(delta, map[string]any{"output_index": i, "delta": piece})
		}
		event("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	end := state("completed")
	kind := "response.completed"
	if a.StopReason == "max_tokens" {
		kind, end["status"] = "response.incomplete", "incomplete"
		end["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	}
	if !a.Silent {
		end["usage"] = map[string]any{
			"input_tokens": a.Usage.Input + a.Usage.CacheRead, "output_tokens": a.Usage.Output,
			"input_tokens_details": map[string]any{"cached_tokens": a.Usage.CacheRead},
		}
	}
	event(kind, map[string]any{"response": end})
	return out
}

// gemini are the chunks of generated content. Calls come whole, and what is no
// JSON cannot come at all: the API says so instead of it.
func gemini(a Answer) []string {
	var out []string
	finish := reason(a, "STOP", "STOP", map[string]string{"max_tokens": "MAX_TOKENS", "refusal": "SAFETY", "end_turn": "STOP"})
	chunk := func(parts []any, finish string) {
		candidate := map[string]any{"index": 0}
		if len(parts) > 0 {
			candidate["content"] = map[string]any{"role": "model", "parts": parts}
		}
		e := map[string]any{"candidates": []any{candidate}, "modelVersion": "gemini-test", "responseId": "r"}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		if !a.Silent {
			u := map[string]any{"promptTokenCount": a.Usage.Input + a.Usage.CacheRead, "cachedContentTokenCount": a.Usage.CacheRead}
			if finish != "" {
				u["candidatesTokenCount"] = a.Usage.Output
			}
			e["usageMetadata"] = u
		}
		out = append(out, line(object(e)))
	}
	signature := ""
	sign := func(part map[string]any) []any {
		if signature != "" {
			part["thoughtSignature"], signature = signature, ""
		}
		return []any{part}
	}
	for _, b := range a.Blocks {
		switch {
		case b.Tool != "":
			args := json.RawMessage(b.Input)
			if b.Input == "" {
				args = json.RawMessage("{}")
			}
			if !json.Valid(args) {
				finish = "MALFORMED_FUNCTION_CALL"
				continue
			}
			call := map[string]any{"name": b.Tool, "args": args}
			if b.ID != "" {
				call["id"] = b.ID
			}
			chunk(sign(map[string]any{"functionCall": call}), "")
		case b.Thinking != "" || b.Signature != "":
			for _, piece := range anthropictest.Pieces(b.Thinking, a.Piece) {
				chunk([]any{map[string]any{"text": piece, "thought": true}}, "")
			}
			signature = b.Signature
		default:
			for _, piece := range anthropictest.Pieces(b.Text, a.Piece) {
				chunk(sign(map[string]any{"text": piece}), "")
			}
		}
	}
	chunk(nil, finish)
	return out
}
