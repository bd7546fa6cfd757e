package credential

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
)

// A hub is killed while it sends on requests with a secret that it keeps. When it is back, a
// request that changes nothing has a response as if nothing had been; one that may have changed
// something is not sent again, and says so.
func TestAHubIsKilledWhileItSendsRequestsOn(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan string, 10), make(chan struct{})
	host := newOrigin(t, "10.98.11.1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+bearer {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		arrived <- r.Method
		select {
		case <-gone:
			_, _ = io.WriteString(w, "answered afterwards")
		case <-r.Context().Done():
		}
	})
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(bearer), 0o600))
	f.CLI(0, "credential", "create", "api", "--kind", "bearer", "--host", host.host, "--port", host.port, "--roots", host.roots,
		"--private", "--agent", "caller", "--value-file", file)
	f.Persona("caller", `
turns:
  - text: I call.
    calls:
      - tool: shell_exec
        arguments:
          command: |
            curl -sS -X POST -d order=1 `+host.url()+`/orders > posted & curl -sS `+host.url()+`/orders > got
            wait; echo "POST: $(cat posted)"; echo "GET: $(cat got)"
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: called}}
`, "mode: autonomous", "approvals: {categories: []}", "credentials: [api]")
	id := f.Submit("caller")
	assert.ElementsMatch(t, []string{http.MethodGet, http.MethodPost}, []string{<-arrived, <-arrived})
	api, edge, bus := f.Hub.Addresses(t)
	f.Hub.Kill()
	close(gone)
	f.StartHub("--listen", api, "--edge-listen", edge, "--nats-listen", bus)
	f.Ended(id)
	var steps []struct{ Observation string }
	f.JSON(&steps, "task", "steps", id)
	assert.Contains(t, steps[0].Observation, "GET: answered afterwards")
	assert.Contains(t, steps[0].Observation, "may have taken effect")
	posts := 0
	for _, r := range host.seen() {
		if r.Method == http.MethodPost {
			posts++
		}
	}
	assert.Equal(t, 1, posts, "it is not sent twice")
}
