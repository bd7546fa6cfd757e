package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/api/relay"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/model/tokenestimate"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/modelaccess"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

const key = "the-key-of-the-provider"

// rig is a relay before a provider of the test's own, with a ledger in memory.
type rig struct {
	*httptest.Server

	t        *testing.T
	mu       sync.Mutex
	settled  chan budget.Cost
	reserved []budget.Call
	refused  int
	full     bool
	// connectedAt is when an organisation connected the provider; zero for a
	// preset of the operator's. redact knows secrets.
	connectedAt time.Time
	redact      redact.Redactor
	// seen is what is known of the task's call before, and cached how much of it was.
	seen    tokenestimate.Seen
	cached  int64
	headers http.Header
	path    string
	body    string
}

func newRig(t *testing.T, answer http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{t: t, settled: make(chan budget.Cost, 100)}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.headers, r.path, r.body = req.Header.Clone(), req.URL.String(), string(body)
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(upstream.Close)
	r.Server = httptest.NewServer(relay.New(relay.Config{
		Authorize: func(_ context.Context, le lease.Lease, name string) (modelaccess.Authorization, error) {
			if le.Token != "token" {
				return modelaccess.Authorization{}, lease.Stale(le)
			}
			return modelaccess.Authorization{
				Task: db.Task{ID: le.TaskID, OrgID: "org_1", Attempt: le.Attempt}, Seen: r.seen, Cached: r.cached,
				Access: func() (credential.Access, error) {
					if name == "mistral" {
						return credential.Access{}, credential.NotConnected(name)
					}
					p, _ := provider.Of(name)
					return credential.Access{Provider: p, BaseURL: upstream.URL + "/base", Key: config.Secret(key), ConnectedAt: r.connectedAt}, nil
				},
				Price: func(model string) (price.Model, error) {
					p, ok := price.Shipped().Of(name, model)
					if !ok {
						return p, fault.New(fault.Precondition, "no price").WithCode(fault.UnpricedModel)
					}
					return p, nil
				},
			}, nil
		},
		Models: func(context.Context, db.Task) ([]modelaccess.Model, error) {
			return []modelaccess.Model{
				{Provider: "anthropic", Name: "claude-sonnet-4-5"}, {Provider: "openai", Name: "gpt-4o"}, {Provider: "openai", Name: "gpt-5"},
				{Provider: "gemini", Name: "gemini-2.0-flash"}, {Provider: "mistral", Name: "mistral-small-latest"}, {Provider: "vllm", Name: "free"},
			}, nil
		},
		Turn: func(context.Context, string, string) error { return nil },
		Refused: func(context.Context, string, credential.Access) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refused++
			return nil
		},
		Reserve: func(_ context.Context, call budget.Call) (*budget.Reservation, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.full {
				return nil, fault.New(fault.Exhausted, "the budget is reached").WithCode(fault.BudgetLimit).WithFix("raise it")
			}
			r.reserved = append(r.reserved, call)
			return &budget.Reservation{ID: "call_1", OrgID: "org_1", TaskID: call.Task.ID, Amount: call.Amount}, nil
		},
		Settle: func(_ context.Context, _ *budget.Reservation, cost budget.Cost) error { r.settled <- cost; return nil },
		Redact: &r.redact, Log: hclog.NewNullLogger(),
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *rig) post(ctx context.Context, path, body, lease string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+path, strings.NewReader(body))
	require.NoError(r.t, err)
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		req.Header.Set(name, lease)
	}
	req.Header.Set("Authorization", "Bearer "+lease)
	req.Header.Set("Cookie", "a=b")
	res, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

const held = "task_1:1:token"

func stream(events ...string) string { return strings.Join(events, "\n\n") + "\n\n" }

func data(events ...string) string {
	for i := range events {
		events[i] = "data: " + events[i]
	}
	return stream(events...)
}

const (
	messages    = "/relay/anthropic/v1/messages"
	askMessages = `{"model":"claude-sonnet-4-5","max_tokens":1000,"stream":true,"messages":[]}`
	askHour     = `{"model":"claude-sonnet-4-5","max_tokens":1000,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}`
	askChat     = `{"model":"gpt-4o","max_completion_tokens":1000,"stream":true,"messages":[]}`
	askReply    = `{"model":"gpt-5","max_output_tokens":1000,"stream":true,"input":[]}`
	askGemini   = `{"contents":[],"generationConfig":{"maxOutputTokens":1000}}`
	geminiPath  = "/relay/gemini/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse"
)

var anthropicStream = []string{
	"event: message_start\ndata: " + `{"type":"message_start","message":{"usage":{"input_tokens":100,"output_tokens":1,"cache_creation_input_tokens":20,"cache_read_input_tokens":300}}}`,
	"event: ping\ndata: " + `{"type":"ping"}`,
	"event: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"twelve bytes"}}`,
	"event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":50}}`,
	"event: message_stop\ndata: " + `{"type":"message_stop"}`,
}

// The usage is exact to the token, whatever the format, streamed or whole; for a response
// that broke off or reports nothing it is an estimate.
func TestWhatACallUsedIsReadOffTheWire(t *testing.T) {
	t.Parallel()
	chatEnd := `{"choices":[],"usage":{"prompt_tokens":400,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":300}}}`
	replied := `{"type":"response.completed","response":{"usage":{"input_tokens":400,"input_tokens_details":{"cached_tokens":300},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":9}}}}`
	geminiEnd := `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":400,"cachedContentTokenCount":300,"candidatesTokenCount":41,"thoughtsTokenCount":9}}`
	reported := price.Usage{Input: 100, Output: 50, CacheRead: 300}
	estimate := func(name, model, body string) int64 {
		p, _ := provider.Of(name)
		return tokenestimate.Prompt(p, model, []byte(body))
	}
	size := estimate("anthropic", "claude-sonnet-4-5", askMessages)
	hour := estimate("anthropic", "claude-sonnet-4-5", askHour)
	for name, c := range map[string]struct {
		path, ask, kind, answer string
		cut                     bool
		// hidden output is estimated from the time that it had.
		hidden bool
		basis  budget.Basis
		usage  price.Usage
	}{
		"messages":              {path: messages, ask: askMessages, answer: stream(anthropicStream...), basis: budget.Reported, usage: price.Usage{Input: 100, Output: 50, CacheRead: 300, CacheWrite: 20}},
		"messages, with CRLF":   {path: messages, ask: askMessages, answer: strings.ReplaceAll(stream(anthropicStream...), "\n", "\r\n"), basis: budget.Reported, usage: price.Usage{Input: 100, Output: 50, CacheRead: 300, CacheWrite: 20}},
		"messages, whole":       {path: messages, ask: askMessages, kind: "application/json", answer: `{"type":"message","usage":{"input_tokens":100,"output_tokens":50,"cache_read_input_tokens":300}}`, basis: budget.Reported, usage: reported},
		"messages, cut":         {path: messages, ask: askMessages, answer: stream(anthropicStream[:3]...), cut: true, basis: budget.Estimated, usage: price.Usage{Input: 100, Output: 4, CacheRead: 300, CacheWrite: 20}},
		"messages, cut, hidden": {path: messages, ask: strings.Replace(askMessages, `"stream"`, `"thinking":{"type":"adaptive"},"stream"`, 1), answer: stream(anthropicStream[:3]...), cut: true, basis: budget.Estimated, hidden: true, usage: price.Usage{Input: 100, Output: 4, CacheRead: 300, CacheWrite: 20}},
		"messages, no usage":    {path: messages, ask: askMessages, answer: data(`{"type":"message_start","message":{}}`, `{"type":"content_block_delta","delta":{"text":"abc"}}`, `{"type":"message_delta"}`, `{"type":"message_stop"}`), basis: budget.Estimated, usage: price.Usage{Input: size, Output: 1}},
		"messages, for an hour": {path: messages, ask: askMessages, answer: strings.Replace(stream(anthropicStream...), `"cache_read`, `"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":15},"cache_read`, 1), basis: budget.Reported, usage: price.Usage{Input: 100, Output: 50, CacheRead: 300, CacheWrite: 20, CacheWriteHour: 15}},
		"messages, hour, cut":   {path: messages, ask: askHour, cut: true, basis: budget.Estimated, usage: price.Usage{CacheWrite: hour, CacheWriteHour: hour}},
		"messages, cut at once": {path: messages, ask: askMessages, cut: true, basis: budget.Estimated, usage: price.Usage{Input: size}},
		"chat":                  {path: "/relay/openai/chat/completions", ask: askChat, answer: data(`{"choices":[{"delta":{"content":"hi"}}]}`, chatEnd, "[DONE]"), basis: budget.Reported, usage: reported},
		"chat, whole":           {path: "/relay/openai/chat/completions", ask: askChat, kind: "application/json", answer: chatEnd, basis: budget.Reported, usage: reported},
		"chat, no usage":        {path: "/relay/openai/chat/completions", ask: askChat, answer: data(`{"choices":[{"delta":{"content":"hi","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}`, "[DONE]"), basis: budget.Estimated, usage: price.Usage{Input: estimate("openai", "gpt-4o", askChat), Output: 2}},
		"responses":             {path: "/relay/openai/responses", ask: askReply, answer: data(`{"type":"response.output_text.delta","delta":"hi"}`, replied), basis: budget.Reported, usage: reported},
		"responses, cut":        {path: "/relay/openai/responses", ask: askReply, answer: data(`{"type":"response.output_text.delta","delta":"hi"}`), cut: true, basis: budget.Estimated, hidden: true, usage: price.Usage{Input: estimate("openai", "gpt-5", askReply), Output: 1}},
		"gemini":                {path: geminiPath, ask: askGemini, answer: data(`{"candidates":[{"content":{"parts":[{"text":"x"}]}}],"usageMetadata":{"promptTokenCount":400}}`, geminiEnd), basis: budget.Reported, usage: reported},
		"gemini, whole":         {path: strings.Replace(geminiPath, "streamGenerateContent", "generateContent", 1), ask: askGemini, kind: "application/json", answer: geminiEnd, basis: budget.Reported, usage: reported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := c.kind
			if kind == "" {
				kind = "text/event-stream; charset=utf-8"
			}
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, c.answer)
				if c.cut {
					if c.answer != "" {
						_ = http.NewResponseController(w).Flush()
					}
					panic(http.ErrAbortHandler)
				}
			})
			res := r.post(t.Context(), c.path, c.ask, held)
			got, err := io.ReadAll(res.Body)
			if !c.cut {
				require.NoError(t, err)
				require.Len(t, r.settled, 1, "it is settled before its end is passed on")
			}
			if c.answer != "" {
				require.Equal(t, c.answer, string(got), "every byte is passed on as it came")
			}
			cost := <-r.settled
			require.Equal(t, c.basis, cost.Basis)
			if c.hidden {
				require.GreaterOrEqual(t, cost.Usage.Output, c.usage.Output)
				require.LessOrEqual(t, cost.Usage.Output, int64(1000))
				c.usage.Output = cost.Usage.Output
			}
			require.Equal(t, c.usage, cost.Usage)
			r.mu.Lock()
			defer r.mu.Unlock()
			require.LessOrEqual(t, cost.Micros, r.reserved[0].Amount+2000, "what was reserved is enough")
			require.NotContains(t, fmt.Sprint(r.headers), "token]", "the lease does not leave the hub")
			require.Contains(t, fmt.Sprint(r.headers), key)
			require.Empty(t, r.headers.Get("Cookie"))
			require.True(t, strings.HasPrefix(r.path, "/base/"), r.path)
		})
	}
}

