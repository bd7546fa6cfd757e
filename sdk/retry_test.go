package sdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
	"github.com/deckhand-sh/deckhand/sdk"
)

// failing refuses calls until it has refused enough, and keeps their idempotency keys.
type failing struct {
	deckhandv1connect.UnimplementedTaskServiceHandler
	deckhandv1connect.UnimplementedSessionServiceHandler

	refuse []error

	mu   sync.Mutex
	keys []string
}

func (f *failing) call(ctx context.Context) error {
	call, _ := connect.CallInfoForHandlerContext(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = append(f.keys, call.RequestHeader().Get("Idempotency-Key"))
	if n := len(f.keys); n <= len(f.refuse) {
		return fault.ToConnect(f.refuse[n-1])
	}
	return nil
}

func (f *failing) GetTask(ctx context.Context, _ *deckhandv1.GetTaskRequest) (*deckhandv1.GetTaskResponse, error) {
	return &deckhandv1.GetTaskResponse{}, f.call(ctx)
}

func (f *failing) SubmitTask(ctx context.Context, _ *deckhandv1.SubmitTaskRequest) (*deckhandv1.SubmitTaskResponse, error) {
	return &deckhandv1.SubmitTaskResponse{}, f.call(ctx)
}

func (f *failing) CreateSession(ctx context.Context, _ *deckhandv1.CreateSessionRequest) (*deckhandv1.CreateSessionResponse, error) {
	return &deckhandv1.CreateSessionResponse{}, f.call(ctx)
}

// inMemory has a client call a handler directly: the time of a synctest bubble stands still
// while a network is waited for.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return res, nil
}

func (f *failing) client(t *testing.T, n int) *sdk.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(deckhandv1connect.NewTaskServiceHandler(f))
	mux.Handle(deckhandv1connect.NewSessionServiceHandler(f))
	client, err := sdk.New(sdk.Config{URL: "http://hub.test", Token: "dhu_x", Retries: n, HTTPClient: &http.Client{Transport: inMemory{mux}}})
	require.NoError(t, err)
	return client
}

func gone() error { return fault.New(fault.Unavailable, "restarting") }

func limited(after time.Duration) error {
	return fault.New(fault.Exhausted, "too many calls").WithCode(fault.RateLimited).WithRetryAfter(after)
}

func TestCallsAreRepeatedWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	const read, change, login = "read", "change", "login"
	for name, tc := range map[string]struct {
		call    string
		refuse  []error
		retries int
		key     string
		calls   int
		fails   fault.Kind // Internal for a call that succeeds
		waits   time.Duration
	}{
		"a read":                                {call: read, refuse: []error{gone(), gone(), gone()}, calls: 4},
		"a read that fails too often":           {call: read, refuse: []error{gone(), gone(), gone(), gone()}, calls: 4, fails: fault.Unavailable},
		"a read without retries":                {call: read, refuse: []error{gone()}, retries: -1, calls: 1, fails: fault.Unavailable},
		"a change gets a key":                   {call: change, refuse: []error{gone(), gone()}, calls: 3},
		"a change with a key of the caller's":   {call: change, refuse: []error{gone()}, key: "mine", calls: 2},
		"a change without retries has no key":   {call: change, retries: -1, calls: 1},
		"a login":                               {call: login, refuse: []error{gone()}, calls: 1, fails: fault.Unavailable},
		"a node that is away":                   {call: change, refuse: []error{fault.New(fault.Unavailable, "no node").WithCode(fault.NodeUnavailable)}, calls: 1, fails: fault.Unavailable},
		"a refusal":                             {call: read, refuse: []error{fault.New(fault.Denied, "no")}, calls: 1, fails: fault.Denied},
		"a used-up limit without an end":        {call: read, refuse: []error{fault.New(fault.Exhausted, "no").WithCode(fault.BudgetLimit)}, calls: 1, fails: fault.Exhausted},
		"the rate limit, when the hub says so":  {call: change, refuse: []error{limited(7 * time.Second)}, calls: 2, waits: 7 * time.Second},
		"a rate limit that lasts":               {call: read, refuse: []error{limited(31 * time.Second)}, calls: 1, fails: fault.Exhausted},
		"a key whose first call is in progress": {call: change, refuse: []error{fault.New(fault.Aborted, "wait").WithCode(fault.IdempotencyInProgress)}, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &failing{refuse: tc.refuse}
				client, ctx := f.client(t, tc.retries), t.Context()
				if tc.key != "" {
					ctx = sdk.WithIdempotencyKey(ctx, tc.key)
				}
				begun := time.Now()
				var err error
				switch tc.call {
				case read:
					_, err = client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{})
				case change:
					_, err = client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{})
				case login:
					_, err = client.Sessions.CreateSession(ctx, &deckhandv1.CreateSessionRequest{})
				}
				if tc.fails == fault.Internal {
					require.NoError(t, err)
				} else {
					require.True(t, sdk.IsKind(err, tc.fails), "%v", err)
				}
				require.Len(t, f.keys, tc.calls)
				require.GreaterOrEqual(t, time.Since(begun), tc.waits)
				for _, key := range f.keys {
					require.Equal(t, f.keys[0], key, "one call has one key")
				}
				switch {
				case tc.call != change || tc.retries < 0:
					require.Empty(t, f.keys[0])
				case tc.key != "":
					require.Equal(t, tc.key, f.keys[0])
				default:
					require.Greater(t, len(f.keys[0]), 20)
					require.False(t, strings.ContainsAny(f.keys[0], " \n"))
				}
			})
		})
	}
}

// A call is not tried again after its caller has gone, nor where its deadline would pass first.
func TestRetriesEndWithTheirCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &failing{refuse: []error{limited(20 * time.Second), limited(20 * time.Second)}}
		client := f.client(t, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begun := time.Now()
		_, err := client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{})
		require.Equal(t, sdk.CodeRateLimited, sdk.CodeOf(err))
		require.Zero(t, time.Since(begun))
		left, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		_, err = client.Tasks.GetTask(left, &deckhandv1.GetTaskRequest{})
		require.Equal(t, sdk.CodeRateLimited, sdk.CodeOf(err))
		require.Equal(t, time.Second, time.Since(begun))
		require.Len(t, f.keys, 2)
	})
}
