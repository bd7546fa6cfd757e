// Package credential stores how an organisation reaches its model providers: a base URL
// and a key that is encrypted at rest, tested with the provider before it is stored, and
// deleted when the provider is disconnected. Credentials is its service. A key leaves
// this package only towards the relay. If the keyset is lost, the keys are lost: connect
// the providers again.
package credential

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/deckhand-sh/deckhand/hub/model/websearch"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/provider"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/secretcheck"
)

// Config holds the dependencies of Credentials.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Vault    *vault.Vault
	Redact   *redact.Redactor
	// Preset are those that the hub was started with. They serve organisations
	// that have connected none of their own, and are not stored.
	Preset map[string]Access
	// Restored is called in the transaction in which a provider is connected, or its login
	// is renewed after it was refused; nil for nobody.
	Restored func(ctx context.Context, tx *event.Tx, orgID, provider string, by event.Actor) error
	// Guard limits the networks in which an organisation's servers may be.
	Guard dialguard.Guard
}

// Access is the way to a provider.
type Access struct {
	Provider provider.Provider
	BaseURL  string
	// Key is empty for a server that wants none.
	Key config.Secret
	// ConnectedAt names the key or token that Refuse is about, by when it came;
	// zero for a preset.
	ConnectedAt time.Time
	// Login reports that Key is a token of a login.
	Login bool
}

// Credentials keeps them.
type Credentials struct {
	cfg Config
	// client tests keys and asks for tokens. It follows no redirect, which would
	// take a key elsewhere.
	client *http.Client
	// renewals are those of logins that this hub has in progress.
	renewals singleflight.Group
}

