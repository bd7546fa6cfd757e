package hub

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/deckhand-sh/deckhand/hub/api/mcpserver"
	"github.com/deckhand-sh/deckhand/hub/api/rest"
	"github.com/deckhand-sh/deckhand/hub/egress/program"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// programs serves the API to programs in jails. Their requests come over the channels of
// nodes, not over the listener.
type programs struct {
	*program.Programs

	rates *auth.Rates
	// api is set before the hub starts.
	api atomic.Pointer[rest.Handler]
}

// Serve serves a request, or returns why it may not be made.
func (p *programs) Serve(w http.ResponseWriter, r *http.Request, orgID, nodeID, jailID, execID string) error {
	api := p.api.Load()
	if api == nil {
		return fault.New(fault.Unavailable, "the hub is starting").WithFix("try again in a moment")
	}
	if path := r.URL.Path; path != mcpserver.Path && path != rest.DocumentPath && !strings.HasPrefix(path, rest.Prefix) && !strings.HasPrefix(path, "/deckhand.v1.") {
		return fault.New(fault.NotFound, "programs in jails call the API only, and %.200q is no path of it", path).
			WithFix("use a path below %s, %s for MCP, or %s for a description", rest.Prefix, mcpserver.Path, rest.DocumentPath)
	}
	// Before the jail's tasks are looked up, which takes several queries.
	if err := p.rates.Jail(jailID); err != nil {
		return err
	}
	identify := func(ctx context.Context) (auth.Identity, error) {
		return p.Identify(ctx, program.Caller{OrgID: orgID, NodeID: nodeID, JailID: jailID, ExecID: execID})
	}
	id, err := identify(r.Context())
	if err != nil {
		return fmt.Errorf("identify a program: %w", err)
	}
	var used atomic.Bool
	r = r.Clone(auth.ByProgram(r.Context(), func(ctx context.Context) (auth.Identity, error) {
		if !used.Swap(true) {
			return id, nil // the request's own call; those that follow look again
		}
		return identify(ctx)
	}))
	for _, name := range append([]string{"Authorization", "Cookie"}, auth.ForwardedHeaders...) {
		r.Header.Del(name)
	}
	r.URL.Scheme, r.URL.Host, r.RequestURI, r.RemoteAddr = "", "", r.URL.RequestURI(), ""
	api.ServeHTTP(w, r)
	return nil
}
