package oidc

import (
	"context"
	"fmt"
	"net/http"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/deckhand-sh/deckhand/hub/identity/session"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// maxLogout bounds a request of the provider. Tokens have one to two KiB.
	maxLogout = 64 << 10
	// maxSID bounds the provider's name for a login.
	maxSID = 512
)

// logout ends the sessions of a login that has ended at the provider, which posts a
// signed logout token (OpenID Connect Back-Channel Logout 1.0, section 2.5). The response
// is also 200 if there was nothing to end: sessions may be over already.
//
// A token that is sent again does not end sessions that were created after it was issued.
func (l *Login) logout(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogout)
	if err := l.endSessions(r); err != nil {
		l.refuseLogout(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (l *Login) endSessions(r *http.Request) error {
	ctx := gooidc.ClientContext(r.Context(), l.client)
	forgive, err := l.sessions.Attempt(ctx, r.RemoteAddr)
	if err != nil {
		return err
	}
	token, err := l.logoutToken(ctx, r.PostFormValue("logout_token"))
	if err != nil {
		return err
	}
	forgive(ctx)
	org, err := l.store.OrganisationByName(ctx, l.cfg.Organisation)
	if err != nil {
		return fmt.Errorf("find organisation %s: %w", l.cfg.Organisation, err)
	}
	ended, err := l.sessions.EndByProvider(ctx, session.Logout{
		OrgID: org.ID, Issuer: token.Issuer, Subject: token.Subject, SID: token.SessionID, At: token.IssuedAt,
	}, event.Actor{Kind: event.Hub.Kind, ID: "oidc", Address: r.RemoteAddr})
	if err != nil {
		return err
	}
	l.log.Info("a login has ended at the OIDC provider", "sessions", ended)
	return nil
}

// logoutToken returns what the provider has signed.
func (l *Login) logoutToken(ctx context.Context, raw string) (*gooidc.LogoutToken, error) {
	provider, _, err := l.ask()
	if err != nil {
		return nil, err
	}
	token, err := provider.Verifier(&gooidc.Config{ClientID: l.cfg.ClientID}).VerifyLogout(ctx, raw)
	if err == nil && token.IssuedAt.IsZero() {
		err = fmt.Errorf("it has no iat")
	}
	if err == nil && len(token.SessionID) > maxSID {
		err = fmt.Errorf("its sid has more than %d bytes", maxSID)
	}
	if err != nil {
		l.log.Warn("a logout token is invalid", "issuer", l.cfg.Issuer, "error", err)
		return nil, fault.New(fault.Denied, "the logout token cannot be believed").
			WithFix("the provider has to sign it for this client, with iat, exp, jti and sub or sid")
	}
	return token, nil
}

// refuseLogout responds as section 2.8 of the specification requires.
func (l *Login) refuseLogout(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	switch e := fault.As(err); {
	case e == nil:
		l.log.Error("an OIDC logout failed", "error", err)
		status = http.StatusInternalServerError
	case e.Kind == fault.Unavailable:
		l.log.Warn("an OIDC logout failed", "error", e, "cause", e.Err)
		status = http.StatusServiceUnavailable
	case e.Kind == fault.Exhausted:
		status = http.StatusTooManyRequests
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintln(w, `{"error":"invalid_request"}`)
}
