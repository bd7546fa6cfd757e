package credential

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/egress/mint"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// margin is how long before a token expires another one is issued; for tokens of less
	// than five margins, a fifth of their life.
	margin = 2 * time.Minute
	// unknownLife is for how long a token is used whose server does not say when it expires.
	unknownLife = 5 * time.Minute
	// refusedFor is for how long a server that refuses is not asked again.
	refusedFor = 10 * time.Second
	// maxTokens bounds how many tokens a hub keeps.
	maxTokens = 10_000
	// mintTimeout bounds the requests for one token.
	mintTimeout = 45 * time.Second
	// gitHubUser is the name with which GitHub takes a token as a password.
	gitHubUser = "x-access-token"
)

// Token returns what a node inserts for a credential whose values do not leave the hub: a token
// that expires soon, for the repositories and permissions that the persona wants. It is issued
// once for all who ask, and again shortly before it expires. target is the host and port that it
// is sent to, which may not be one of the credential's any more; empty if the node does not say.
func (c *Credentials) Token(ctx context.Context, orgID, nodeID, jailID, name, target string) (egresslink.Token, error) {
	u, err := c.use(ctx, orgID, nodeID, jailID, name)
	if err != nil {
		return egresslink.Token{}, err
	}
	if Kind(u.row.Kind).Held() {
		return egresslink.Token{}, fault.New(fault.Denied, "credential %s does not leave the hub", name).WithCode(fault.CredentialRefused).WithObject(name).
			WithFix("send the request through the hub, which inserts it")
	}
	if target != "" {
		// With any method and path: the node decides about those.
		if err := goesTo(u.row, target); err != nil {
			return egresslink.Token{}, err
		}
	}
	scope, err := narrow(u.row, u.settings, u.want)
	if err != nil {
		return egresslink.Token{}, err
	}
	token, err := c.tokenOf(ctx, u, scope)
	if err != nil {
		return egresslink.Token{}, err
	}
	out := egresslink.Token{
		Headers: map[string]string{"Authorization": "Bearer " + token.Value},
		Secrets: []string{token.Value}, ExpiresAt: token.until,
	}
	if Kind(u.row.Kind) == GitHubApp {
		basic := encodedBasic(gitHubUser, token.Value)
		out.GitHeaders, out.Secrets = map[string]string{"Authorization": "Basic " + basic}, append(out.Secrets, basic)
	}
	return out, nil
}

// tokenOf returns a token of a credential that was neither replaced nor deleted while it was
// issued.
func (c *Credentials) tokenOf(ctx context.Context, u use, scope narrowed) (kept, error) {
	token, err := c.issue(ctx, u.row, u.settings, scope)
	if err != nil {
		return kept{}, err
	}
	orgID, name := u.row.OrgID, u.row.Name
	now, err := c.cfg.Store.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: orgID, Name: name})
	switch {
	case store.IsNotFound(err):
		c.tokens.forget(orgID, name)
		return kept{}, gone(name)
	case err != nil:
		return kept{}, fmt.Errorf("load credential %s: %w", name, err)
	case now.Version != u.row.Version:
		return kept{}, replaced(name)
	}
	return token, nil
}

// issue returns a token, from those that this hub has if it can.
func (c *Credentials) issue(ctx context.Context, row db.EgressCredential, settings *deckhandv1.CredentialSettings, scope narrowed) (kept, error) {
	key := tokenKey{row.OrgID, row.Name, row.Version, scope.text()}
	if k, ok := c.tokens.get(key, time.Now()); ok {
		return k, k.err
	}
	// It goes on if the first who asks leaves: others wait for it too.
	result := c.minting.DoChan(strings.Join([]string{key.orgID, key.name, key.version, key.scope}, "\x00"), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mintTimeout)
		defer cancel()
		if k, ok := c.tokens.get(key, time.Now()); ok {
			return k, k.err
		}
		token, err := c.mint(ctx, row, settings, scope)
		k := kept{Token: token, err: err, until: until(token, time.Now())}
		if err != nil {
			e := fault.As(err)
			if e == nil || e.Kind != fault.Denied && e.Kind != fault.Exhausted {
				return k, err
			}
			k.until = time.Now().Add(max(e.RetryAfter, refusedFor))
		}
		c.tokens.put(key, k, time.Now())
		return k, err
	})
	select {
	case <-ctx.Done():
		return kept{}, ctx.Err()
	case r := <-result:
		k, _ := r.Val.(kept)
		return k, r.Err
	}
}

