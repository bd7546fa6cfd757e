package anthropic_test

import (
	"context"
	"fmt"
	"net/http"
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
	"github.com/deckhand-sh/deckhand/worker/model/anthropic"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newModel(t *testing.T, url string, stall time.Duration) *anthropic.Model {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m, err := anthropic.New(anthropic.Config{
		BaseURL: url, Key: "key-of-the-test", Model: "claude-sonnet-5-5", HTTPClient: &http.Client{Transport: transport}, StallTimeout: stall,
	})
	require.NoError(t, err)
	return m
}

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

var everything = anthropictest.Answer{
	Usage: anthropictest.Usage{Input: 1234, Output: 567, CacheRead: 89, CacheWrite: 10},
	Blocks: []anthropictest.Block{
		{Thinking: "Let me thínk about this.", Signature: "c2lnbmF0dXJl"},
		{Redacted: "b3BhcXVl"},
		{Text: "I read two files, ünd so on."},
		{Tool: "file_read", ID: "toolu_1", Input: `{"path": "a/long/path/to/some/file"}`},
		{Tool: "file_read", ID: "toolu_2", Input: `{"path": "b"`},
		{Tool: "file_read", ID: "toolu_3"},
	},
}

// Parallel calls, thinking with its signature, and usage to the token.
func TestAStreamedTurnArrivesWhole(t *testing.T) {
	t.Parallel()
	srv := anthropictest.New(t, anthropictest.List(everything))
	var streamed strings.Builder
	turn, err := newModel(t, srv.URL, 0).Generate(t.Context(), request(t), func(d model.Delta) { streamed.WriteString(d.Text) })
	require.NoError(t, err)
	want := &deckhandv1.Turn{
		Provider: "anthropic", Model: "claude-sonnet-5-5", StopReason: model.StopToolUse,
		Usage: &deckhandv1.Usage{InputTokens: 1234, OutputTokens: 567, CacheReadTokens: 89, CacheWriteTokens: 10},
		Blocks: []*deckhandv1.Block{
			model.ReasoningBlock(&deckhandv1.Block_Reasoning{Text: "Let me thínk about this.", Signature: "c2lnbmF0dXJl"}),
			model.ReasoningBlock(&deckhandv1.Block_Reasoning{Redacted: "b3BhcXVl"}),
			model.TextBlock("I read two files, ünd so on."),
			model.CallBlock(&deckhandv1.Block_ToolCall{Id: "toolu_1", Name: "file_read", ArgumentsJson: `{"path": "a/long/path/to/some/file"}`}),
			model.CallBlock(&deckhandv1.Block_ToolCall{Id: "toolu_2", Name: "file_read", ArgumentsJson: `{"path": "b"`}),
			model.CallBlock(&deckhandv1.Block_ToolCall{Id: "toolu_3", Name: "file_read", ArgumentsJson: `{}`}),
		},
	}
	require.True(t, proto.Equal(want, turn), "%v", turn)
	require.Equal(t, "Let me thínk about this.I read two files, ünd so on.", streamed.String())
}

func TestTheRequestIsWhatTheAPIAsksFor(t *testing.T) {
	t.Parallel()
	srv := anthropictest.New(t, anthropictest.List(everything, anthropictest.Answer{Blocks: []anthropictest.Block{{Text: "ok"}}}))
	m := newModel(t, srv.URL, 0)
	req := request(t)
	turn, err := m.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	foreign := &deckhandv1.Turn{Provider: "other", Blocks: []*deckhandv1.Block{
		model.ReasoningBlock(&deckhandv1.Block_Reasoning{Text: "not for you", Signature: "x"}),
	}}
	req.Messages = append(req.Messages,
		model.Message{Turn: turn},
		model.Message{Results: []model.Result{
			{CallID: "toolu_1", Text: "content"}, {CallID: "toolu_2", Text: "not JSON", IsError: true}, {CallID: "toolu_3"},
		}, Text: "Note: hurry."},
		model.Message{Turn: foreign},
		model.Message{Text: "Go on."},
	)
	_, err = m.Generate(t.Context(), req, nil)
	require.NoError(t, err)
	got := srv.Requests()[1]
	require.Equal(t, "key-of-the-test", got.Header.Get("X-Api-Key"))
	require.NotEmpty(t, got.Header.Get("Anthropic-Version"))
	require.Empty(t, got.Header.Get("Authorization"))
	cached := map[string]any{"type": "ephemeral"}
	require.Equal(t, map[string]any{
		"model": "claude-sonnet-5-5", "max_tokens": 4096.0, "stream": true,
		"thinking": map[string]any{"type": "enabled", "budget_tokens": 2048.0},
		"system":   []any{map[string]any{"type": "text", "text": "Be brief.", "cache_control": cached}},
		"tools": []any{map[string]any{"name": "file_read", "description": "Reads", "input_schema": map[string]any{
			"type": "object", "required": []any{"path"}, "additionalProperties": false,
			"properties": map[string]any{"path": map[string]any{"type": "string"}},
		}}},
		"messages": []any{
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "Go."}}},
			map[string]any{"role": "assistant", "content": []any{
				map[string]any{"type": "thinking", "thinking": "Let me thínk about this.", "signature": "c2lnbmF0dXJl"},
				map[string]any{"type": "redacted_thinking", "data": "b3BhcXVl"},
				map[string]any{"type": "text", "text": "I read two files, ünd so on."},
				map[string]any{"type": "tool_use", "id": "toolu_1", "name": "file_read", "input": map[string]any{"path": "a/long/path/to/some/file"}},
				map[string]any{"type": "tool_use", "id": "toolu_2", "name": "file_read", "input": map[string]any{"_not_a_json_object": `{"path": "b"`}},
				map[string]any{"type": "tool_use", "id": "toolu_3", "name": "file_read", "input": map[string]any{}},
			}},
			map[string]any{"role": "user", "content": []any{
				result("toolu_1", "content", false), result("toolu_2", "not JSON", true), result("toolu_3", "(no output)", false),
				map[string]any{"type": "text", "text": "Note: hurry.", "cache_control": cached},
			}},
			map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": "(no answer)"}}},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "Go on.", "cache_control": cached}}},
		},
	}, got.Body)
}

