package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// The states of a part on the status page.
const (
	statusUp       = "up"
	statusDegraded = "degraded"
	statusDown     = "down"
	// statusRestarting is that of a service that has ended and is started again.
	statusRestarting = "restarting"
	// statusNone is that of nodes of which none is enrolled, and of what cannot be looked at
	// without the database.
	statusNone = "none"
)

// publicStatus is the page /status: whether Deckhand works, for people without a login. It names
// parts and their states, and neither causes nor counts, names or versions: /readyz and
// doctor have those. A PostgreSQL, NATS or containerd of this process is there while it is
// started again. Everybody may read it, so it looks at most once in statusEvery.
type publicStatus struct {
	hub   *Hub
	ready *readiness

	mu    sync.Mutex
	at    time.Time // of the last look
	shown statusPage
}

const (
	// statusEvery is how old what the page shows may be.
	statusEvery = 5 * time.Second
	// workerGone is after how long a worker that said nothing counts as gone.
	workerGone = time.Minute
)

// statusPage is the page as JSON.
type statusPage struct {
	// Status is "up", "degraded" (something works slower or in part) or "down" (nothing new
	// runs).
	Status string       `json:"status"`
	Parts  []statusPart `json:"parts"`
	// At is when it was looked at.
	At time.Time `json:"at"`
}

type statusPart struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// statusNames are the parts of readiness as people know them.
var statusNames = map[string]string{"serving": "api", "database": "database", "bus": "events", "vault": "secrets"}

func (s *publicStatus) look() statusPage {
	restarting := s.ready.restarting() // before a look that may wait for one of them
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.at) > statusEvery {
		s.shown = s.lookNow(context.Background())
		s.at = time.Now()
	}
	page := s.shown
	page.Parts = slices.Clone(page.Parts)
	for _, name := range restarting {
		page.Parts = append(page.Parts, statusPart{name, statusRestarting})
		if page.Status == statusUp {
			page.Status = statusDegraded
		}
	}
	return page
}

func (s *publicStatus) lookNow(ctx context.Context) statusPage {
	page := statusPage{Status: statusUp, At: time.Now().UTC().Truncate(time.Second)}
	for _, p := range s.ready.look() {
		is := statusUp
		switch {
		case p.problem != nil && p.counts:
			is = statusDown
		case p.problem != nil:
			is = statusDegraded
		}
		if name, known := statusNames[p.name]; known {
			page.Parts = append(page.Parts, statusPart{name, is})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	workers, nodes := statusNone, statusNone
	// Without the database, the page says that it is down.
	if alive, err := s.hub.store.Alive(ctx, db.AliveParams{WorkersAfter: workerGone, NodesAfter: nodeStaleIntervals * heartbeatInterval}); err == nil {
		workers = statusDown
		if alive.Workers {
			workers = statusUp
		}
		switch {
		case alive.Nodes == 0:
		case alive.Connected == 0:
			nodes = statusDown
		case alive.Connected < alive.Nodes:
			nodes = statusDegraded
		default:
			nodes = statusUp
		}
	}
	page.Parts = append(page.Parts, statusPart{"workers", workers}, statusPart{"nodes", nodes})
	for _, p := range page.Parts {
		switch {
		case p.Status == statusDown:
			page.Status = statusDown
		case p.Status == statusDegraded && page.Status == statusUp:
			page.Status = statusDegraded
		}
	}
	return page
}

// statusHead is the page's beginning. It loads itself again, and nothing else.
const statusHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="30">
<title>Deckhand status</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:30rem;margin:3rem auto;padding:0 1rem;color-scheme:light dark}
td{padding:.25rem 2rem .25rem 0}td:last-child{font-weight:600}</style></head><body>
`

// statusWords says what a state of the whole means.
var statusWords = map[string]string{
	statusUp: "Everything works.", statusDegraded: "It works, but a part is missing or slow.", statusDown: "A part that agents need is down.",
}

// ServeHTTP writes the page: HTML for browsers, JSON for others. The HTTP status is 200 also
// while something is down, since the page is there: monitors that need a status code use
// /readyz.
func (s *publicStatus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := s.look()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page) // the client sees a page that is cut off
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	var b strings.Builder
	b.WriteString(statusHead)
	fmt.Fprintf(&b, "<h1>Deckhand is %s</h1>\n<p>%s</p>\n<table>\n", page.Status, statusWords[page.Status])
	for _, p := range page.Parts {
		fmt.Fprintf(&b, "<tr><td>%s</td><td>%s</td></tr>\n", p.Name, p.Status)
	}
	fmt.Fprintf(&b, "</table>\n<p>As of %s.</p>\n</body></html>\n", page.At.Format("2006-01-02 15:04:05 MST"))
	fmt.Fprint(w, b.String())
}
