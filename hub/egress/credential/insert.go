package credential

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/httprule"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Inserted says how a request with a credential is sent.
type Inserted struct {
	// Secrets must be masked in the response.
	Secrets []string
	// Roots are certificates, in PEM, by which the host is verified; empty for the hub's own.
	Roots string
	// Private lets the host resolve to addresses of private networks.
	Private bool
}

// Insert puts a credential into a request that a command in a jail of a node made, and replaces
// what the command sent there. req.URL has the scheme https and the host that the request goes to.
//
// It may read the request's body, and replaces it then. After an error the request must not
// be sent.
func (c *Credentials) Insert(ctx context.Context, orgID, nodeID, jailID, name string, req *http.Request) (Inserted, error) {
	u, err := c.use(ctx, orgID, nodeID, jailID, name)
	if err != nil {
		return Inserted{}, err
	}
	if Kind(u.row.Kind) == Password {
		return Inserted{}, typedOnly(name)
	}
	if !Kind(u.row.Kind).Held() {
		return Inserted{}, fault.New(fault.Invalid, "credential %s is inserted by the node", name).WithCode(fault.CredentialRefused).WithObject(name).
			WithFix("ask for its token")
	}
	if err := u.permits(req); err != nil {
		return Inserted{}, err
	}
	secrets, err := c.insert(u.row, u.settings, req)
	return Inserted{Secrets: secrets, Roots: u.row.Roots, Private: u.row.Private}, err
}

// permits refuses a request that the credential is not for, or that a run under review may
// not send.
func (u use) permits(req *http.Request) error {
	if err := fits(u.row, req, false); err != nil {
		return err
	}
	if u.clones != nil && !isClone(req, u.clones) {
		return fault.New(fault.Denied, "a sync of knowledge clones %s with the credential, and sends nothing else", u.clones).WithCode(fault.CredentialRefused).WithObject(u.row.Name).
			WithFix("use it in a task")
	}
	if u.readOnly && !allowlist.Safe(req.Method) {
		return fault.New(fault.Denied, "the run is reviewed before anything leaves its workspace, and %.32s may change something", req.Method).WithCode(fault.CredentialRefused).WithObject(u.row.Name).
			WithFix("end the run: what it wants to send is sent when a person accepts it")
	}
	return nil
}

// insert inserts a value that stays in the hub into a request that was checked.
func (c *Credentials) insert(row db.EgressCredential, s *deckhandv1.CredentialSettings, req *http.Request) ([]string, error) {
	value, err := c.open(row.OrgID, row.Name, row.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open credential %s: %w", row.Name, err)
	}
	mask := secrets(value)
	c.learn(row.OrgID, row.Name, mask...)
	egresslink.RemoveHeader(req.Header, "Proxy-Authorization")
	switch Kind(row.Kind) {
	case Bearer:
		egresslink.SetHeader(req.Header, "Authorization", "Bearer "+value.GetToken())
	case Basic:
		egresslink.SetHeader(req.Header, "Authorization", "Basic "+encodedBasic(value.GetUsername(), value.GetPassword()))
	case Header:
		egresslink.SetHeader(req.Header, s.GetHeader(), value.GetValue())
	case Query:
		req.URL.RawQuery = withParameter(req.URL.RawQuery, s.GetParameter(), value.GetValue())
		mask = append(mask, url.QueryEscape(value.GetValue()))
	case GitLab:
		return mask, gitLab(basePath(row, s), value.GetToken(), row.Name, req)
	case AWS:
		return mask, sign(req, s, value, row.Name, time.Now())
	default:
		return nil, fmt.Errorf("credential %s has the kind %s, which the hub does not insert", row.Name, row.Kind)
	}
	return mask, nil
}

// gitLab inserts a token of GitLab: where its API and its Git take it. Other pages take none.
func gitLab(base, token, name string, req *http.Request) error {
	path, ok := below(base, req.URL.EscapedPath())
	if _, err := httprule.Canonical(req.URL.EscapedPath()); err != nil {
		ok = false
	}
	for _, header := range []string{"Authorization", "Private-Token", "Job-Token", "Deploy-Token"} {
		egresslink.RemoveHeader(req.Header, header)
	}
	for _, parameter := range []string{"private_token", "access_token", "job_token"} {
		req.URL.RawQuery = withoutParameter(req.URL.RawQuery, parameter)
	}
	switch {
	case ok && strings.HasPrefix(path, "/api/"):
		req.Header.Set("Private-Token", token)
	case ok && egresslink.GitPath(path):
		req.Header.Set("Authorization", "Basic "+encodedBasic(gitLabUser, token))
	default:
		return fault.New(fault.Denied, "credential %s is for GitLab's API and Git, not for %.200s", name, req.URL.EscapedPath()).WithCode(fault.CredentialRefused).WithObject(name).
			WithFix("use a path below %s/api/, or Git over HTTPS", base)
	}
	return nil
}

// withoutParameter returns a query without a parameter, and otherwise as it was.
func withoutParameter(query, name string) string {
	if query == "" {
		return ""
	}
	var out []string
	for part := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(part, "=")
		// Some servers take ; as &.
		if plain, err := url.QueryUnescape(key); err != nil || plain == name || strings.Contains(";"+part, ";"+name+"=") {
			continue
		}
		out = append(out, part)
	}
	return strings.Join(out, "&")
}

// withParameter returns a query with a parameter in the place of all of that name.
func withParameter(query, name, value string) string {
	query = withoutParameter(query, name)
	if query != "" {
		query += "&"
	}
	return query + url.QueryEscape(name) + "=" + url.QueryEscape(value)
}
