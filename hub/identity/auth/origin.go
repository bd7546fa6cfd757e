package auth

import (
	"net/http"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	c "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// CookieName is the cookie that holds a session.
const CookieName = "deckhand_session"

// cookie returns the value of a request's session cookie; empty for none.
func cookie(header http.Header) string {
	found, err := (&http.Request{Header: header}).Cookie(CookieName)
	if err != nil {
		return ""
	}
	return found.Value
}

// SameOrigin refuses cross-site request forgery: requests that a browser sends for
// another site's page with this hub's cookie, or to log a user in. A browser never sends
// a token in a header by itself.
//
// Browsers state the origin (Sec-Fetch-Site, Origin) with every request that may change
// something; one with a cookie that does not state it is refused. Pages of the public URL
// are this hub's, whatever name a proxy calls it by; the same name over plain HTTP is not,
// where the URL begins with https. refuse writes a refusal.
func SameOrigin(public PublicURL, refuse func(http.ResponseWriter, *http.Request, error), next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	if public.Origin != "" {
		// ParsePublicURL made it, so it is an origin.
		_ = protection.AddTrustedOrigin(public.Origin)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := cookie(r.Header) != ""
		if r.Header.Get("Authorization") != "" || !held && !logsIn(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		checked := r
		if r.Header.Get("Upgrade") != "" {
			// A GET, but what comes after it may change something.
			checked = r.Clone(r.Context())
			checked.Method = http.MethodPost
		}
		safe := checked.Method == http.MethodGet || checked.Method == http.MethodHead || checked.Method == http.MethodOptions
		silent := r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == ""
		if protection.Check(checked) == nil && (safe || !held || !silent) && (safe || !public.otherScheme(r.Header.Get("Origin"))) {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, r, fault.New(fault.Denied, "this call comes with a cookie, and not from a page of this hub").
			WithCode(fault.PermissionDenied).WithFix("programs use a token: Authorization: Bearer dhu_…"))
	})
}

// logsIn reports whether a path is one at which a session is made: of the RPC or by REST.
// A request that a server may read as such a path counts.
func logsIn(path string) bool {
	return path == c.SessionServiceCreateSessionProcedure || strings.HasPrefix(strings.ToLower(path), "/v1/sessions")
}
