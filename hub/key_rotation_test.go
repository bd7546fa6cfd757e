package hub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// A provider's key is replaced while calls run, and none fails, though the
// provider refuses the old key from the moment on at which the new one is there.
func TestAProvidersKeyIsReplacedWhileCallsRun(t *testing.T) {
	t.Parallel()
	var valid atomic.Int64
	key := func(n int64) string { return "the-key-of-the-provider-" + strconv.FormatInt(n, 10) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		now := valid.Load()
		// Both count until the old one is revoked.
		if got := req.Header.Get("X-Api-Key"); got != key(now) && got != key(now+1) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type":"message","usage":{"input_tokens":10,"output_tokens":1}}`))
	}))
	t.Cleanup(server.Close)
	r := newRig(t, hubtest.Shared(t), nil)
	put := func(n int64) error {
		_, err := r.user.Providers.ConnectProvider(t.Context(), &deckhandv1.ConnectProviderRequest{Name: "anthropic", Key: key(n), BaseUrl: server.URL})
		return err
	}
	require.NoError(t, put(0))
	r.apply("claude", anthropicPersona("claude"))
	lease := r.begin(r.submit("claude").GetId(), 1)
	stop, calls := make(chan struct{}), atomic.Int64{}
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, body := r.askModel(lease, 10)
				if res.StatusCode != http.StatusOK {
					t.Errorf("a call was answered with %d: %s", res.StatusCode, body)
				}
				calls.Add(1)
			}
		})
	}
	for n := int64(1); n <= 10; n++ {
		before := calls.Load()
		require.NoError(t, put(n))
		valid.Store(n) // the old one is revoked at once; calls that have it are in progress
		require.Eventually(t, func() bool { return calls.Load() > before+5 || t.Failed() }, patience, time.Millisecond)
	}
	close(stop)
	callers.Wait()
	list, err := r.user.Providers.ListProviders(t.Context(), &deckhandv1.ListProvidersRequest{})
	require.NoError(t, err)
	require.Nil(t, list.GetProviders()[0].GetRefusedAt())
}

// An operator rotates the keys of the vault on a hub with two replicas:
// whatever was sealed before is used afterwards, on both, and the old key is gone.
func TestWhatWasSealedBeforeARotationIsUsedAfterIt(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.RotationSettle = 5 * time.Second // a hub looks for newer keys every 2 s
	hubtest.NewNATS(t).Use(&cfg)
	node := &ran{}
	r := newRig(t, hubtest.Start(t, cfg), node.run)
	first, second := r.Hub, hubtest.Start(t, hubtest.Beside(t, cfg))
	r.through(second)
	r.apply("asker", asking("asker", "tools: [shell_exec]"))
	r.apply("other", asking("other", "tools: [shell_exec]"))
	// What retention has left behind is no sealed value: it keeps no old key.
	collected := r.submit("walker").GetId()
	ended := r.begin(collected, 1)
	r.turn(ended, 1)
	proposed, err := r.propose(ended, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	_, err = r.execute(ended, proposed.GetId())
	require.NoError(t, err)
	r.finish(ended)
	r.exec("UPDATE tasks SET finished_at = finished_at - interval '40 days' WHERE id = '" + collected + "'")
	_, err = r.user.Retention.SetRetention(t.Context(), &deckhandv1.SetRetentionRequest{Days: map[string]int32{"turns": 30, "steps": 30, "inbox": 30}})
	require.NoError(t, err)
	s := openStore(t, first)
	require.NoError(t, collector(s).Collect(t.Context()))
	require.Equal(t, "0", r.sql("SELECT length(arguments_sealed)::text FROM steps WHERE id = '"+proposed.GetId()+"'"))
	task, step, item := r.park("asker", "shell_exec", `{"command":"touch sealed-before"}`)
	res, err := r.user.Vault.RotateVault(t.Context(), &deckhandv1.RotateVaultRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 2, res.GetVault().GetKeys())
	require.NotNil(t, res.GetVault().GetRotatingSince())
	// Another is sealed meanwhile, by the hub that has not been asked.
	r.through(first)
	_, _, meanwhile := r.park("other", "shell_exec", `{"command":"touch sealed-meanwhile"}`)
	require.Eventually(t, func() bool {
		res, err := r.user.Vault.GetVault(t.Context(), &deckhandv1.GetVaultRequest{})
		require.NoError(t, err)
		return res.GetVault().GetKeys() == 1 && res.GetVault().GetRotatingSince() == nil
	}, 2*patience, 50*time.Millisecond)
	require.Equal(t, "1", r.sql("SELECT count(DISTINCT substring(sealed FROM 1 FOR 5))::text FROM (SELECT arguments_sealed AS sealed FROM steps WHERE length(arguments_sealed) > 0 UNION ALL SELECT sealed FROM cluster_secrets UNION ALL SELECT sealed FROM turns) s"))
	for _, h := range []*hubtest.Hub{first, second} {
		r.through(h)
		_, err = r.answer(approve(item.GetId(), ""))
		require.NoError(t, err)
		item = meanwhile
	}
	lease := r.begin(task.GetId(), 2)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	require.Equal(t, []string{"true", "touch sealed-before"}, node.all())
	require.Len(t, r.audited("vault.rotated"), 1)
	require.Len(t, r.audited("vault.keys_deleted"), 1)
}

// A hub masks a key that another hub was given in the logs of nodes, though
// it has not used it itself, and so does one that starts afterwards.
func TestAKeyThatAnotherHubWasGivenIsMasked(t *testing.T) {
	t.Parallel()
	const key = "canary-of-the-provider-0123456789"
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	cfg := hubtest.Config(t)
	hubtest.NewNATS(t).Use(&cfg)
	r := newRigOn(t, hubtest.Start(t, cfg), nodetest.Config{Live: func(_ context.Context, l *nodetest.Live) *nodev1.Exec {
		l.Write(nodev1.LogStream_LOG_STREAM_STDOUT, "the key is "+key[:9])
		l.Write(nodev1.LogStream_LOG_STREAM_STDOUT, key[9:]+"\n")
		return &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	}})
	second := hubtest.Start(t, hubtest.Beside(t, cfg))
	r.finish(r.begin(r.submit("walker").GetId(), 1))
	exec, err := startExec(t, r.user, onJail("walker", "true"))
	require.NoError(t, err)
	ended(t, r.user, exec.GetId())
	_, err = r.user.Providers.ConnectProvider(t.Context(), &deckhandv1.ConnectProviderRequest{Name: "anthropic", Key: key, BaseUrl: server.URL})
	require.NoError(t, err)
	for _, h := range []*hubtest.Hub{second, hubtest.Start(t, hubtest.Beside(t, cfg))} {
		client := h.Client(t, h.AdminToken)
		require.Eventually(t, func() bool {
			log, err := nodeLog(t, client, &deckhandv1.ReadNodeLogRequest{ExecId: exec.GetId()})
			require.NoError(t, err)
			return log["stdout"] == "the key is ⟦secret"+strings.Repeat("*", len(key)-len("⟦secret⟧"))+"⟧\n"
		}, patience, 50*time.Millisecond)
	}
}