// mint has a server issue a token.
func (c *Credentials) mint(ctx context.Context, row db.EgressCredential, s *deckhandv1.CredentialSettings, scope narrowed) (mint.Token, error) {
	value, err := c.open(row.OrgID, row.Name, row.Sealed)
	if err != nil {
		return mint.Token{}, fmt.Errorf("open credential %s: %w", row.Name, err)
	}
	c.learn(row.OrgID, row.Name, secrets(value)...)
	client, closeIdle, err := c.client(row)
	if err != nil {
		return mint.Token{}, err
	}
	defer closeIdle()
	var token mint.Token
	switch Kind(row.Kind) {
	case GitHubApp:
		key, err := mint.ParseKey(value.GetPrivateKey())
		if err != nil {
			return mint.Token{}, fmt.Errorf("parse the key of credential %s: %w", row.Name, err)
		}
		token, err = mint.GitHubApp{
			BaseURL: baseURL(row, s), ID: s.GetAppId(), Key: key, Installation: s.GetInstallationId(),
			Owner: scope.owner, Repositories: scope.repositories, Permissions: scope.permissions,
		}.Token(ctx, client)
		if err != nil {
			return mint.Token{}, c.masked(row.OrgID, err)
		}
	case OAuth2Client:
		if value.GetRefreshToken() != "" {
			token, err = refresher{c}.token(ctx, row, s, client)
		} else {
			token, err = oauth2Client(s, value).Token(ctx, client)
		}
		if err != nil {
			return mint.Token{}, c.masked(row.OrgID, err)
		}
	default:
		return mint.Token{}, fmt.Errorf("no tokens are issued for credentials of the kind %s", row.Kind)
	}
	c.learn(row.OrgID, row.Name, token.Value, encodedBasic(gitHubUser, token.Value))
	return token, nil
}

// masked returns an error without secrets: a server may repeat what it was sent.
func (c *Credentials) masked(orgID string, err error) error {
	e := fault.As(err)
	if e == nil {
		return err
	}
	hidden := *e
	hidden.Message, hidden.Err = c.cfg.Redact.Org(orgID).String(e.Message), nil
	return &hidden
}

// baseURL returns where the API of a credential is.
func baseURL(row db.EgressCredential, s *deckhandv1.CredentialSettings) string {
	if s.GetBaseUrl() != "" {
		return s.GetBaseUrl()
	}
	switch forgeAPI(row, s) {
	case forge.GitHub:
		return forms[GitHubApp].baseURL
	case forge.GitLab:
		return forms[GitLab].baseURL
	}
	return ""
}

// basePath returns the path of a base URL, without a slash at the end.
func basePath(row db.EgressCredential, s *deckhandv1.CredentialSettings) string {
	u, err := url.Parse(baseURL(row, s))
	if err != nil {
		return "" // it was one when it was stored
	}
	return strings.TrimRight(u.Path, "/")
}

func until(t mint.Token, now time.Time) time.Time {
	if t.ExpiresAt.IsZero() {
		return now.Add(unknownLife)
	}
	return t.ExpiresAt.Add(-min(margin, t.ExpiresAt.Sub(now)/5))
}

// text identifies what a token is made for.
func (n narrowed) text() string {
	var out strings.Builder
	out.WriteString(n.owner + "\x00" + strings.Join(n.repositories, ","))
	for _, name := range slices.Sorted(maps.Keys(n.permissions)) {
		out.WriteString("\x00" + name + ":" + n.permissions[name])
	}
	return out.String()
}

// tokenKey is what a token is of.
type tokenKey struct{ orgID, name, version, scope string }

// kept is a token, or the error with which it was refused, until another one is asked for.
type kept struct {
	mint.Token

	err   error
	until time.Time
}

// tokens are those that this hub has, in memory only.
type tokens struct {
	mu  sync.Mutex
	all map[tokenKey]kept
}

func newTokens() *tokens { return &tokens{all: map[tokenKey]kept{}} }

func (t *tokens) get(key tokenKey, now time.Time) (kept, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.all[key]
	return k, ok && now.Before(k.until)
}

// put keeps a token; when there are too many, those that have expired go, or all.
func (t *tokens) put(key tokenKey, k kept, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) >= maxTokens {
		maps.DeleteFunc(t.all, func(_ tokenKey, k kept) bool { return !now.Before(k.until) })
		if len(t.all) >= maxTokens {
			clear(t.all)
		}
	}
	t.all[key] = k
}

// forget forgets the tokens of a credential.
func (t *tokens) forget(orgID, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.all, func(key tokenKey, _ kept) bool { return key.orgID == orgID && key.name == name })
}

// of returns what of a credential's tokens must be masked.
func (t *tokens) of(orgID, name string) (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, k := range t.all {
		if key.orgID == orgID && key.name == name && k.Value != "" && time.Now().Before(k.ExpiresAt) {
			out = append(out, k.Value, encodedBasic(gitHubUser, k.Value))
		}
	}
	return out
}
