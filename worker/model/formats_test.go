package model_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quick(m model.Model) model.Model {
	return model.WithRetries(m, model.RetryConfig{Backoff: backoff.Policy{Base: time.Millisecond, Max: time.Millisecond}})
}

func request(t *testing.T) *model.Request {
	t.Helper()
	schema, err := structpb.NewStruct(map[string]any{
		"type": "object", "required": []any{"path"}, "additionalProperties": false,
		"properties": map[string]any{"path": map[string]any{"type": "string"}},
	})
	require.NoError(t, err)
	return &model.Request{
		System: "Be brief.", Messages: []model.Message{{Text: "Go."}}, MaxTokens: 4096, Thinking: persona.Thinking{Tokens: 2048},
		Tools: []*deckhandv1.Tool{{Name: "file_read", Description: "Reads", InputSchema: schema}},
	}
}

func answer(blocks ...anthropictest.Block) modeltest.Answer {
	return modeltest.Answer{Answer: anthropictest.Answer{Blocks: blocks, Usage: anthropictest.Usage{Input: 1234, Output: 567, CacheRead: 89}}}
}

// everything is a thought, text and three calls at once.
func everything() modeltest.Answer {
	return answer(
		anthropictest.Block{Thinking: "Let me thínk.", Signature: "c2lnbmF0dXJl", Redacted: ""},
		anthropictest.Block{Text: "I read, ünd so on."},
		anthropictest.Block{Tool: "file_read", ID: "call_a", Input: `{"path":"a/long/path"}`},
		anthropictest.Block{Tool: "file_read", ID: "call_b", Input: `{"path":"b"}`},
		anthropictest.Block{Tool: "file_read", ID: "call_c"},
	)
}

func each(t *testing.T, fn func(t *testing.T, f modeltest.Format)) {
	t.Helper()
	for name, f := range modeltest.Formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, f)
		})
	}
}

// Text, reasoning and parallel calls stream in, with usage to the token.
func TestAStreamedTurnArrivesWhole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f modeltest.Format) {
		srv := modeltest.New(t, modeltest.List(everything()))
		var streamed strings.Builder
		turn, err := modeltest.NewModel(t, f, srv.URL, 0).Generate(t.Context(), request(t), func(d model.Delta) { streamed.WriteString(d.Text) })
		require.NoError(t, err)
		require.Equal(t, "Let me thínk.I read, ünd so on.", streamed.String())
		require.Equal(t, modeltest.Served[f][0], turn.GetProvider())
		require.Equal(t, model.StopToolUse, turn.GetStopReason())
		require.True(t, proto.Equal(&deckhandv1.Usage{InputTokens: 1234, OutputTokens: 567, CacheReadTokens: 89}, turn.GetUsage()), "%v", turn.GetUsage())
		var text, thought string
		for _, b := range turn.GetBlocks() {
			text += b.GetText().GetText()
			thought += b.GetReasoning().GetText()
		}
		require.Equal(t, "I read, ünd so on.", text)
		require.Equal(t, "Let me thínk.", thought)
		calls := model.Calls(turn)
		require.Len(t, calls, 3)
		for i, want := range []string{`{"path":"a/long/path"}`, `{"path":"b"}`, `{}`} {
			require.Equal(t, "call_"+string(rune('a'+i)), calls[i].GetId())
			require.Equal(t, "file_read", calls[i].GetName())
			require.JSONEq(t, want, calls[i].GetArgumentsJson())
		}
	})
}

// conversation is what follows a turn: its results, a turn of another provider
// and a word more.
func conversation(t *testing.T, first *deckhandv1.Turn) *model.Request {
	t.Helper()
	req := request(t)
	var results []model.Result
	for i, call := range model.Calls(first) {
		results = append(results, model.Result{CallID: call.GetId(), Tool: call.GetName(), Text: []string{"content", "no such file", ""}[i], IsError: i == 1})
	}
	foreign := &deckhandv1.Turn{Provider: "other", Blocks: []*deckhandv1.Block{
		model.ReasoningBlock(&deckhandv1.Block_Reasoning{Text: "not for you", Signature: "eA==", Redacted: "sealed elsewhere"}),
		model.CallBlock(&deckhandv1.Block_ToolCall{Id: "call_d", Name: "file_read", ArgumentsJson: `{"path": "d"`}),
	}}
	req.Messages = append(req.Messages, model.Message{Turn: first}, model.Message{Results: results, Text: "Note: hurry."},
		model.Message{Turn: foreign}, model.Message{Results: []model.Result{{CallID: "call_d", Tool: "file_read", Text: "not JSON", IsError: true}}},
		model.Message{Turn: &deckhandv1.Turn{Provider: "other"}}, model.Message{Text: "Go on."})
	return req
}

