package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Login is what a login by OAuth 2.0 with PKCE (RFC 7636) has ended with.
type Login struct {
	ClientID string
	// ClientSecret is empty for a public client.
	ClientSecret config.Secret
	// TokenURL is empty for the provider's own.
	TokenURL string
	// Code came to RedirectURL, and Verifier is what its challenge was made from.
	Code, Verifier config.Secret
	RedirectURL    string
}

// early is how long before its end a token is renewed, or half its life where
// that is shorter.
const early = 5 * time.Minute

// A renewed token is stored again storeTries times if the database fails, with storePause
// between, since the server may refuse the refresh token before it.
const (
	storeTries = 5
	storePause = 500 * time.Millisecond
)

// unsaid is the assumed lifetime of a token whose server does not state one.
const unsaid = time.Hour

// tokens is what is sealed of a login.
type tokens struct {
	Access string `json:"access"`
	// Refresh is empty when the provider has refused it.
	Refresh      string `json:"refresh,omitempty"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret,omitempty"`
	TokenURL     string `json:"token_url"`
}

func (t tokens) values() []string {
	var out []string
	for _, v := range []string{t.Access, t.Refresh, t.ClientSecret} {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}

func (t tokens) config(redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: t.ClientID, ClientSecret: t.ClientSecret, RedirectURL: redirect,
		// Set explicitly, or the library would send a code twice to find out.
		Endpoint: oauth2.Endpoint{TokenURL: t.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
}

// took takes what the server has answered.
func (t *tokens) took(got *oauth2.Token) (expires time.Time) {
	t.Access, t.Refresh = got.AccessToken, got.RefreshToken
	if got.Expiry.IsZero() {
		return time.Now().Add(unsaid)
	}
	return got.Expiry
}

// loginObject is what a sealed login is bound to; see object.
func loginObject(orgID, name, baseURL string) string {
	return "login " + name + " of " + orgID + " at " + baseURL
}

func (c *Credentials) sealLogin(t tokens, orgID, name, baseURL string) ([]byte, error) {
	plain, err := json.Marshal(t) //nolint:gosec // it is sealed
	if err != nil {
		return nil, fmt.Errorf("write the login to %s: %w", name, err)
	}
	return c.cfg.Vault.Seal(plain, loginObject(orgID, name, baseURL))
}

func (c *Credentials) openLogin(sealed []byte, orgID, name, baseURL string) (t tokens, err error) {
	plain, err := c.cfg.Vault.Open(sealed, loginObject(orgID, name, baseURL))
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(plain, &t); err != nil {
		return t, fmt.Errorf("read the login to %s: %w", name, err)
	}
	c.learn(orgID, name, t.values()...)
	return t, nil
}

// login exchanges the code for tokens.
func (c *Credentials) login(ctx context.Context, p provider.Provider, in Login) (t tokens, expires time.Time, err error) {
	t = tokens{ClientID: in.ClientID, ClientSecret: in.ClientSecret.Reveal(), TokenURL: in.TokenURL}
	if p.Login == nil {
		return t, expires, fault.New(fault.Invalid, "%s has no login", p.Name).WithFix("connect it with a key: deckhand provider connect %s --key-file FILE", p.Name)
	}
	if t.TokenURL == "" {
		t.TokenURL = p.Login.TokenURL
	}
	at, err := url.Parse(t.TokenURL)
	if err != nil || at.Host == "" || at.User != nil || at.Fragment != "" || at.Scheme != "https" && at.Scheme != "http" {
		return t, expires, fault.New(fault.Invalid, "token_url is not a plain URL").WithFix("use https://host/path")
	}
	got, err := t.config(in.RedirectURL).Exchange(c.tokenContext(ctx), in.Code.Reveal(), oauth2.VerifierOption(in.Verifier.Reveal()))
	if err != nil {
		return t, expires, tokenFault(p.Name, err, append(t.values(), in.Code.Reveal(), in.Verifier.Reveal())...)
	}
	expires = t.took(got)
	if t.Refresh == "" {
		return t, expires, fault.New(fault.Precondition, "%s gave no refresh token: the login would end with its first token", p.Name).
			WithCode(fault.CredentialInvalid).WithFix("allow the application offline access, and log in again")
	}
	return t, expires, nil
}

// tokenContext returns a context in which the token endpoint is called with the client
// for providers. It follows no redirect, which would send secrets elsewhere.
func (c *Credentials) tokenContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, c.client)
}

// tokenFault returns the error for a missing token. The server's text besides its code is
// left out: it may quote the secrets that were sent.
func tokenFault(name string, err error, sent ...string) *fault.Error {
	var said *oauth2.RetrieveError
	if errors.Is(err, dialguard.ErrRefused) {
		return refusedAddress("token_url", err)
	}
	if !errors.As(err, &said) {
		return fault.New(fault.Unavailable, "the login server of %s cannot be reached, or its answer be read", name).
			WithFix("check token_url, and that the hub's machine may reach it").WithCause(err)
	}
	switch said.ErrorCode {
	case "invalid_grant", "invalid_client", "unauthorized_client":
		return loginRefused(name, said.ErrorCode)
	}
	var mask redact.Redactor
	mask.Add(sent...)
	status := 0
	if said.Response != nil {
		status = said.Response.StatusCode
	}
	return fault.New(fault.Unavailable, "the login server of %s gave no token (HTTP %d %s)", name, status, mask.String(fmt.Sprintf("%.60q", said.ErrorCode))).
		WithFix("try again later, or check the client and token_url")
}

