package auth

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/internal/fault"
	c "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// CookieName is the cookie that holds a session.
const CookieName = "deckhand_session"

// cookie returns what a request's session cookie holds; empty for none.
func cookie(header http.Header) string {
	found, err := (&http.Request{Header: header}).Cookie(CookieName)
	if err != nil {
		return ""
	}
	return found.Value
}

// SameOrigin refuses what a browser sends for another site's page with this
// hub's cookie, or to log somebody in: forged requests. What has a token in its
// header no browser sends by itself.
//
// Browsers say where a request comes from (Sec-Fetch-Site, Origin) with every
// one that may change something; one with a cookie that does not say is refused.
func SameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	errors := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := cookie(r.Header) != ""
		if r.Header.Get("Authorization") != "" || !held && r.URL.Path != c.SessionServiceCreateSessionProcedure {
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
		if protection.Check(checked) == nil && (safe || !held || !silent) {
			next.ServeHTTP(w, r)
			return
		}
		refused := fault.New(fault.Denied, "this call comes with a cookie, and not from a page of this hub").
			WithCode(fault.PermissionDenied).WithFix("programs use a token: Authorization: Bearer dhu_…")
		// Who does not read the refusal is refused as well.
		_ = errors.Write(w, r, fault.ToConnect(refused))
	})
}
