package egress

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/echomask"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
)

// tokenPatience is how long the hub may take to give a token.
const tokenPatience = 30 * time.Second

// tokens are those that a jail's requests may have inserted, in memory until they expire or
// are forgotten.
type tokens struct {
	jail string
	hub  Hub

	asking singleflight.Group

	mu   sync.Mutex
	have map[string]*issuedToken // by credential, version and host; guarded by mu
	// era changes when tokens are forgotten, so that one that was asked for before is not
	// kept; guarded by mu.
	era int
}

// issuedToken is a token of the hub's, with what masks its secrets.
type issuedToken struct {
	egresslink.Token

	masker *echomask.Masker
}

func newTokens(jail string, hub Hub) *tokens {
	return &tokens{jail: jail, hub: hub, have: map[string]*issuedToken{}}
}

// token returns the token of a binding for a host, asking the hub if there is none that is valid.
func (t *tokens) token(ctx context.Context, b *binding, to allowlist.Target) (*issuedToken, error) {
	name := b.GetCredential() + "@" + b.GetVersion() + "@" + to.String()
	t.mu.Lock()
	have, ok := t.have[name]
	era := t.era
	t.mu.Unlock()
	if ok && time.Now().Before(have.ExpiresAt) {
		return have, nil
	}
	// The question is not that of one request: it goes on when that ends. One that was asked
	// before tokens were forgotten is not answered to those who come after.
	got := t.asking.DoChan(name+"@"+strconv.Itoa(era), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenPatience)
		defer cancel()
		got, err := t.hub.Token(ctx, egresslink.TokenRequest{JailID: t.jail, Credential: b.GetCredential(), Target: to.String()})
		if err != nil {
			return nil, err
		}
		token := &issuedToken{Token: got, masker: echomask.Of(b.GetCredential(), got.Secrets)}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.era == era {
			t.have[name] = token
		}
		return token, nil
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case res := <-got:
		token, _ := res.Val.(*issuedToken)
		return token, res.Err
	}
}

// forget drops the tokens of a credential; of all if it is empty.
func (t *tokens) forget(credential string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.era++
	for name := range t.have {
		if credential == "" || strings.HasPrefix(name, credential+"@") {
			delete(t.have, name)
		}
	}
}
