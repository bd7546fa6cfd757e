package metricsserver_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/metricsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetricsAreServedUntilItStops(t *testing.T) {
	t.Parallel()
	s := metricsserver.New("127.0.0.1:0", metricsserver.NewRegistry(), nil, hclog.NewNullLogger())
	require.NoError(t, s.Start(t.Context()))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + s.Addr().String() + "/metrics")
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, string(body), "go_goroutines")
	require.Contains(t, string(body), "process_open_fds")

	again := metricsserver.New(s.Addr().String(), metricsserver.NewRegistry(), nil, hclog.NewNullLogger())
	require.ErrorContains(t, again.Start(t.Context()), "cannot listen on --metrics-listen")
	s.Stop()
	_, err = client.Get("http://" + s.Addr().String() + "/metrics")
	require.Error(t, err)
}

// A role says whether it is ready, and what it lacks.
func TestReadinessIsServedWithWhatIsMissing(t *testing.T) {
	t.Parallel()
	var problem atomic.Pointer[string]
	s := metricsserver.New("127.0.0.1:0", metricsserver.NewRegistry(), func() []metricsserver.ReadinessCheck {
		look := metricsserver.ReadinessCheck{What: "link"}
		if p := problem.Load(); p != nil {
			look.Problem = errors.New(*p)
		}
		return []metricsserver.ReadinessCheck{{What: "disk"}, look}
	}, hclog.NewNullLogger())
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(s.Stop)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		res, err := client.Get("http://" + s.Addr().String() + path)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	code, body := get("/readyz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "disk: ok\nlink: ok\n", body)
	away := "no session"
	problem.Store(&away)
	code, body = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "disk: ok\nlink: no session\n", body)
	code, body = get("/healthz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)
}