func TestAdaptiveThinkingIsAskedForWithItsSummary(t *testing.T) {
	t.Parallel()
	srv := anthropictest.New(t, anthropictest.List(anthropictest.Answer{Blocks: []anthropictest.Block{{Text: "ok"}}}))
	req := request(t)
	req.Thinking = persona.Thinking{Adaptive: true}
	_, err := newModel(t, srv.URL, 0).Generate(t.Context(), req, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"type": "adaptive", "display": "summarized"}, srv.Requests()[0].Body["thinking"])
}

func result(id, text string, isError bool) map[string]any {
	return map[string]any{
		"type": "tool_result", "tool_use_id": id, "is_error": isError,
		"content": []any{map[string]any{"type": "text", "text": text}},
	}
}

func TestErrorsAreTyped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer anthropictest.Answer
		kind   model.ErrorKind
		code   fault.Code
		after  time.Duration
	}{
		"a wrong key":         {anthropictest.Answer{Status: 401, ErrorType: "authentication_error", ErrorMessage: "invalid x-api-key"}, model.Auth, fault.CredentialInvalid, 0},
		"a key without right": {anthropictest.Answer{Status: 403, ErrorType: "permission_error", ErrorMessage: "no"}, model.Auth, fault.CredentialInvalid, 0},
		"no credit": {
			anthropictest.Answer{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "Your credit balance is too low to access the Anthropic API."},
			model.Quota, fault.BudgetLimit, 0,
		},
		"a bill":             {anthropictest.Answer{Status: 402, ErrorType: "billing_error", ErrorMessage: "pay"}, model.Quota, fault.BudgetLimit, 0},
		"too many calls":     {anthropictest.Answer{Status: 429, ErrorType: "rate_limit_error", ErrorMessage: "slow down", Header: map[string]string{"Retry-After": "7"}}, model.RateLimit, fault.RateLimited, 7 * time.Second},
		"too many, no hint":  {anthropictest.Answer{Status: 429, ErrorType: "rate_limit_error", ErrorMessage: "slow down"}, model.RateLimit, fault.RateLimited, 0},
		"a fault of theirs":  {anthropictest.Answer{Status: 500, ErrorType: "api_error", ErrorMessage: "oops"}, model.Unavailable, fault.ModelUnavailable, 0},
		"an overload":        {anthropictest.Answer{Status: 529, ErrorType: "overloaded_error", ErrorMessage: "Overloaded"}, model.Overloaded, fault.ModelUnavailable, 0},
		"a long prompt":      {anthropictest.Answer{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "prompt is too long: 2 > 1"}, model.ContextTooLong, fault.ContextTooLarge, 0},
		"a large request":    {anthropictest.Answer{Status: 413, ErrorType: "request_too_large", ErrorMessage: "big"}, model.ContextTooLong, fault.ContextTooLarge, 0},
		"filtered content":   {anthropictest.Answer{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "Output blocked by content filtering policy"}, model.Refused, fault.ModelUnavailable, 0},
		"a wrong request":    {anthropictest.Answer{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "max_tokens: too big"}, model.Invalid, fault.ModelUnavailable, 0},
		"an unknown model":   {anthropictest.Answer{Status: 404, ErrorType: "not_found_error", ErrorMessage: "model: x"}, model.Invalid, fault.ModelUnavailable, 0},
		"a strange status":   {anthropictest.Answer{Status: 418, ErrorType: "teapot", ErrorMessage: "short"}, model.Invalid, fault.ModelUnavailable, 0},
		"a gateway's error":  {anthropictest.Answer{Status: 502, ErrorType: "", ErrorMessage: ""}, model.Unavailable, fault.ModelUnavailable, 0},
		"an error midstream": {withBreak(everything, 5, "overloaded_error"), model.Overloaded, fault.ModelUnavailable, 0},
		"the relay's budget": {
			anthropictest.Answer{Status: 429, ErrorType: "rate_limit_error", ErrorMessage: "budget", Header: map[string]string{fault.CodeHeader: "AGENT_010"}},
			model.Budget, fault.BudgetLimit, 0,
		},
		"an unpriced model": {
			anthropictest.Answer{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "no price", Header: map[string]string{fault.CodeHeader: "AGENT_024"}},
			model.Invalid, fault.UnpricedModel, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := anthropictest.New(t, anthropictest.List(tc.answer))
			turn, err := newModel(t, srv.URL, 0).Generate(t.Context(), request(t), nil)
			require.Nil(t, turn)
			e := model.AsError(err)
			require.NotNil(t, e, "%v", err)
			require.Equal(t, tc.kind, e.Kind, e.Error())
			require.Equal(t, tc.after, e.RetryAfter)
			require.Equal(t, tc.code, e.Fault().Code)
			require.NotContains(t, e.Error()+e.Fault().Error(), "key-of-the-test")
			require.Len(t, srv.Requests(), 1, "the SDK itself does not try again")
		})
	}
}

