package hub_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// silence is a provider that begins to answer and then says nothing more. It
// tells of each call that has begun, and of each whose caller is gone.
func silence(t *testing.T) (url string, begun, left chan struct{}) {
	t.Helper()
	begun, left = make(chan struct{}, 8), make(chan struct{}, 8)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			return // a key is tested
		}
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: ping\ndata: {\"type\":\"ping\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-req.Context().Done()
		left <- struct{}{}
	}))
	t.Cleanup(func() { provider.CloseClientConnections(); provider.Close() })
	return provider.URL, begun, left
}

// A model's answer that streams through one hub is cut off when the task
// is killed, cancelled or paused through another: the provider sees its caller
// leave, and the worker's next try is told that the lease has ended. That of
// another task goes on.
func TestAModelStreamIsCutWhenItsTaskIsStopped(t *testing.T) {
	t.Parallel()
	url, begun, left := silence(t)
	cfg := hubtest.Config(t)
	cfg.AnthropicBaseURL, cfg.AnthropicKey = url, config.Secret("the-provider-key")
	hubtest.NewNATS(t).Use(&cfg)
	r := newRigOn(t, hubtest.Start(t, cfg), nodetest.Config{})
	second := hubtest.Start(t, hubtest.Beside(t, cfg))
	r.apply("claude", strings.Replace(anthropicPersona("claude"), "limits:", "workspace: {scope: task}\nlimits:", 1))
	ask := func(lease *deckhandv1.Lease) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, second.URL()+"/relay/anthropic/v1/messages",
			strings.NewReader(`{"model":"claude-sonnet-4-5","max_tokens":9,"stream":true}`))
		require.NoError(t, err)
		req.Header.Set("X-Api-Key", fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken()))
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	soon := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(patience):
			t.Fatal(what)
		}
	}
	other := r.begin(r.submit("claude").GetId(), 1)
	require.Equal(t, http.StatusOK, ask(other).StatusCode)
	soon("the provider is not asked", begun)
	for what, stop := range map[string]func(id string){
		"kill": func(id string) { r.kill(deckhandv1.KillScope_KILL_SCOPE_TASK, id) },
		"cancel": func(id string) {
			_, err := r.user.Tasks.CancelTask(t.Context(), &deckhandv1.CancelTaskRequest{TaskId: id})
			require.NoError(t, err)
		},
		"pause": func(id string) {
			_, err := r.user.Tasks.PauseTask(t.Context(), &deckhandv1.PauseTaskRequest{TaskId: id})
			require.NoError(t, err)
		},
	} {
		lease := r.begin(r.submit("claude").GetId(), 1)
		res := ask(lease)
		require.Equal(t, http.StatusOK, res.StatusCode)
		soon("the provider is not asked", begun)
		ordered := time.Now()
		stop(lease.GetTaskId())
		soon(what+": the provider's answer is still waited for", left)
		t.Logf("%s: the stream was cut %s after the order", what, time.Since(ordered))
		_, err := io.ReadAll(res.Body)
		require.Error(t, err, "what was cut off is not taken for whole")
		again := ask(lease)
		require.Equal(t, http.StatusUnauthorized, again.StatusCode)
		require.Equal(t, string(fault.LeaseEnded), again.Header.Get(fault.CodeHeader))
		if what == "pause" {
			continue // its next turn will count it
		}
		// What was cut off is in the task's cost as it is in its budget.
		require.Eventually(t, func() bool {
			cost := r.task(lease.GetTaskId()).GetUsage().GetCostMicros()
			return cost > 0 && fmt.Sprint(cost) == r.sql("SELECT spent_micros::text FROM budget_accounts WHERE scope = 'task' AND object_id = $1", lease.GetTaskId())
		}, patience, 20*time.Millisecond, what)
	}
	require.Empty(t, left, "the other task's call goes on")
	r.kill(deckhandv1.KillScope_KILL_SCOPE_ORGANISATION, "")
	soon("the other task's call goes on", left)
}

// A provider that is disconnected is not used any more, not even by calls
// that are in progress.
func TestAModelStreamIsCutWhenItsProviderIsDisconnected(t *testing.T) {
	t.Parallel()
	url, begun, left := silence(t)
	r := newRigOn(t, hubtest.Shared(t), nodetest.Config{})
	_, err := r.user.Providers.ConnectProvider(t.Context(), &deckhandv1.ConnectProviderRequest{
		Name: "anthropic", BaseUrl: url, Key: "the-provider-key-0123",
	})
	require.NoError(t, err)
	r.apply("claude", anthropicPersona("claude"))
	lease := r.begin(r.submit("claude").GetId(), 1)
	answered := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL()+"/relay/anthropic/v1/messages",
			strings.NewReader(`{"model":"claude-sonnet-4-5","max_tokens":9,"stream":true}`))
		if err == nil {
			req.Header.Set("X-Api-Key", fmt.Sprintf("%s:%d:%s", lease.GetTaskId(), lease.GetAttempt(), lease.GetToken()))
			var res *http.Response
			if res, err = http.DefaultClient.Do(req); err == nil {
				_, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
		}
		answered <- err
	}()
	<-begun
	_, err = r.user.Providers.DisconnectProvider(t.Context(), &deckhandv1.DisconnectProviderRequest{Name: "anthropic"})
	require.NoError(t, err)
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatal("the provider's answer is still waited for")
	}
	require.Error(t, <-answered, "what was cut off is not taken for whole")
	res, body := r.askModel(lease, 9)
	require.Equal(t, http.StatusForbidden, res.StatusCode, body)
	require.Equal(t, string(fault.NoCredentials), res.Header.Get(fault.CodeHeader))
}