type (
	object = map[string]any
	list   = []any
)

var schema = object{
	"type": "object", "required": list{"path"}, "additionalProperties": false,
	"properties": object{"path": object{"type": "string"}},
}

func second(t *testing.T, f modeltest.Format, first modeltest.Answer) object {
	t.Helper()
	srv := modeltest.New(t, modeltest.List(first, answer(anthropictest.Block{Text: "ok"})))
	m := modeltest.NewModel(t, f, srv.URL, 0)
	turn, err := m.Generate(t.Context(), request(t), nil)
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), conversation(t, turn), nil)
	require.NoError(t, err)
	got := srv.Requests()[1]
	require.Contains(t, fmt.Sprint(got.Header), "key-of-the-test")
	require.NotContains(t, got.Text, "not for you", "another provider's thoughts stay out")
	require.NotContains(t, got.Text, "sealed elsewhere")
	return got.Body
}

func TestTheRequestOfAChatCompletion(t *testing.T) {
	t.Parallel()
	body := second(t, modeltest.Chat, everything())
	call := func(id, arguments string) object {
		return object{"id": id, "type": "function", "function": object{"name": "file_read", "arguments": arguments}}
	}
	require.Equal(t, object{
		"model": "qwen3", "max_tokens": 4096.0, "stream": true,
		"tools": list{object{"type": "function", "function": object{"name": "file_read", "description": "Reads", "parameters": schema}}},
		"messages": list{
			object{"role": "system", "content": "Be brief."},
			object{"role": "user", "content": "Go."},
			object{"role": "assistant", "content": "I read, ünd so on.", "tool_calls": list{
				call("call_a", `{"path":"a/long/path"}`), call("call_b", `{"path":"b"}`), call("call_c", `{}`),
			}},
			object{"role": "tool", "tool_call_id": "call_a", "content": "content"},
			object{"role": "tool", "tool_call_id": "call_b", "content": "error: no such file"},
			object{"role": "tool", "tool_call_id": "call_c", "content": "(no output)"},
			object{"role": "user", "content": "Note: hurry."},
			object{"role": "assistant", "tool_calls": list{call("call_d", `{"_not_a_json_object":"{\"path\": \"d\""}`)}},
			object{"role": "tool", "tool_call_id": "call_d", "content": "error: not JSON"},
			object{"role": "assistant", "content": "(no answer)"},
			object{"role": "user", "content": "Go on."},
		},
	}, body)
}

// The sealed thought of a response goes back with its id and its summary.
func TestTheRequestOfAResponse(t *testing.T) {
	t.Parallel()
	first := everything()
	first.Blocks[0] = anthropictest.Block{Thinking: "Let me think.", Signature: "rs_1", Redacted: "sealed"}
	body := second(t, modeltest.Responses, first)
	call := func(id, arguments string) object {
		return object{"type": "function_call", "call_id": id, "name": "file_read", "arguments": arguments}
	}
	output := func(id, text string) object {
		return object{"type": "function_call_output", "call_id": id, "output": text}
	}
	require.Equal(t, object{
		"model": "gpt-5", "max_output_tokens": 4096.0, "stream": true, "store": false, "instructions": "Be brief.",
		"include": list{"reasoning.encrypted_content"}, "reasoning": object{"effort": "low", "summary": "auto"},
		"tools": list{object{"type": "function", "name": "file_read", "description": "Reads", "parameters": schema, "strict": false}},
		"input": list{
			object{"role": "user", "content": "Go."},
			object{"type": "reasoning", "id": "rs_1", "encrypted_content": "sealed", "summary": list{object{"type": "summary_text", "text": "Let me think."}}},
			object{"role": "assistant", "content": "I read, ünd so on."},
			call("call_a", `{"path":"a/long/path"}`), call("call_b", `{"path":"b"}`), call("call_c", `{}`),
			output("call_a", "content"), output("call_b", "error: no such file"), output("call_c", "(no output)"),
			object{"role": "user", "content": "Note: hurry."},
			call("call_d", `{"_not_a_json_object":"{\"path\": \"d\""}`), output("call_d", "error: not JSON"),
			object{"role": "assistant", "content": "(no answer)"},
			object{"role": "user", "content": "Go on."},
		},
	}, body)
}