// What is reserved follows from an estimate of the prompt, which the call before corrects:
// a long result does not take up a budget many times over. What was cached of that call is
// expected to be read from the cache, if nothing is reported.
func TestWhatIsReservedIsWhatACallMayCost(t *testing.T) {
	t.Parallel()
	const words = 100_000 // a token each
	ask := fmt.Sprintf(`{"model":"claude-sonnet-4-5","max_tokens":1000,"stream":true,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("word ", words))
	const micros = words*3.75 + 1000*15
	r := newRig(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_ = r.post(t.Context(), messages, ask, held)
	first := <-r.settled
	require.InEpsilon(t, 1.3*micros, float64(r.reserved[0].Amount), 0.3)
	require.Equal(t, budget.Estimated, first.Basis)
	require.EqualValues(t, first.Usage.Input, first.LimitTokens)

	r.mu.Lock()
	r.seen, r.cached = tokenestimate.Seen{Estimate: r.reserved[0].Tokens - 1000, Counted: words}, words-5000
	r.mu.Unlock()
	_ = r.post(t.Context(), messages, ask, held)
	second := <-r.settled
	require.InEpsilon(t, micros, float64(r.reserved[1].Amount), 0.1)
	require.EqualValues(t, words-5000, second.Usage.CacheRead)
	require.Less(t, second.Usage.CacheWrite, int64(12_000))
	require.InEpsilon(t, 0.1*float64(second.Usage.CacheRead)+float64(second.Usage.CacheWrite), float64(second.LimitTokens), 0.01)
}

// Nothing is held back: the provider sends its second piece only when the
// client has the first.
func TestPiecesArePassedOnAsTheyCome(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range anthropicStream {
			_, _ = io.WriteString(w, event+"\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-seen:
			case <-req.Context().Done():
				return
			}
		}
	})
	res := r.post(t.Context(), messages, askMessages, held)
	lines := bufio.NewScanner(res.Body)
	events := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			events++
			seen <- struct{}{}
		}
	}
	require.Equal(t, len(anthropicStream), events)
	require.Equal(t, budget.Reported, (<-r.settled).Basis)
}

func TestACallerWhoLeavesIsSettled(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream(anthropicStream[:3]...))
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done() // the provider's request is cancelled, too
	})
	ctx, leave := context.WithCancel(t.Context())
	res := r.post(ctx, messages, askMessages, held)
	_, err := bufio.NewReader(res.Body).ReadString('\n')
	require.NoError(t, err)
	leave()
	require.Equal(t, budget.Estimated, (<-r.settled).Basis)
}

// What is not the task's to call is refused, in the provider's own
// words, and costs nothing.
func TestCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, ask, lease string
		full             bool
		status           int
		code             fault.Code
		says             string
	}{
		"no lease":               {messages, askMessages, "", false, 401, "", "not a lease"},
		"a lease that has ended": {messages, askMessages, "task_1:1:old", false, 401, fault.LeaseEnded, "has ended"},
		"another model":          {messages, `{"model":"claude-opus-4-1","max_tokens":5}`, held, false, 403, fault.PermissionDenied, "may not use"},
		"a model of another":     {"/relay/openai/chat/completions", `{"model":"claude-sonnet-4-5","max_tokens":5}`, held, false, 403, fault.PermissionDenied, "may not use"},
		"past the budget":        {messages, askMessages, held, true, 429, fault.BudgetLimit, "budget"},
		"no price":               {"/relay/vllm/chat/completions", `{"model":"free","max_tokens":5}`, held, false, 403, fault.UnpricedModel, "price"},
		"not connected":          {"/relay/mistral/chat/completions", `{"model":"mistral-small-latest","max_tokens":5}`, held, false, 403, fault.NoCredentials, "not connected"},
		"no cap of output":       {messages, `{"model":"claude-sonnet-4-5"}`, held, false, 400, fault.InvalidParameters, "max_tokens"},
		"a negative cap":         {messages, `{"model":"claude-sonnet-4-5","max_tokens":-1}`, held, false, 400, fault.InvalidParameters, "max_tokens"},
		"a field that costs":     {messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"service_tier":"priority"}`, held, false, 400, fault.InvalidParameters, "service_tier"},
		"two answers":            {"/relay/openai/chat/completions", `{"model":"gpt-4o","max_tokens":5,"n":20}`, held, false, 400, fault.InvalidParameters, `"n"`},
		"a tool that runs there": {messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"tools":[{"type":"web_search_20250305"}]}`, held, false, 400, fault.InvalidParameters, "web_search"},
		"and with Google":        {geminiPath, `{"contents":[],"tools":[{"googleSearch":{}}],"generationConfig":{"maxOutputTokens":5}}`, held, false, 400, fault.InvalidParameters, "googleSearch"},
		"a tool of two types": {
			"/relay/openai/chat/completions", `{"model":"gpt-4o","max_tokens":5,"tools":[{"type":"web_search","Type":"function"}]}`,
			held, false, 400, fault.InvalidParameters, "field",
		},
		"a tool whose type is written large": {
			messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"tools":[{"TYPE":"web_search_20250305","name":"x"}]}`, held, false, 400, fault.InvalidParameters, "TYPE",
		},
		"a type that comes twice": {
			"/relay/openai/chat/completions", `{"model":"gpt-4o","max_tokens":5,"tools":[{"type":"function","type":"web_search"}]}`,
			held, false, 400, fault.InvalidParameters, "once",
		},
		"more answers, in another case": {
			geminiPath, `{"contents":[],"generationConfig":{"maxOutputTokens":5,"CandidateCount":8}}`, held, false, 400, fault.InvalidParameters, "CandidateCount",
		},
		"more answers, with underscores": {
			geminiPath, `{"contents":[],"generationConfig":{"maxOutputTokens":5,"candidate_count":8}}`, held, false, 400, fault.InvalidParameters, "candidate_count",
		},
		"thinking, in another case": {
			messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"thinking":{"type":"disabled","Type":"enabled"}}`, held, false, 400, fault.InvalidParameters, "thinking",
		},
		"a document by its URL, in another case": {
			messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","Source":{"type":"url","url":"https://x/y.pdf"}}]}]}`,
			held, false, 400, fault.InvalidParameters, "names content",
		},
		"a document by its URL, with a type that comes in two cases": {
			messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","Type":"url","url":"https://x/y.pdf"}}]}]}`,
			held, false, 400, fault.InvalidParameters, "names content",
		},
		"a document by its URL": {
			messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://x/y.pdf"}}]}]}`,
			held, false, 400, fault.InvalidParameters, "names content",
		},
		"a document by its URL, in disguise": {
			messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"messages":[{"role":"user","cont\u0065nt":[{"type":"document","s\u006Furce":{"type":"url","url":"https://x/y.pdf"}}]}]}`,
			held, false, 400, fault.InvalidParameters, "names content",
		},
		"an image in a result by its URL": {
			messages, `{"model":"claude-sonnet-4-5","max_tokens":5,"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}}]}]}]}`,
			held, false, 400, fault.InvalidParameters, "names content",
		},
		"an image of a chat by its URL": {
			"/relay/openai/chat/completions", `{"model":"gpt-4o","max_tokens":5,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}]}`,
			held, false, 400, fault.InvalidParameters, "image_url",
		},
		"a file of a response by its id": {
			"/relay/openai/responses", `{"model":"gpt-5","max_output_tokens":5,"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]}`,
			held, false, 400, fault.InvalidParameters, "file_id",
		},
		"a file of Google's": {
			geminiPath, `{"contents":[{"parts":[{"fileData":{"fileUri":"https://x"}}]}],"generationConfig":{"maxOutputTokens":5}}`,
			held, false, 400, fault.InvalidParameters, "fileData",
		},
		"not an object":     {messages, `[1]`, held, false, 400, fault.InvalidParameters, "JSON object"},
		"another endpoint":  {"/relay/anthropic/v1/files", askMessages, held, false, 404, "", "only"},
		"another provider":  {"/relay/nobody/v1/messages", askMessages, held, false, 404, "", "no such provider"},
		"a path in a model": {"/relay/gemini/v1beta/models/..%2f..%2ffiles:generateContent", askGemini, held, false, 404, "", "only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("the provider was asked") })
			r.mu.Lock()
			r.full = c.full
			r.mu.Unlock()
			res := r.post(t.Context(), c.path, c.ask, c.lease)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, c.status, res.StatusCode, string(body))
			require.Equal(t, string(c.code), res.Header.Get(fault.CodeHeader))
			require.Contains(t, strings.ReplaceAll(string(body), `\"`, `"`), c.says)
			r.mu.Lock()
			defer r.mu.Unlock()
			require.Empty(t, r.reserved)
		})
	}
}

