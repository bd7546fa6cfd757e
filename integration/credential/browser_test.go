package credential

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// In review mode a page is read, and nothing that it or its scripts send reaches its server: the
// node's proxy sees each request, also inside TLS, and lets GET, HEAD and OPTIONS pass to hosts
// that are marked read-only. Clicks wait for the review.
func TestABrowserInReviewModeOnlyReads(t *testing.T) {
	t.Parallel()
	var gets, others atomic.Int64
	site := newOrigin(t, "10.98.9.7", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			others.Add(1)
			return
		}
		gets.Add(1)
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>Shop</title><h1>Shop</h1><p id=said></p><form method=post action=/buy><button>Buy</button></form>
			<script>navigator.sendBeacon('/beacon', 'x'); fetch('/note', {method: 'POST', body: 'x'}).then((r) => said.textContent = 'status ' + r.status, () => said.textContent = 'no response');
			setTimeout(() => document.forms[0].submit(), 1500)</script>`)
	})
	f := harness.New(t)
	f.NodeEnv = trusting(t, site)
	f.StartNode()
	f.StartWorker()
	f.Persona("buyer", `
turns:
  - text: I look, and want to buy.
    calls:
      - {tool: browser_navigate, arguments: {url: "`+site.url()+`/"}}
      - {tool: browser_wait, arguments: {text: status 403}}
      - {tool: browser_click, arguments: {target: Buy}}
      - {tool: browser_wait, arguments: {seconds: 3}}
      - {tool: browser_navigate, arguments: {url: "https://10.98.9.8/"}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "looked"}}
`, "mode: review", `egress: {allow: [{host: "`+strings.TrimPrefix(site.url(), "https://")+`", read_only: true}, "10.98.9.8"]}`)
	id := strings.TrimSpace(f.CLI(0, "run", "buyer", "go on", "-o", "name").Out)
	waittest.Until(t, 2*time.Minute, "the run to wait for its review", func() bool { return f.Task(id).State == "TASK_STATE_REVIEW_NEEDED" })
	var steps []struct{ State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Contains(t, steps[0].Observation, `heading "Shop"`)
	require.Equal(t, "STEP_STATE_SUCCEEDED", steps[1].State, steps[1].Observation)
	require.Equal(t, "STEP_STATE_DEFERRED", steps[2].State)
	require.Contains(t, steps[4].Observation, "no rule allows 10.98.9.8:443", "it is not marked read-only")
	require.Positive(t, gets.Load())
	require.Zero(t, others.Load())
}
