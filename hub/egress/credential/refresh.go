package credential

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/deckhand-sh/deckhand/hub/egress/mint"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Some servers return another refresh token with each access token, and refuse the one before,
// or even withdraw the consent when it is used again (RFC 9700, section 4.14.2). So hubs use the
// refresh token of a credential one after another, each the one that was returned last, which
// is sealed beside the value. A hub that dies between the response and the commit has lost it:
// somebody must consent again, as with any client of such a server.

const (
	// maxRefreshes bounds how many of its connections to the database a hub holds while it
	// waits for such servers, and ofOneOrg those for one organisation, for which as many more
	// as waitingOfOrg wait: slow servers of one do not keep the others from theirs.
	maxRefreshes = 8
	ofOneOrg     = 2
	waitingOfOrg = 100
	// refreshTime bounds all of it.
	refreshTime = 2 * time.Minute
	// storeTries is how often a new refresh token is stored again after the database failed, and
	// storePause the time between.
	storeTries = 5
	storePause = 500 * time.Millisecond
)

// oauth2Client returns a client with the value of a credential.
func oauth2Client(s *deckhandv1.CredentialSettings, v *deckhandv1.CredentialValue) mint.OAuth2Client {
	return mint.OAuth2Client{
		TokenURL: s.GetTokenUrl(), ID: s.GetClientId(), Secret: v.GetClientSecret(), RefreshToken: v.GetRefreshToken(), Scopes: s.GetScopes(), Audience: s.GetAudience(),
	}
}

// refresher uses the refresh tokens of credentials.
type refresher struct{ c *Credentials }

// token has a server issue a token with the latest refresh token of a credential, and stores
// the one that the server returns in its place.
func (r refresher) token(ctx context.Context, row db.EgressCredential, s *deckhandv1.CredentialSettings, client *http.Client) (token mint.Token, err error) {
	c := r.c
	leave, err := c.refreshers.Take(ctx, row.OrgID)
	if err != nil {
		return mint.Token{}, err
	}
	defer leave()
	select {
	case c.refreshing <- struct{}{}:
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return mint.Token{}, ctx.Err()
	}
	var params db.StoreRefreshTokenParams
	lock := func(ahead *db.Queries) error {
		return ahead.LockRefresh(ctx, db.LockRefreshParams{OrgID: row.OrgID, Name: row.Name})
	}
	// Who asks for the token may leave until the server has issued it, but not between that and
	// the commit.
	kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTime)
	defer cancel()
	stays := context.AfterFunc(ctx, cancel)
	defer stays()
	err = c.cfg.Store.TxLocked(kept, lock, func(q, _ *db.Queries) error {
		now, err := q.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: row.OrgID, Name: row.Name})
		switch {
		case store.IsNotFound(err):
			return gone(row.Name)
		case err != nil:
			return fmt.Errorf("load credential %s: %w", row.Name, err)
		case now.Version != row.Version:
			return replaced(row.Name)
		}
		value, err := c.open(row.OrgID, row.Name, now.Sealed)
		if err != nil {
			return fmt.Errorf("open credential %s: %w", row.Name, err)
		}
		if now.RefreshSealed != nil {
			latest, err := c.open(row.OrgID, row.Name, now.RefreshSealed)
			if err != nil {
				return fmt.Errorf("open the refresh token of credential %s: %w", row.Name, err)
			}
			value.RefreshToken = latest.GetRefreshToken()
			c.learn(row.OrgID, row.Name, value.GetRefreshToken())
		}
		if token, err = oauth2Client(s, value).Token(ctx, client); err != nil || token.Refresh == "" {
			return err
		}
		stays()
		c.learn(row.OrgID, row.Name, token.Refresh)
		params = db.StoreRefreshTokenParams{OrgID: row.OrgID, Name: row.Name, RotatedAt: now.RotatedAt}
		if params.RefreshSealed, err = c.seal(row.OrgID, row.Name, &deckhandv1.CredentialValue{RefreshToken: token.Refresh}); err != nil {
			return fmt.Errorf("seal the refresh token of credential %s: %w", row.Name, err)
		}
		if _, err := q.StoreRefreshToken(kept, params); err != nil {
			return fmt.Errorf("store the refresh token of credential %s: %w", row.Name, err)
		}
		return nil
	})
	if err != nil && len(params.RefreshSealed) > 0 {
		// The server refuses the token before it from now on.
		err = r.storeAgain(ctx, params, err)
	}
	return token, err
}

// storeAgain stores a refresh token that the transaction did not.
func (r refresher) storeAgain(ctx context.Context, params db.StoreRefreshTokenParams, failed error) error {
	ctx = context.WithoutCancel(ctx)
	for try := range storeTries {
		if try > 0 { // at first at once: the next hub may use the old one now
			time.Sleep(storePause)
		}
		if _, err := r.c.cfg.Store.StoreRefreshToken(ctx, params); err == nil {
			return nil
		}
	}
	r.c.cfg.Log.Error("a new refresh token cannot be stored: if its server refuses the one before, somebody must consent again",
		"org_id", params.OrgID, "credential", params.Name, "error", failed)
	return failed
}

// replaced is the error for a credential whose value was replaced while a token was issued.
func replaced(name string) *fault.Error {
	return fault.New(fault.Unavailable, "credential %s was replaced while a token was issued", name).WithCode(fault.CredentialRefused).WithObject(name).
		WithFix("send the request again")
}