// A signature of Gemini's goes back on the part that it came with, and the
// thought itself does not.
func TestTheRequestOfGemini(t *testing.T) {
	t.Parallel()
	first := everything()
	first.Blocks[0], first.Blocks[1] = first.Blocks[1], first.Blocks[0] // text, then a thought before the calls
	first.Blocks[4].ID = ""                                             // older models name no call
	body := second(t, modeltest.Gemini, first)
	call := func(id string, args object) object {
		out := object{"name": "file_read"}
		if len(args) > 0 {
			out["args"] = args
		}
		if id != "" {
			out["id"] = id
		}
		return object{"functionCall": out}
	}
	output := func(id, key, text string) object {
		out := object{"name": "file_read", "response": object{key: text}}
		if id != "" {
			out["id"] = id
		}
		return object{"functionResponse": out}
	}
	signed := call("call_a", object{"path": "a/long/path"})
	signed["thoughtSignature"] = "c2lnbmF0dXJl"
	require.Equal(t, object{
		"systemInstruction": object{"role": "user", "parts": list{object{"text": "Be brief."}}},
		"generationConfig":  object{"maxOutputTokens": 4096.0, "thinkingConfig": object{"includeThoughts": true, "thinkingBudget": 2048.0}},
		"tools":             list{object{"functionDeclarations": list{object{"name": "file_read", "description": "Reads", "parametersJsonSchema": schema}}}},
		"contents": list{
			object{"role": "user", "parts": list{object{"text": "Go."}}},
			object{"role": "model", "parts": list{object{"text": "I read, ünd so on."}, signed, call("call_b", object{"path": "b"}), call("", nil)}},
			object{"role": "user", "parts": list{
				output("call_a", "output", "content"), output("call_b", "error", "no such file"), output("", "output", "(no output)"),
				object{"text": "Note: hurry."},
			}},
			object{"role": "model", "parts": list{call("call_d", object{"_not_a_json_object": `{"path": "d"`})}},
			object{"role": "user", "parts": list{output("call_d", "error", "not JSON")}},
			object{"role": "model", "parts": list{object{"text": "(no answer)"}}},
			object{"role": "user", "parts": list{object{"text": "Go on."}}},
		},
	}, body)
}

// An integer that floating point has no room for arrives as it was written, and
// goes back so.
func TestLargeIntegersStayExact(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f modeltest.Format) {
		const arguments = `{"path":"9007199254740993","id":9007199254740993,"list":[-12345678901234567890,1.5,7],"of":{"n":36028797018963969}}`
		srv := modeltest.New(t, modeltest.List(answer(anthropictest.Block{Tool: "file_read", ID: "a", Input: arguments}), answer(anthropictest.Block{Text: "ok"})))
		m := modeltest.NewModel(t, f, srv.URL, 0)
		turn, err := m.Generate(t.Context(), request(t), nil)
		require.NoError(t, err)
		got := model.Calls(turn)[0].GetArgumentsJson()
		for _, n := range []string{`"path":"9007199254740993"`, `"id":9007199254740993`, `[-12345678901234567890,1.5,7]`, `"n":36028797018963969`} {
			require.Contains(t, got, n)
		}
		req := request(t)
		req.Messages = append(req.Messages, model.Message{Turn: turn}, model.Message{Results: []model.Result{{CallID: "a", Tool: "file_read", Text: "9007199254740993"}}})
		_, err = m.Generate(t.Context(), req, nil)
		require.NoError(t, err)
		sent := strings.ReplaceAll(srv.Requests()[1].Text, `\"`, `"`)
		for _, n := range []string{`"id":9007199254740993`, `[-12345678901234567890,1.5,7]`, `"n":36028797018963969`} {
			require.Contains(t, strings.ReplaceAll(sent, " ", ""), n)
		}
	})
}

// A stream that dies at any event, also in the middle of a tool call, is no
// turn; the retry gives the whole one, and the sink is told to begin again.
func TestAStreamThatDiesAnywhereIsAskedForAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f modeltest.Format) {
		for after := 1; ; after++ {
			broken := everything()
			broken.Break = after
			srv := modeltest.New(t, modeltest.List(broken, everything()))
			text, restarts := "", 0
			turn, err := quick(modeltest.NewModel(t, f, srv.URL, 0)).Generate(t.Context(), request(t), func(d model.Delta) {
				if d.Restart {
					text, restarts = "", restarts+1
				}
				text += d.Text
			})
			require.NoError(t, err, "after %d", after)
			require.Len(t, model.Calls(turn), 3)
			require.Equal(t, "Let me thínk.I read, ünd so on.", text)
			if len(srv.Requests()) == 1 {
				require.Zero(t, restarts)
				require.Greater(t, after, 5)
				return // the break lies behind the end of the answer
			}
			require.Equal(t, 1, restarts)
		}
	})
}

func TestAStreamThatStallsIsGivenUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f modeltest.Format) {
		stalled := everything()
		stalled.Break, stalled.Stall = 4, true
		srv := modeltest.New(t, modeltest.List(stalled))
		_, err := modeltest.NewModel(t, f, srv.URL, 100*time.Millisecond).Generate(t.Context(), request(t), nil)
		e := model.AsError(err)
		require.NotNil(t, e, "%v", err)
		require.Equal(t, model.Unavailable, e.Kind)
		require.ErrorContains(t, e, "nothing came for 100ms")
	})
}

func TestACancelledCallAnswersItsCause(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f modeltest.Format) {
		stalled := everything()
		stalled.Break, stalled.Stall = 4, true
		srv := modeltest.New(t, modeltest.List(stalled))
		cause := errors.New("the lease is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := quick(modeltest.NewModel(t, f, srv.URL, 0)).Generate(ctx, request(t), func(model.Delta) { cancel(cause) })
		require.ErrorIs(t, err, cause)
		require.Len(t, srv.Requests(), 1)
	})
}

// Each format has words of its own for what went wrong.
func TestErrorsAreTyped(t *testing.T) {
	t.Parallel()
	fail := func(status int, kind, message string) modeltest.Answer {
		return modeltest.Answer{Answer: anthropictest.Answer{Status: status, ErrorType: kind, ErrorMessage: message}}
	}
	with := func(a modeltest.Answer, header, value string) modeltest.Answer {
		a.Header = map[string]string{header: value}
		return a
	}
	broken := func(kind string) modeltest.Answer {
		a := everything()
		a.Break, a.ErrorType, a.ErrorMessage = 3, kind, "broken"
		return a
	}
	raw := func(text string) modeltest.Answer { return modeltest.Answer{Raw: text} }
	openAI := []modeltest.Format{modeltest.Chat, modeltest.Responses}
	google := []modeltest.Format{modeltest.Gemini}
	for name, tc := range map[string]struct {
		formats []modeltest.Format
		answer  modeltest.Answer
		kind    model.ErrorKind
		code    fault.Code
		after   time.Duration
	}{
		"a wrong key":        {openAI, fail(401, "invalid_api_key", "Incorrect API key provided"), model.Auth, fault.CredentialInvalid, 0},
		"no right":           {openAI, fail(403, "", "no"), model.Auth, fault.CredentialInvalid, 0},
		"no credit":          {openAI, fail(429, "insufficient_quota", "You exceeded your current quota"), model.Quota, fault.BudgetLimit, 0},
		"too many calls":     {openAI, with(fail(429, "rate_limit_exceeded", "slow"), "Retry-After", "7"), model.RateLimit, fault.RateLimited, 7 * time.Second},
		"too many, no hint":  {openAI, fail(429, "", "slow"), model.RateLimit, fault.RateLimited, 0},
		"a fault of theirs":  {openAI, fail(500, "server_error", "oops"), model.Unavailable, fault.ModelUnavailable, 0},
		"an overload":        {openAI, fail(503, "", "busy"), model.Overloaded, fault.ModelUnavailable, 0},
		"an overload as 529": {openAI, fail(529, "", "busy"), model.Overloaded, fault.ModelUnavailable, 0},
		"a long prompt":      {openAI, fail(400, "context_length_exceeded", "too long"), model.ContextTooLong, fault.ContextTooLarge, 0},
		"a long prompt, in words": {
			openAI, fail(400, "BadRequestError", "This model's maximum context length is 4096 tokens. However, you requested 5000."),
			model.ContextTooLong, fault.ContextTooLarge, 0,
		},
		"filtered content":        {openAI, fail(400, "content_filter", "no"), model.Refused, fault.ModelUnavailable, 0},
		"a wrong request":         {openAI, fail(400, "invalid_request_error", "tools: wrong"), model.Invalid, fault.ModelUnavailable, 0},
		"an unknown model":        {openAI, fail(404, "model_not_found", "no such model"), model.Invalid, fault.ModelUnavailable, 0},
		"an error in the stream":  {openAI, broken("rate_limit_exceeded"), model.RateLimit, fault.RateLimited, 0},
		"an overload midstream":   {openAI, broken("server_is_overloaded"), model.Overloaded, fault.ModelUnavailable, 0},
		"the relay's budget":      {openAI, with(fail(429, "invalid_request_error", "budget"), fault.CodeHeader, "AGENT_010"), model.Budget, fault.BudgetLimit, 0},
		"a gateway's error":       {openAI, fail(502, "", ""), model.Unavailable, fault.ModelUnavailable, 0},
		"an error that is a word": {openAI[:1], raw("data: {\"error\":\"out of memory\"}\n\n"), model.Unavailable, fault.ModelUnavailable, 0},
		"a response that failed": {
			openAI[1:], raw(`data: {"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}` + "\n\n"),
			model.RateLimit, fault.RateLimited, 0,
		},
		"what is no JSON": {openAI, raw("data: {\"id\n\n"), model.Unavailable, fault.ModelUnavailable, 0},

		"a wrong key of Google's": {google, fail(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), model.Auth, fault.CredentialInvalid, 0},
		"no right at Google's":    {google, fail(403, "PERMISSION_DENIED", "no"), model.Auth, fault.CredentialInvalid, 0},
		"a minute's quota": {
			google, with(fail(429, "RESOURCE_EXHAUSTED", "quota"), "Retry-After", "7"), model.RateLimit, fault.RateLimited, 7 * time.Second,
		},
		"Google's own fault":      {google, fail(500, "INTERNAL", "oops"), model.Unavailable, fault.ModelUnavailable, 0},
		"Google's overload":       {google, fail(503, "UNAVAILABLE", "busy"), model.Overloaded, fault.ModelUnavailable, 0},
		"Google's 529":            {google, fail(529, "", "busy"), model.Overloaded, fault.ModelUnavailable, 0},
		"a prompt over its limit": {google, fail(400, "INVALID_ARGUMENT", "The input token count (2) exceeds the maximum number of tokens allowed (1)."), model.ContextTooLong, fault.ContextTooLarge, 0},
		"a wrong request to it":   {google, fail(400, "INVALID_ARGUMENT", "tools: wrong"), model.Invalid, fault.ModelUnavailable, 0},
		"an error in its stream":  {google, broken("UNAVAILABLE"), model.Overloaded, fault.ModelUnavailable, 0},
		"the budget before it":    {google, with(fail(429, "RESOURCE_EXHAUSTED", "budget"), fault.CodeHeader, "AGENT_010"), model.Budget, fault.BudgetLimit, 0},
		"a blocked prompt":        {google, raw(`data: {"promptFeedback":{"blockReason":"SAFETY"}}` + "\n\n"), model.Refused, fault.ModelUnavailable, 0},
		"a call it cannot read":   {google, raw(`data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}` + "\n\n"), model.Unavailable, fault.ModelUnavailable, 0},
		"no JSON from it":         {google, raw("data: {\"id\n\n"), model.Unavailable, fault.ModelUnavailable, 0},
	} {
		for _, f := range tc.formats {
			t.Run(name+string(f), func(t *testing.T) {
				t.Parallel()
				srv := modeltest.New(t, modeltest.List(tc.answer))
				turn, err := modeltest.NewModel(t, f, srv.URL, 0).Generate(t.Context(), request(t), nil)
				require.Nil(t, turn)
				e := model.AsError(err)
				require.NotNil(t, e, "%v", err)
				require.Equal(t, tc.kind, e.Kind, e.Error())
				require.Equal(t, tc.after, e.RetryAfter)
				require.Equal(t, tc.code, e.Fault().Code)
				require.Equal(t, modeltest.Served[f][0], e.Provider)
				require.NotContains(t, e.Error()+e.Fault().Error(), "key-of-the-test")
				require.Len(t, srv.Requests(), 1, "the SDK itself does not try again")
			})
		}
	}
}

