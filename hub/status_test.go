package hub_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// Without a login, people and programs see which parts work, and no names, counts or causes.
func TestTheStatusPage(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	nats := hubtest.NewNATS(t)
	nats.Use(&cfg)
	r := newRig(t, hubtest.Start(t, cfg), output("done\n")) // it has a worker and a node
	get := func(accept string) (string, *http.Response) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.Hub.URL()+"/status", nil)
		require.NoError(t, err)
		req.Header.Set("Accept", accept)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		return string(body), res
	}
	look := func() (status string, parts string) {
		body, res := get("*/*")
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		var page struct {
			Status string
			Parts  []struct{ Name, Status string }
			At     time.Time
		}
		require.NoError(t, json.Unmarshal([]byte(body), &page), body)
		require.WithinDuration(t, time.Now(), page.At, waittest.Limit(time.Minute))
		var out []string
		for _, p := range page.Parts {
			out = append(out, p.Name+" "+p.Status)
		}
		return page.Status, strings.Join(out, ", ")
	}
	until := func(status, parts string) {
		t.Helper()
		var is, has string
		require.Eventually(t, func() bool { is, has = look(); return is == status && has == parts }, patience, 200*time.Millisecond, "%s: %s", is, has)
	}
	until("up", "api up, database up, events up, secrets up, workers up, nodes up")
	page, res := get("text/html,*/*")
	require.Contains(t, page, "<h1>Deckhand is up</h1>")
	require.Contains(t, page, "<td>workers</td><td>up</td>")
	require.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'")

	nats.Stop()
	r.exec("UPDATE workers SET last_seen_at = last_seen_at - interval '1 day'")
	until("down", "api up, database up, events degraded, secrets up, workers down, nodes up")
	body, _ := get("text/html")
	require.NotContains(t, body, "NATS", "causes are for operators")
}
