package scrape_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/deckhand-sh/deckhand/internal/scrape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMetricsAreServedUntilItStops(t *testing.T) {
	t.Parallel()
	s := scrape.New("127.0.0.1:0", scrape.NewRegistry(), hclog.NewNullLogger())
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

	again := scrape.New(s.Addr().String(), scrape.NewRegistry(), hclog.NewNullLogger())
	require.ErrorContains(t, again.Start(t.Context()), "cannot listen on metrics-listen")
	s.Stop()
	_, err = client.Get("http://" + s.Addr().String() + "/metrics")
	require.Error(t, err)
}
