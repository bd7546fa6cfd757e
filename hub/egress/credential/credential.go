// Package credential keeps the credentials of organisations that are inserted into requests
// of agents' commands on their way out of a jail, so that no command ever has one.
//
// Credentials is its service. It stores them, with their values encrypted; says which
// requests of an agent they are for (Bindings); and inserts them: the values that expire
// late never leave the hub, which inserts them itself (Insert), and for the others it issues
// tokens that expire soon, which a node inserts (Token). Record stores what the nodes report
// of the requests, and TestCredential tries one out.
//
// A node is not trusted to have decided: Token and Insert themselves check that a task runs in
// the jail whose persona lists the credential, that the credential's agents include its agent,
// and Insert that the request is one that the credential is for. If the credential was deleted
// or has expired, both return an error that says so.
//
// No value is in an error, an event or the audit log, and what is known of values and issued
// tokens is masked everywhere. If the vault's keyset is lost, the values are: rotate each of
// them. If the database cannot be read, nothing is inserted.
package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/singleflight"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Config holds the dependencies of Credentials.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Vault    *vault.Vault
	Redact   *redact.Redactor
	// Persona returns the persona of a task with the task's overrides.
	Persona func(ctx context.Context, t db.Task) (*persona.Persona, error)
	// Guard limits the networks in which the servers may be that the hub itself asks: those
	// that issue tokens, and those of a test.
	Guard dialguard.Guard
	// Ended is called after the value of a credential was replaced, or the credential was
	// deleted: nodes forget what they have of it. It must not block for long.
	Ended func(ctx context.Context, orgID, name string)
	Log   hclog.Logger
}

// Credentials keeps them. It is safe for concurrent use.
type Credentials struct {
	cfg    Config
	tokens *tokens
	// minting are the tokens that are being issued for this hub.
	minting singleflight.Group
	// refreshing has one for each use of a refresh token that is under way.
	refreshing chan struct{}
	// refreshers bounds those of each organisation.
	refreshers *fair.Lanes
}

// New creates Credentials.
func New(cfg Config) *Credentials {
	return &Credentials{cfg: cfg, tokens: newTokens(), refreshing: make(chan struct{}, maxRefreshes), refreshers: fair.NewLanes(ofOneOrg, waitingOfOrg)}
}

// Source names a credential among the sources of an organisation's secrets.
func Source(name string) string { return "egress credential " + name }

// object is what a sealed value is bound to, also in store.SealedColumns.
func object(orgID, name string) string { return "egress credential " + name + " of " + orgID }

// askTimeout bounds one request of the hub's own.
const askTimeout = 20 * time.Second

// client returns a client that sends requests of the hub's own, and what closes its
// connections. It follows no redirect, which would take a secret elsewhere.
func (c *Credentials) client(row db.EgressCredential) (*http.Client, func(), error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if row.Roots != "" {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM([]byte(row.Roots)) {
			return nil, nil, fault.New(fault.Precondition, "the roots of credential %s cannot be parsed", row.Name).WithCode(fault.CredentialRefused).
				WithFix("an administrator replaces them: deckhand credential update %s --roots FILE", row.Name)
		}
	}
	transport := c.cfg.Guard.Transport(func(t *http.Transport) { t.TLSClientConfig = cfg.Clone() })
	return &http.Client{
		Timeout: askTimeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, transport.CloseIdleConnections, nil
}