func loginRefused(name, why string) *fault.Error {
	return fault.New(fault.Precondition, "%s refuses the login (%s)", name, why).WithCode(fault.CredentialInvalid).WithFix("%s", ConnectAgain(name, true))
}

// ConnectAgain returns what to do about a key or login that is refused.
func ConnectAgain(name string, login bool) string {
	if login {
		return "deckhand provider connect " + name + " --oauth"
	}
	return "deckhand provider connect " + name
}

// obtained is when a credential's key or token came; it names that one.
func obtained(row *db.Credential) time.Time {
	if row.RefreshedAt != nil {
		return *row.RefreshedAt
	}
	return row.ConnectedAt
}

// due reports whether a login's token is to be renewed.
func due(row *db.Credential) bool {
	if row.ExpiresAt == nil {
		return false
	}
	before := min(early, row.ExpiresAt.Sub(obtained(row))/2)
	return !row.ExpiresAt.After(time.Now().Add(before))
}

// current returns a login's token, and renews it first when that is due. If renewing
// fails temporarily, the existing token is used until it expires.
func (c *Credentials) current(ctx context.Context, row *db.Credential) (*db.Credential, config.Secret, error) {
	if due(row) {
		name := row.Provider
		now, err, _ := c.renewals.Do(row.OrgID+" "+name, func() (any, error) { return c.renew(ctx, row.OrgID, name) })
		switch fresh, _ := now.(*db.Credential); {
		case err == nil:
			row = fresh
		case !fault.Is(err, fault.Unavailable) || !row.ExpiresAt.After(time.Now()):
			return row, "", err
		}
	}
	if !row.Login {
		return row, "", nil // a key has replaced it by now
	}
	t, err := c.openLogin(row.Sealed, row.OrgID, row.Provider, row.BaseUrl)
	return row, config.Secret(t.Access), err
}

// renew refreshes a login's token unless another hub already did. A row lock ensures that
// only one hub refreshes it. Once begun it is not cancelled with the call that needed it,
// since a refresh token may work only once.
func (c *Credentials) renew(ctx context.Context, orgID, name string) (*db.Credential, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var row db.Credential
	var got *oauth2.Token
	var refused *fault.Error
	step := func(tx *event.Tx) (err error) {
		row, err = tx.LockCredential(ctx, db.LockCredentialParams{OrgID: orgID, Provider: name})
		if store.IsNotFound(err) {
			return NotConnected(name)
		}
		if err != nil {
			return fmt.Errorf("lock the credential of %s: %w", name, err)
		}
		if !row.Login || !due(&row) {
			return nil
		}
		t, err := c.openLogin(row.Sealed, orgID, name, row.BaseUrl)
		if err != nil {
			return err
		}
		if got == nil {
			if t.Refresh == "" {
				return loginRefused(name, "it was refused before")
			}
			if got, err = t.config("").TokenSource(c.tokenContext(ctx), &oauth2.Token{RefreshToken: t.Refresh}).Token(); err != nil {
				if refused = tokenFault(name, err, t.values()...); refused.Code != fault.CredentialInvalid {
					return refused
				}
				return c.endLogin(ctx, tx, &row, t, refused)
			}
		}
		expires := t.took(got)
		sealed, err := c.sealLogin(t, orgID, name, row.BaseUrl)
		if err != nil {
			return err
		}
		tx.AfterCommit(func() { c.learn(orgID, name, t.values()...) })
		if row.RefusedAt != nil {
			if err := c.restored(ctx, tx, orgID, name, event.Hub); err != nil {
				return err
			}
		}
		if row, err = tx.RenewCredential(ctx, db.RenewCredentialParams{Sealed: sealed, ExpiresAt: &expires, OrgID: orgID, Provider: name}); err != nil {
			return fmt.Errorf("store the token of %s: %w", name, err)
		}
		return nil
	}
	err := c.cfg.Recorder.Tx(ctx, step)
	for try := 0; err != nil && got != nil && try < storeTries; try++ {
		time.Sleep(storePause)
		err = c.cfg.Recorder.Tx(ctx, step)
	}
	if err == nil && refused != nil {
		return nil, refused
	}
	return &row, err
}

// endLogin records that the provider refuses a login, and deletes its refresh token,
// which is useless from then on.
func (c *Credentials) endLogin(ctx context.Context, tx *event.Tx, row *db.Credential, t tokens, why *fault.Error) error {
	t.Refresh = ""
	sealed, err := c.sealLogin(t, row.OrgID, row.Provider, row.BaseUrl)
	if err != nil {
		return err
	}
	if _, err := tx.EndLogin(ctx, db.EndLoginParams{Sealed: sealed, OrgID: row.OrgID, Provider: row.Provider}); err != nil {
		return fmt.Errorf("record that %s refuses the login: %w", row.Provider, err)
	}
	if err := stop.OpenProvider(ctx, tx, row.OrgID, "", row.Provider, stop.Refused, why.Message); err != nil {
		return err
	}
	return audit.Append(tx, audit.Entry{
		OrgID: row.OrgID, By: event.Hub, Action: "provider.refused", ObjectKind: "provider", ObjectID: row.Provider,
		After: map[string]any{"base_url": row.BaseUrl, "reason": why.Message},
	})
}
