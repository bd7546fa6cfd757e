package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/enrollment/v1/enrollmentv1connect"
)

// readyTimeout bounds each look at what the hub needs.
const readyTimeout = 3 * time.Second

// readiness reports whether callers should come to this hub: over HTTP at /readyz
// and as gRPC's health service. A hub that was told to stop is not ready, and
// neither is one whose database does not answer or is of another release.
//
// A bus that is away is told of and does not count: the database is polled
// meanwhile, and a balancer that took every hub away would stop what still
// works. Nor does a missing root key of the vault count, until the keys that it
// encrypts have changed.
type readiness struct {
	hub      *Hub
	draining context.Context

	mu    sync.Mutex
	at    time.Time // of the last look
	parts []part
}

// part is one thing that the hub needs.
type part struct {
	name    string
	problem error
	// counts says that the hub is not ready without it.
	counts bool
}

// ready reports whether a hub with these parts is ready.
func ready(parts []part) bool {
	return !slices.ContainsFunc(parts, func(p part) bool { return p.counts && p.problem != nil })
}

var _ grpchealth.Checker = (*readiness)(nil)

// restarting returns the names of the supervised services that are being restarted. It does no I/O.
func (r *readiness) restarting() (names []string) {
	for _, s := range r.hub.supervised {
		if s.Restarting() {
			names = append(names, s.Name)
		}
	}
	return names
}

// errRestarting is what is said of a service of restarting.
var errRestarting = errors.New("it ended and is being started again; what depends on it waits")

// look returns each thing that the hub needs, and the services that are started again just
// now. Anybody may ask, however often: it is looked at once a second, and why something is not
// as it should be stands in the log.
func (r *readiness) look() []part {
	restarting := r.restarting() // before a look that may wait for one of them
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) > time.Second || r.draining.Err() != nil {
		r.parts = r.lookNow(context.Background())
		r.at = time.Now()
	}
	parts := slices.Clone(r.parts)
	for _, name := range restarting {
		parts = append(parts, part{name, errRestarting, false})
	}
	return parts
}

func (r *readiness) lookNow(ctx context.Context) (parts []part) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	say := func(name string, problem error, counts bool) { parts = append(parts, part{name, problem, counts}) }
	var leaving error
	if r.draining.Err() != nil {
		leaving = fmt.Errorf("this hub is stopping")
	}
	say("serving", leaving, true)
	database := r.hub.store.Current(ctx)
	if database != nil {
		r.hub.cfg.Log.Warn("the database cannot be used", "error", database)
		database = errors.New("it cannot be used: see the hub's log")
	}
	say("database", database, true)
	say("bus", r.hub.bus.Connected(), false)
	if why := r.hub.vault.Unreadable(); why != nil {
		say("vault", fmt.Errorf("this hub lacks %s: give it the keyset.json of the hub where deckhand vault rotate-root ran; see the hub's log", why.Missing), why.Stale)
	} else {
		say("vault", nil, false)
	}
	return parts
}

// ServeHTTP answers 200 or 503, and why.
func (r *readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	parts := r.look()
	if !ready(parts) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, p := range parts {
		switch {
		case p.problem == nil:
			fmt.Fprintf(w, "%s: ok\n", p.name)
		case p.counts:
			fmt.Fprintf(w, "%s: %s\n", p.name, p.problem)
		default:
			fmt.Fprintf(w, "%s: degraded: %s\n", p.name, p.problem)
		}
	}
}

// Check implements grpchealth.Checker: every service is as ready as the hub.
func (r *readiness) Check(_ context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if req.Service != "" && req.Service != enrollmentv1connect.EnrollmentServiceName && !strings.HasPrefix(req.Service, "deckhand.v1.") {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no service %q", req.Service))
	}
	if !ready(r.look()) {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