// The time at which access is there again is read off the message.
func TestWhenALimitOfUseIsNoMore(t *testing.T) {
	t.Parallel()
	again := time.Now().UTC().Add(50 * time.Hour).Truncate(time.Minute)
	srv := anthropictest.New(t, anthropictest.List(anthropictest.Answer{
		Status: 400, ErrorType: "invalid_request_error",
		ErrorMessage: "You have reached your specified API usage limits. You will regain access on " + again.Format("2006-01-02 at 15:04") + " UTC.",
	}))
	_, err := newModel(t, srv.URL, 0).Generate(t.Context(), request(t), nil)
	e := model.AsError(err)
	require.NotNil(t, e, "%v", err)
	require.Equal(t, model.Quota, e.Kind)
	require.WithinDuration(t, again, time.Now().Add(e.RetryAfter), time.Minute)
}

func withBreak(a anthropictest.Answer, after int, errorType string) anthropictest.Answer {
	a.Break, a.ErrorType, a.ErrorMessage = after, errorType, "broken"
	return a
}

// A stream that dies at any event, also in the middle of a tool call, is no
// turn; the retry gives the whole one, and the sink is told to begin again.
func TestAStreamThatDiesAnywhereIsAskedForAgain(t *testing.T) {
	t.Parallel()
	events := 0
	for ; ; events++ {
		if done := t.Run(fmt.Sprintf("after event %d", events+1), func(t *testing.T) {
			srv := anthropictest.New(t, anthropictest.List(withBreak(everything, events+1, ""), everything))
			var text string
			restarts := 0
			turn, err := quick(newModel(t, srv.URL, 0)).Generate(t.Context(), request(t), func(d model.Delta) {
				if d.Restart {
					text, restarts = "", restarts+1
				}
				text += d.Text
			})
			require.NoError(t, err)
			require.Len(t, model.Calls(turn), 3)
			require.EqualValues(t, 567, turn.GetUsage().GetOutputTokens())
			require.Equal(t, "Let me thínk about this.I read two files, ünd so on.", text)
			if len(srv.Requests()) == 1 {
				require.Zero(t, restarts)
				t.Skip("the break lies behind the end")
			}
			require.Equal(t, 1, restarts)
		}); !done {
			return
		}
		if events > 20 {
			break
		}
	}
}