// Google says in the body when to come back, and which quota is spent.
func TestGoogleSaysInDetailsWhenToComeBack(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]model.ErrorKind{
		"GenerateRequestsPerMinutePerProjectPerModel": model.RateLimit, "GenerateRequestsPerDayPerProjectPerModel": model.Quota,
	} {
		raw := `data: {"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + id + `"}]},` +
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}` + "\n\n"
		srv := modeltest.New(t, modeltest.List(modeltest.Answer{Raw: raw}))
		_, err := modeltest.NewModel(t, modeltest.Gemini, srv.URL, 0).Generate(t.Context(), request(t), nil)
		e := model.AsError(err)
		require.NotNil(t, e, "%v", err)
		require.Equal(t, want, e.Kind)
		require.Equal(t, 37*time.Second, e.RetryAfter)
		require.Equal(t, 429, e.Status)
	}
}

func TestStopReasonsAreNeutral(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f modeltest.Format) {
		for _, reason := range []string{model.StopEndTurn, model.StopMaxTokens, model.StopRefusal} {
			a := answer(anthropictest.Block{Text: "x"})
			a.StopReason = reason
			srv := modeltest.New(t, modeltest.List(a))
			turn, err := modeltest.NewModel(t, f, srv.URL, 0).Generate(t.Context(), request(t), nil)
			require.NoError(t, err)
			require.Equal(t, reason, turn.GetStopReason())
		}
	})
}

// A turn that says nothing, one that tells no usage, one of 300 calls and
// one of 5 MB are turns like any other; one of 9 MB is not.
func TestTurnsOfAnySizeUpToTheBound(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f modeltest.Format) {
		generate := func(a modeltest.Answer) (*deckhandv1.Turn, error) {
			return modeltest.NewModel(t, f, modeltest.New(t, modeltest.List(a)).URL, 0).Generate(t.Context(), request(t), nil)
		}
		turn, err := generate(answer())
		require.NoError(t, err)
		require.Empty(t, turn.GetBlocks())
		require.Equal(t, model.StopEndTurn, turn.GetStopReason())

		silent := answer(anthropictest.Block{Text: "x"})
		silent.Silent = true
		turn, err = generate(silent)
		require.NoError(t, err)
		require.Zero(t, turn.GetUsage().GetInputTokens()+turn.GetUsage().GetOutputTokens())

		var calls []anthropictest.Block
		for i := range 300 {
			calls = append(calls, anthropictest.Block{Tool: "file_read", ID: fmt.Sprintf("call_%d", i), Input: fmt.Sprintf(`{"path":"%d"}`, i)})
		}
		many := answer(calls...)
		many.Piece = 100
		turn, err = generate(many)
		require.NoError(t, err)
		require.Len(t, model.Calls(turn), 300)
		require.JSONEq(t, `{"path":"299"}`, model.Calls(turn)[299].GetArgumentsJson())

		long := answer(anthropictest.Block{Text: strings.Repeat("0123456789", 500_000)})
		long.Piece = 100_000
		turn, err = generate(long)
		require.NoError(t, err)
		require.Len(t, turn.GetBlocks()[0].GetText().GetText(), 5_000_000)

		long.Blocks[0].Text = strings.Repeat("0123456789", 900_000)
		_, err = generate(long)
		require.ErrorContains(t, err, "the answer is longer than")
	})
}

// Servers that speak like OpenAI differ: whole calls in one piece and all of
// index 0, calls without an id, "stop" after a call, usage on the last choice,
// and no name for what the model thinks but their own.
func TestServersThatSpeakAlmostLikeOpenAI(t *testing.T) {
	t.Parallel()
	srv := modeltest.New(t, modeltest.List(modeltest.Answer{Raw: strings.Join([]string{
		`: a comment to keep the line open`,
		`data: {"choices":[{"index":0,"delta":{"role":"assistant","reasoning":"hm"}}]}`,
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"file_read","arguments":"{\"path\":\"1\"}"}}]}}]}`,
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b","index":0,"function":{"name":"file_read","arguments":"{\"path\":\"2\"}"}}]}}]}`,
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"name":"file_read","arguments":"{\"path\":"}}]}}]}`,
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"\"3\"}"}}]}}]}`,
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`,
		`data: [DONE]`,
	}, "\n\n") + "\n\n"}))
	turn, err := modeltest.NewModel(t, modeltest.Chat, srv.URL, 0).Generate(t.Context(), request(t), nil)
	require.NoError(t, err)
	calls := model.Calls(turn)
	require.Len(t, calls, 3)
	for i, call := range calls {
		require.JSONEq(t, fmt.Sprintf(`{"path":"%d"}`, i+1), call.GetArgumentsJson())
		require.NotEmpty(t, call.GetId())
	}
	require.Equal(t, model.StopToolUse, turn.GetStopReason())
	require.Equal(t, "qwen3", turn.GetModel())
	require.Equal(t, "hm", turn.GetBlocks()[0].GetReasoning().GetText())
	require.EqualValues(t, 7, turn.GetUsage().GetInputTokens())
	require.EqualValues(t, 3, turn.GetUsage().GetOutputTokens())
}
