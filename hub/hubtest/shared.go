package hubtest

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// shared is the hub of this test process that tests share, while at least one uses it.
var shared struct {
	sync.Mutex

	users int
	scope *scope
	hub   *Hub
}

// Shared returns a hub with the default configuration that several tests use at once, and
// that is started once: a start takes most of the time of a short test. The tokens are
// those of a new organisation, which is the test's own. A test that stops the hub, needs
// another configuration, acts as the hub's operator, or looks at what all organisations
// share starts one of its own instead; see Start.
func Shared(t testing.TB) *Hub {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.hub == nil {
		shared.scope = &scope{TB: t}
		shared.hub = start(shared.scope, Config(shared.scope), "")
	}
	shared.users++
	s := shared.scope
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the shared hub logged last:\n%s", s.log.tail())
		}
		shared.Lock()
		defer shared.Unlock()
		if shared.users--; shared.users == 0 {
			shared.hub, shared.scope = nil, nil
			s.end(t)
		}
	})
	own := *shared.hub
	made, err := own.Client(t, own.AdminToken).Organisations.CreateOrganisation(t.Context(), &deckhandv1.CreateOrganisationRequest{
		Name: strings.ReplaceAll(ident.New("org"), "_", "-"),
	})
	require.NoError(t, err)
	own.OrgID, own.AdminToken = made.GetOrganisation().GetId(), made.GetToken()
	worker, err := own.Client(t, own.AdminToken).Tokens.CreateToken(t.Context(), &deckhandv1.CreateTokenRequest{
		Name: "workers", Kind: deckhandv1.TokenKind_TOKEN_KIND_WORKER,
	})
	require.NoError(t, err)
	own.WorkerToken = worker.GetSecret()
	return &own
}

// scope is what the shared hub takes for its test: it ends with the last user, and not
// with the first, whose methods report failures of the start only.
type scope struct {
	testing.TB

	log      lines
	cleanups []func()
}

func (s *scope) Cleanup(f func())         { s.cleanups = append(s.cleanups, f) }
func (s *scope) Context() context.Context { return context.Background() }
func (s *scope) Output() io.Writer        { return &s.log }

func (s *scope) TempDir() string {
	dir, err := os.MkdirTemp("", "deckhand-hub-")
	require.NoError(s.TB, err)
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// end runs the cleanups on behalf of the last user.
func (s *scope) end(t testing.TB) {
	s.TB = t
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

// lines keeps the end of a log.
type lines struct {
	mu   sync.Mutex
	text []byte
}

// keptLog is how many bytes of the shared hub's log are kept.
const keptLog = 64 << 10

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if extra := len(l.text) - keptLog; extra > keptLog {
		l.text = append([]byte(nil), l.text[extra:]...)
	}
	return len(p), nil
}

func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.ToValidUTF8(l.text[max(0, len(l.text)-keptLog):], nil))
}