func TestAStreamThatStallsIsGivenUp(t *testing.T) {
	t.Parallel()
	stalled := withBreak(everything, 9, "")
	stalled.Stall = true
	srv := anthropictest.New(t, anthropictest.List(stalled, everything))
	turn, err := quick(newModel(t, srv.URL, 100*time.Millisecond)).Generate(t.Context(), request(t), nil)
	require.NoError(t, err)
	require.Len(t, model.Calls(turn), 3)
	require.Len(t, srv.Requests(), 2)
}

func TestRetriesStopAfterThreeAndHonourRetryAfter(t *testing.T) {
	t.Parallel()
	down := anthropictest.Answer{Status: 529, ErrorType: "overloaded_error", ErrorMessage: "Overloaded"}
	srv := anthropictest.New(t, func(anthropictest.Request) anthropictest.Answer { return down })
	_, err := quick(newModel(t, srv.URL, 0)).Generate(t.Context(), request(t), nil)
	require.ErrorContains(t, err, "after 4 tries")
	require.Equal(t, model.Overloaded, model.AsError(err).Kind)
	require.Len(t, srv.Requests(), 4)

	slow := anthropictest.Answer{Status: 429, ErrorType: "rate_limit_error", ErrorMessage: "slow", Header: map[string]string{"Retry-After": "0.05"}}
	srv = anthropictest.New(t, anthropictest.List(slow, everything))
	var waits []time.Duration
	m := model.WithRetries(newModel(t, srv.URL, 0), model.RetryConfig{OnRetry: func(_ *model.Error, _ int, wait time.Duration) { waits = append(waits, wait) }})
	_, err = m.Generate(t.Context(), request(t), nil)
	require.NoError(t, err)
	require.Len(t, waits, 1)
	require.GreaterOrEqual(t, waits[0], 50*time.Millisecond)

	tooSlow := anthropictest.Answer{Status: 429, ErrorType: "rate_limit_error", ErrorMessage: "slow", Header: map[string]string{"Retry-After": "3600"}}
	srv = anthropictest.New(t, anthropictest.List(tooSlow))
	_, err = quick(newModel(t, srv.URL, 0)).Generate(t.Context(), request(t), nil)
	require.Equal(t, time.Hour, model.AsError(err).RetryAfter)
	require.Len(t, srv.Requests(), 1, "an hour is not waited for")
}

func TestACancelledCallAnswersItsCause(t *testing.T) {
	t.Parallel()
	stalled := withBreak(everything, 4, "")
	stalled.Stall = true
	srv := anthropictest.New(t, anthropictest.List(stalled))
	cause := fmt.Errorf("the lease is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := quick(newModel(t, srv.URL, 0)).Generate(ctx, request(t), func(model.Delta) { cancel(cause) })
	require.ErrorIs(t, err, cause)
	require.Len(t, srv.Requests(), 1)
}

func TestStopReasonsAreNeutral(t *testing.T) {
	t.Parallel()
	for theirs, ours := range map[string]string{
		"end_turn": model.StopEndTurn, "stop_sequence": model.StopEndTurn, "max_tokens": model.StopMaxTokens,
		"model_context_window_exceeded": model.StopMaxTokens, "refusal": model.StopRefusal, "pause_turn": model.StopEndTurn,
	} {
		srv := anthropictest.New(t, anthropictest.List(anthropictest.Answer{StopReason: theirs, Blocks: []anthropictest.Block{{Text: "x"}}}))
		turn, err := newModel(t, srv.URL, 0).Generate(t.Context(), request(t), nil)
		require.NoError(t, err)
		require.Equal(t, ours, turn.GetStopReason(), theirs)
	}
}