// Errors reach the worker unchanged, cost nothing, and reveal no key.
func TestErrorsOfAProviderArePassedOn(t *testing.T) {
	t.Parallel()
	status := 429
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Location", "http://elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"x","message":"about sk-ant-0123456789abcdefghij"}}`)
	})
	for _, status = range []int{429, 500, 529, 400} {
		res := r.post(t.Context(), messages, askMessages, held)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, status, res.StatusCode)
		require.Equal(t, "7", res.Header.Get("Retry-After"))
		require.NotContains(t, string(body), "0123456789")
		require.Equal(t, budget.Cost{Basis: budget.Unsent}, <-r.settled)
	}
	status = 401
	res := r.post(t.Context(), messages, askMessages, held)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, 401, res.StatusCode)
	require.Equal(t, string(fault.CredentialInvalid), res.Header.Get(fault.CodeHeader))
	require.Contains(t, res.Header.Get(fault.FixHeader), "deckhand provider connect anthropic")
	require.NotContains(t, string(body), "sk-")
	r.mu.Lock()
	require.Equal(t, 1, r.refused)
	r.mu.Unlock()
	<-r.settled
	status = 302
	res = r.post(t.Context(), messages, askMessages, held)
	require.Equal(t, 502, res.StatusCode, "nothing is followed elsewhere")
	<-r.settled
}

