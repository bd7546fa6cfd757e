package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A request with a credential may be answered with another secret, which is replaced by a
// handle before the command gets it; package handle says how. The handle is exchanged in the
// requests to hosts whose TLS is terminated, into which no credential is inserted then.
//
//   - Of Git LFS, the responses to batch requests. An action whose host is not intercepted is
//     an error: a credential must name it.
//   - Token endpoints issue what can be used elsewhere and written anywhere. Requests with a
//     credential to the paths of tokenPath are refused, whatever the credential says. The list
//     is of what servers usually have, and cannot be complete: every API may have a path of its
//     own that issues secrets. The paths of a credential leave those out (httprule.DeniedMark).

// maxHidden bounds a response that is read to be rewritten, in bytes.
const maxHidden = 8 << 20

// hides is what a response must be rewritten for.
type hides int

const (
	hidesNothing hides = iota
	hidesLFS
)

// hidesOf returns what the response to a request with a credential must be rewritten for.
func hidesOf(r *http.Request) hides {
	path := r.URL.Path
	if r.Method == http.MethodPost && egresslink.GitPath(path) && strings.HasSuffix(strings.TrimRight(path, "/"), "/objects/batch") {
		return hidesLFS
	}
	return hidesNothing
}

// issuing are ends of paths by which servers issue secrets to requests that change something;
// * is one segment, and - also stands for _. Whole segments, since repositories are named so, too.
var issuing = []string{
	// Tokens of apps, users, projects and deployments: GitHub, GitLab, Gitea, Docker Hub, npm.
	"access-token", "access-tokens", "access-tokens/*/rotate",
	"personal-access-tokens", "personal-access-tokens/*/rotate",
	"deploy-tokens", "impersonation-tokens", "users/*/tokens", "token/scoped", "-/npm/v1/tokens",
	// Those of runners, of agents in clusters, and of triggers: GitHub, GitLab.
	"runners/registration-token", "runners/remove-token", "runners/generate-jitconfig",
	"runners/reset-registration-token", "reset-authentication-token",
	"v4/runners", "user/runners", "cluster-agents/*/tokens", "v4/projects/*/triggers",
	// Vault.
	"auth/token/create", "auth/token/create/*", "auth/token/create-orphan",
}

// issuingVerbs are the ends of paths by which Google Cloud does.
var issuingVerbs = []string{":generateaccesstoken", ":generateidtoken", ":signjwt", ":signblob"}

// tokenPath reports whether a request looks like one for a token: those of OAuth 2.0, of
// registries of images, and those of issuing.
func tokenPath(method, path string) bool {
	path = strings.ReplaceAll(strings.ToLower("/"+strings.Trim(path, "/")), "_", "-")
	if strings.HasSuffix(path, "/token") && (method == http.MethodPost || strings.Count(path, "/") <= 2) ||
		strings.Contains(path, "/oauth/") && strings.HasSuffix(path, "/access-token") ||
		strings.HasSuffix(path, "/runners/registration-token") { // which Gitea issues to a GET
		return true
	}
	if method == http.MethodGet || method == http.MethodHead {
		return false
	}
	if strings.Contains(path, "/rest/access-tokens/") || // Bitbucket Server
		slices.ContainsFunc(issuingVerbs, func(verb string) bool { return strings.HasSuffix(strings.ReplaceAll(path, "%3a", ":"), verb) }) {
		return true
	}
	// Rails also serves them with the name of a format, as in access_tokens.json.
	path = strings.TrimSuffix(path, ".json")
	segments := strings.Split(path, "/")
	return slices.ContainsFunc(issuing, func(end string) bool { return endsIn(segments, strings.Split(end, "/")) })
}

// endsIn reports whether the last segments of a path are those of a pattern.
func endsIn(segments, pattern []string) bool {
	from := len(segments) - len(pattern)
	return from >= 0 && slices.EqualFunc(segments[from:], pattern, func(s, p string) bool { return p == "*" || s == p })
}

// intercepts reports whether requests to a host pass by here.
func (j *jail) intercepts(host string, port uint16) bool {
	t, err := allowlist.ParseTarget(net.JoinHostPort(host, strconv.Itoa(int(port))), port)
	return err == nil && t.Port == port && j.policy().intercepts(t)
}

// reveal puts the secrets of handles into a request. Its URL is absolute.
func (f *forwarded) reveal(r *http.Request) error {
	host := r.Host
	r.Host = "" // it was compared with the tunnel's, which the URL has
	found, err := f.j.issued.Reveal(r, time.Now())
	r.Host, f.revealed = host, found
	return err
}

// hide replaces what a server has issued by handles.
func (f *forwarded) hide(res *http.Response) error {
	if f.binding == nil || f.hides == hidesNothing || res.StatusCode/100 != 2 || res.Body == nil || res.Request.Method == http.MethodHead {
		return nil
	}
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return fmt.Errorf("the response may contain a secret, and has the content encoding %.40q although none was asked for", encoding)
	}
	body, err := io.ReadAll(io.LimitReader(&holding{ReadCloser: res.Body, hold: f.hold}, maxHidden+1))
	if err == nil {
		err = f.hold.take((lfsCopies - 1) * int64(len(body)))
	}
	if e := fault.As(err); e != nil {
		return errors.New(holdText(e))
	}
	if err != nil {
		return fmt.Errorf("read a response that may contain a secret: %w", err)
	}
	_ = res.Body.Close()
	out, err := f.j.issued.HideLFS(body, time.Now())
	if err != nil {
		return err
	}
	f.hold.keep(int64(len(out))) // until it is passed on
	for _, name := range []string{"ETag", "Content-MD5", "Content-Digest", "Repr-Digest", "Digest", "Accept-Ranges"} {
		res.Header.Del(name)
	}
	res.Body, res.ContentLength, res.TransferEncoding = io.NopCloser(bytes.NewReader(out)), int64(len(out)), nil
	res.Header.Set("Content-Length", strconv.Itoa(len(out)))
	return nil
}