// New creates Credentials.
func New(cfg Config) *Credentials {
	return &Credentials{cfg: cfg, client: &http.Client{
		Timeout:       15 * time.Second,
		Transport:     cfg.Guard.Transport(func(t *http.Transport) { t.IdleConnTimeout = time.Minute }),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Connection is what one connects with.
type Connection struct {
	OrgID, Provider string
	// BaseURL is empty for the provider's own.
	BaseURL string
	Key     config.Secret
	// Login is what to connect with instead of a key, or nil.
	Login *Login
	// ExpiresAt is when the key expires, if that is known.
	ExpiresAt *time.Time
	By        event.Actor
}

// Connect tests a key, or the token of a login, with its provider and stores it
// instead of the one before.
func (c *Credentials) Connect(ctx context.Context, in Connection) (db.Credential, error) {
	access, err := complete(in)
	if err != nil {
		return db.Credential{}, err
	}
	var login tokens
	if in.Login != nil {
		var expires time.Time
		if login, expires, err = c.login(ctx, access.Provider, *in.Login); err != nil {
			return db.Credential{}, err
		}
		access.Key, access.Login, in.ExpiresAt = config.Secret(login.Access), true, &expires
	}
	if err := c.test(ctx, access); err != nil {
		return db.Credential{}, err
	}
	params := db.PutCredentialParams{
		OrgID: in.OrgID, Provider: in.Provider, BaseUrl: access.BaseURL, ConnectedBy: in.By.ID, ExpiresAt: in.ExpiresAt, Login: access.Login,
	}
	switch {
	case access.Login:
		if params.Sealed, err = c.sealLogin(login, in.OrgID, in.Provider, access.BaseURL); err != nil {
			return db.Credential{}, err
		}
	case in.Key != "":
		params.Hint = hint(in.Key)
		if params.Sealed, err = c.cfg.Vault.Seal([]byte(in.Key.Reveal()), object(in.OrgID, in.Provider, access.BaseURL)); err != nil {
			return db.Credential{}, err
		}
	}
	var row db.Credential
	err = c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		if row, err = tx.PutCredential(ctx, params); err != nil {
			return fmt.Errorf("store the credential of %s: %w", in.Provider, err)
		}
		if err := c.restored(ctx, tx, in.OrgID, in.Provider, in.By); err != nil {
			return err
		}
		tx.AfterCommit(func() {
			c.learn(in.OrgID, in.Provider, append(login.values(), in.Key.Reveal())...)
			c.cfg.Recorder.Publish(change.QueueChanged{OrgID: in.OrgID})
		})
		return audit.Append(tx, audit.Entry{
			OrgID: in.OrgID, By: in.By, Action: "provider.connected", ObjectKind: "provider", ObjectID: in.Provider,
			After: map[string]any{"base_url": access.BaseURL, "key_ends_in": row.Hint, "login": row.Login},
		})
	})
	return row, err
}

// restored lets the work go on that waited for a provider.
func (c *Credentials) restored(ctx context.Context, tx *event.Tx, orgID, name string, by event.Actor) error {
	if c.cfg.Restored == nil {
		return nil
	}
	return c.cfg.Restored(ctx, tx, orgID, name, by)
}

// learn has values masked for the organisation that has stored them.
func (c *Credentials) learn(orgID, name string, values ...string) {
	c.cfg.Redact.Org(orgID).Learn(Source(name), values...)
}

// Source names a provider's key among the sources of an organisation's secrets.
func Source(provider string) string { return "credential " + provider }

// object is what a sealed key is bound to: a key that was meant for one address
// is not sent to another because a row was changed.
func object(orgID, name, baseURL string) string {
	return "credential " + name + " of " + orgID + " at " + baseURL
}

// hint is enough of a key to know it by.
func hint(key config.Secret) string {
	const least, shown = 16, 4
	if text := key.Reveal(); len(text) >= least {
		return text[len(text)-shown:]
	}
	return ""
}

const maxKey = 4096

// complete checks the form of what one connects with.
func complete(in Connection) (Access, error) {
	p, ok := provider.Of(in.Provider)
	if !ok || p.Format == provider.Script {
		return Access{}, fault.New(fault.Invalid, "provider %.60q is not one to connect to", in.Provider).
			WithFix("use one of %s", strings.Join(provider.Connectable(), ", "))
	}
	a := Access{Provider: p, BaseURL: strings.TrimRight(in.BaseURL, "/"), Key: in.Key}
	if a.BaseURL == "" {
		a.BaseURL = p.BaseURL
	}
	base, err := url.Parse(a.BaseURL)
	switch key := in.Key.Reveal(); {
	case a.BaseURL == "":
		return a, fault.New(fault.Invalid, "base_url is empty, and %s has no address of its own", p.Name).WithFix("say where the server is, for example http://10.0.0.7:8000/v1")
	case err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" || base.Scheme != "https" && base.Scheme != "http":
		return a, fault.New(fault.Invalid, "base_url is not a plain URL").WithFix("use https://host/path, without user, query and fragment")
	case in.Login != nil && key != "":
		return a, fault.New(fault.Invalid, "key and login are both given").WithFix("give one of them")
	case in.Login != nil:
	case key == "" && !p.KeyOptional:
		return a, fault.New(fault.Invalid, "key is empty").WithFix("give the key that %s has issued to you", p.Name)
	case len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return a, fault.New(fault.Invalid, "key is not a key: it holds spaces, line ends or characters that none has").WithFix("copy it again, whole and alone")
	case key != "" && secretcheck.Weak(key) != "":
		return a, fault.New(fault.Invalid, "key %s", secretcheck.Weak(key)).WithFix("copy it again, whole and alone; a server of your own wants a longer one, or none")
	case a.BaseURL == p.BaseURL && !strings.HasPrefix(key, p.KeyPrefix):
		return a, fault.New(fault.Invalid, "key is not one of %s: those begin with %s", p.Name, p.KeyPrefix).WithFix("copy the right one")
	}
	return a, nil
}

// test asks the provider for its models, which costs nothing, or a search engine
// for one result. An engine without a key has nothing to test: only nodes may be
// able to reach it.
func (c *Credentials) test(ctx context.Context, a Access) error {
	if a.Provider.Format.Searches() {
		if a.Key == "" {
			return nil
		}
		_, err := websearch.Search(ctx, c.client, a.Engine(), websearch.Query{Text: "deckhand", Count: 1})
		return err
	}
	path := "/models"
	switch a.Provider.Format {
	case provider.Messages:
		path = "/v1/models"
	case provider.Gemini:
		path = "/v1beta/models?pageSize=1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.BaseURL+path, nil)
	if err != nil {
		return fmt.Errorf("make the test of the key: %w", err)
	}
	a.Authorise(req.Header)
	if a.Provider.Format == provider.Messages {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	res, err := c.client.Do(req)
	if err != nil {
		if errors.Is(err, dialguard.ErrRefused) {
			return refusedAddress("base_url", err)
		}
		return fault.New(fault.Unavailable, "%s cannot be reached at %s", a.Provider.Name, a.BaseURL).
			WithFix("check base_url, and that the hub's machine may reach it").WithCause(err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden,
		a.Provider.Format == provider.Gemini && res.StatusCode == http.StatusBadRequest: // Gemini's status for a wrong key
		return fault.New(fault.Precondition, "%s refuses the key (HTTP %d)", a.Provider.Name, res.StatusCode).
			WithCode(fault.CredentialInvalid).WithFix("give a key that is valid")
	case res.StatusCode == http.StatusNotFound:
		return fault.New(fault.Precondition, "there is no model API at %s (HTTP 404)", a.BaseURL).WithFix("check base_url: for OpenAI's format it ends in /v1 mostly")
	case res.StatusCode == http.StatusTooManyRequests:
		return nil // it knows the key
	case res.StatusCode >= http.StatusMultipleChoices && res.StatusCode < http.StatusBadRequest:
		return fault.New(fault.Precondition, "%s answers with a redirect (HTTP %d), which is not followed", a.Provider.Name, res.StatusCode).WithFix("give base_url as the address that it leads to")
	case res.StatusCode >= http.StatusBadRequest:
		return fault.New(fault.Unavailable, "%s did not test the key (HTTP %d)", a.Provider.Name, res.StatusCode).WithFix("try again later, or check base_url")
	}
	return nil
}

// refusedAddress returns the error for an address in a network that organisations may not
// use.
func refusedAddress(field string, err error) *fault.Error {
	var of *net.OpError
	if errors.As(err, &of) {
		err = of.Err
	}
	return fault.New(fault.Denied, "%s cannot be used: %s", field, err).WithFix("use the https address of a public server, or have the hub's operator allow its network with --provider-allow")
}

// Authorise sets the header in which the provider reads the key.
func (a Access) Authorise(h http.Header) {
	key := a.Key.Reveal()
	if key == "" {
		return
	}
	if a.Provider.Format == provider.Gemini {
		// One may have taken the other's place since the header was written.
		h.Del("X-Goog-Api-Key")
		h.Del("Authorization")
	}
	switch format := a.Provider.Format; {
	case format == provider.Messages:
		h.Set("X-Api-Key", key)
	case format == provider.Gemini && !a.Login:
		h.Set("X-Goog-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}

// Engine is a search engine's access as it is asked with.
func (a Access) Engine() websearch.Engine {
	return websearch.Engine{Provider: a.Provider, BaseURL: a.BaseURL, Key: a.Key}
}

// Engine returns the search engine to ask: the first that is connected, in the
// order of provider.Engines.
func (c *Credentials) Engine(ctx context.Context, orgID string) (websearch.Engine, error) {
	for _, name := range provider.Engines() {
		access, err := c.Access(ctx, orgID, name)
		if e := fault.As(err); e != nil && e.Code == fault.NoCredentials {
			continue
		}
		return access.Engine(), err
	}
	return websearch.Engine{}, fault.New(fault.Precondition, "no search engine is connected").WithCode(fault.NoCredentials).
		WithFix("deckhand provider connect NAME, with one of %s", strings.Join(provider.Engines(), ", "))
}

// NotConnected returns the refusal for a provider that is not connected.
func NotConnected(name string) *fault.Error {
	return fault.New(fault.Precondition, "provider %s is not connected", name).
		WithCode(fault.NoCredentials).WithFix("deckhand provider connect %s", name)
}

// Access returns the way to a provider.
func (c *Credentials) Access(ctx context.Context, orgID, name string) (Access, error) {
	row, err := c.cfg.Store.GetCredential(ctx, db.GetCredentialParams{OrgID: orgID, Provider: name})
	if store.IsNotFound(err) {
		return c.Open(ctx, orgID, name, nil)
	}
	if err != nil {
		return Access{}, fmt.Errorf("load the credential of %s: %w", name, err)
	}
	return c.Open(ctx, orgID, name, &row)
}

// Open returns the access of a stored credential; nil if there is none. The token of a
// login is renewed when that is due.
func (c *Credentials) Open(ctx context.Context, orgID, name string, row *db.Credential) (Access, error) {
	p, ok := provider.Of(name)
	switch preset, has := c.cfg.Preset[name]; {
	case row == nil && has:
		return preset, nil
	case row == nil, !ok:
		return Access{}, NotConnected(name)
	}
	if row.Login {
		now, token, err := c.current(ctx, row)
		if err != nil || now.Login {
			return Access{Provider: p, BaseURL: now.BaseUrl, Key: token, ConnectedAt: obtained(now), Login: true}, err
		}
		row = now
	}
	a := Access{Provider: p, BaseURL: row.BaseUrl, ConnectedAt: row.ConnectedAt}
	if err := expired(row); err != nil {
		return a, err
	}
	if row.Sealed != nil {
		key, err := c.cfg.Vault.Open(row.Sealed, object(orgID, name, row.BaseUrl))
		if err != nil {
			return a, err
		}
		a.Key = config.Secret(key)
		c.learn(orgID, name, a.Key.Reveal())
	}
	return a, nil
}

// Values returns what was sealed, here or by another hub.
func (c *Credentials) Values(row db.SealedWithinRow) ([]string, error) {
	if row.Kind == "login" {
		t, err := c.openLogin(row.Sealed, row.OrgID, row.ID, row.Address)
		return t.values(), err
	}
	key, err := c.cfg.Vault.Open(row.Sealed, object(row.OrgID, row.ID, row.Address))
	return []string{string(key)}, err
}

// expired refuses what has ended. A login has when it was refused and its token
// is at its end; else that is renewed.
func expired(row *db.Credential) error {
	if row.Login {
		if row.RefusedAt != nil && due(row) {
			return loginRefused(row.Provider, "since "+row.RefusedAt.UTC().Format(time.RFC3339))
		}
		return nil
	}
	if row.ExpiresAt == nil || row.ExpiresAt.After(time.Now()) {
		return nil
	}
	return fault.New(fault.Precondition, "the key of %s has expired", row.Provider).
		WithCode(fault.CredentialInvalid).WithFix("deckhand provider connect %s", row.Provider)
}

// Usable refuses a provider that an organisation cannot call: it is not
// connected, or its key has expired. A script needs no connection. It reads
// with q.
func (c *Credentials) Usable(ctx context.Context, q *db.Queries, orgID, name string) error {
	if p, ok := provider.Of(name); ok && p.Format == provider.Script {
		return nil
	}
	row, err := q.GetCredential(ctx, db.GetCredentialParams{OrgID: orgID, Provider: name})
	if store.IsNotFound(err) {
		if _, has := c.cfg.Preset[name]; has {
			return nil
		}
		return NotConnected(name)
	}
	if err != nil {
		return fmt.Errorf("load the credential of %s: %w", name, err)
	}
	return expired(&row)
}

// Use is an organisation's use of a credential.
type Use struct{ OrgID, Provider string }

// Disconnected returns those that are no longer connected, in one query.
func (c *Credentials) Disconnected(ctx context.Context, uses []Use) ([]Use, error) {
	var params db.ConnectedProvidersParams
	for _, u := range uses {
		params.Orgs, params.Providers = append(params.Orgs, u.OrgID), append(params.Providers, u.Provider)
	}
	rows, err := c.cfg.Store.ConnectedProviders(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("query %d credentials: %w", len(uses), err)
	}
	return slices.DeleteFunc(slices.Clone(uses), func(u Use) bool {
		return slices.Contains(rows, db.ConnectedProvidersRow{OrgID: u.OrgID, Provider: u.Provider})
	}), nil
}

// Refuse notes that the provider refuses a key.
func (c *Credentials) Refuse(ctx context.Context, orgID string, a Access) error {
	if a.ConnectedAt.IsZero() {
		return nil
	}
	return c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		n, err := tx.RefuseCredential(ctx, db.RefuseCredentialParams{OrgID: orgID, Provider: a.Provider.Name, ConnectedAt: a.ConnectedAt})
		if err != nil || n == 0 { // another one is connected, or it is known
			return err
		}
		return stop.OpenProvider(ctx, tx, orgID, "", a.Provider.Name, stop.Refused, a.Provider.Name+" refuses the key (HTTP 401).")
	})
}

// List returns a page of what is connected, by name, and the next page's token. Of a
// preset only the name, the address and the hint are set.
func (c *Credentials) List(ctx context.Context, orgID, page string, size int32) ([]db.ListCredentialsRow, string, error) {
	after, _, err := store.ParseNameToken(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := c.cfg.Store.ListCredentials(ctx, db.ListCredentialsParams{OrgID: orgID, AfterName: after, MaxRows: size + 1})
	if err != nil {
		return nil, "", fmt.Errorf("list credentials: %w", err)
	}
	has := map[string]bool{}
	for _, row := range rows {
		has[row.Credential.Provider] = true
	}
	for _, name := range provider.Connectable() {
		if preset, ok := c.cfg.Preset[name]; ok && !has[name] && name > after {
			rows = append(rows, db.ListCredentialsRow{Credential: db.Credential{
				OrgID: orgID, Provider: name, BaseUrl: preset.BaseURL, Hint: hint(preset.Key), ConnectedBy: "the hub's environment",
			}})
		}
	}
	slices.SortFunc(rows, func(a, b db.ListCredentialsRow) int {
		return strings.Compare(a.Credential.Provider, b.Credential.Provider)
	})
	rows, next := store.Page(rows, size, func(last db.ListCredentialsRow) string { return store.NameToken(last.Credential.Provider, "") })
	return rows, next, nil
}

// TestCall asks a connected provider for its models, or a search engine for one result.
func (c *Credentials) TestCall(ctx context.Context, orgID, name string) error {
	access, err := c.Access(ctx, orgID, name)
	if err != nil {
		return err
	}
	return c.test(ctx, access)
}

// Disconnect deletes a key.
func (c *Credentials) Disconnect(ctx context.Context, orgID, name string, by event.Actor) error {
	return c.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.DeleteCredential(ctx, db.DeleteCredentialParams{OrgID: orgID, Provider: name})
		if store.IsNotFound(err) {
			if _, ok := c.cfg.Preset[name]; ok {
				return fault.New(fault.Precondition, "provider %s comes from the hub's environment", name).WithFix("start the hub without its key")
			}
			return fault.New(fault.NotFound, "provider %.60q is not connected", name).WithFix("deckhand provider list")
		}
		if err != nil {
			return fmt.Errorf("delete the credential of %s: %w", name, err)
		}
		// Tasks that wait for the provider still do.
		if n, err := tx.CountStoppedTasks(ctx, db.CountStoppedTasksParams{OrgID: orgID, Kind: string(stop.Provider), Subject: name}); err != nil {
			return fmt.Errorf("count the tasks that wait for %s: %w", name, err)
		} else if n == 0 {
			if err := stop.Withdraw(ctx, tx.Queries, orgID, stop.Provider, name, "it was disconnected by "+by.ID); err != nil {
				return err
			}
		}
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "provider.disconnected", ObjectKind: "provider", ObjectID: name,
			Before: map[string]any{"base_url": row.BaseUrl, "key_ends_in": row.Hint},
		})
	})
}