// What an organisation connects is dialled through the guard; the operator's own
// is not.
func TestAServerOnThisMachineIsTheOperatorsToAllow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	r.connectedAt = time.Now()
	res := r.post(t.Context(), messages, askMessages, held)
	require.Equal(t, 403, res.StatusCode)
	require.Contains(t, res.Header.Get(fault.FixHeader), "--provider-allow")
	require.Equal(t, budget.Unsent, (<-r.settled).Basis)
}

// Whatever an organisation's secrets are, its requests stay requests, and no
// other's change at all.
func TestSecretsAreMaskedInContentOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) })
	const ask = `{"max_tokens":5,"messages":[{"content":[{"input":{"type":"tool_use"},"type":"tool_use"},{"text":"my tool_use, max_tokens","type":"text"}],"role":"assistant"}],"model":"claude-sonnet-4-5"}`
	words := []string{"max_tokens", "messages", "claude-sonnet-4-5", "tool_use", "assistant"}
	r.redact.Org("org_2").Learn("them", words...)
	r.post(t.Context(), messages, ask, held)
	<-r.settled
	require.Equal(t, ask, r.body, "those are another organisation's")
	r.redact.Org("org_1").Learn("us", words...)
	r.post(t.Context(), messages, ask, held)
	<-r.settled
	want := `{"max_tokens":5,"messages":[{"content":[{"input":{"type":"⟦secret⟧"},"type":"tool_use"},{"text":"my ⟦secret⟧, ⟦secret⟧","type":"text"}],"role":"assistant"}],"model":"claude-sonnet-4-5"}`
	require.Equal(t, want, r.body)
}
