package credential

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Besides tasks, a sync of knowledge uses a credential: to clone one repository, in a jail of its
// own. It is inserted into the two requests of a clone and no others.

const uploadPack = "/git-upload-pack"

// reader is what the sync in a jail wants of a credential.
func reader(name, repository string, kind Kind) (u *url.URL, want persona.Credential, err error) {
	if u, err = url.Parse(repository); err != nil {
		return nil, want, fmt.Errorf("read the address of a repository: %w", err)
	}
	want.Name = name
	if kind == GitHubApp {
		want.Repositories = []string{strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")}
		want.Permissions = map[string]string{"contents": "read"}
	}
	return u, want, nil
}

// Reading returns the requests into which a credential is inserted to clone a repository, which
// has an https address. It refuses a credential that is not for them.
func Reading(ctx context.Context, c *Credentials, orgID, name, repository string) (*nodev1.Egress_Binding, error) {
	row, err := c.cfg.Store.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: orgID, Name: name})
	if store.IsNotFound(err) {
		return nil, fault.New(fault.NotFound, "there is no credential %.100s", name).WithCode(fault.CredentialRefused).WithObject(name).
			WithFix("create it (deckhand credential create), or leave it out")
	}
	if err != nil {
		return nil, fmt.Errorf("load credential %s: %w", name, err)
	}
	u, want, err := reader(name, repository, Kind(row.Kind))
	if err != nil {
		return nil, err
	}
	if err := readable(row, want); err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(u.EscapedPath(), "/")
	paths := []string{base + "/info/refs", base + uploadPack}
	for i, method := range []string{http.MethodGet, http.MethodPost} {
		at, err := url.Parse("https://" + u.Host + paths[i])
		if err != nil {
			return nil, fmt.Errorf("read the address of a repository: %w", err)
		}
		if err := fits(row, &http.Request{Method: method, Host: u.Host, URL: at}, false); err != nil {
			return nil, err
		}
	}
	b, err := binding(row, want)
	if err != nil {
		return nil, err
	}
	// Nothing in the jail asks for it by a variable, and no other request gets it.
	b.Variable, b.Placeholder = "", ""
	b.Methods, b.Paths = []string{http.MethodGet, http.MethodPost}, paths
	return b, nil
}

// readable refuses a credential with which nothing is cloned, or not now.
func readable(row db.EgressCredential, want persona.Credential) error {
	if Kind(row.Kind) == Password {
		return typedOnly(row.Name)
	}
	return allows(row, want)
}

// useOfSync returns a credential for the jail in which a sync clones a repository; ok is false if
// there is no such sync.
func useOfSync(ctx context.Context, c *Credentials, orgID, nodeID, jailID, name string) (u use, ok bool, err error) {
	source, err := c.cfg.Store.SourceInJail(ctx, db.SourceInJailParams{OrgID: orgID, JailID: jailID, NodeID: nodeID})
	if store.IsNotFound(err) || err == nil && source.Credential != name {
		return u, false, nil
	}
	if err != nil {
		return u, false, unavailable(fmt.Errorf("look for the sync in jail %s: %w", jailID, err))
	}
	u.row, err = c.cfg.Store.GetEgressCredential(ctx, db.GetEgressCredentialParams{OrgID: orgID, Name: name})
	if store.IsNotFound(err) {
		return u, true, gone(name)
	}
	if err != nil {
		return u, true, unavailable(fmt.Errorf("load credential %s: %w", name, err))
	}
	if u.settings, err = settingsOf(u.row); err != nil {
		return u, true, fmt.Errorf("read the settings of credential %s: %w", name, err)
	}
	at, want, err := reader(name, source.Url, Kind(u.row.Kind))
	if err != nil {
		return u, true, err
	}
	u.want, u.clones = want, at
	return u, true, readable(u.row, want)
}

// isClone reports whether a request is one of a clone of a repository.
func isClone(req *http.Request, repository *url.URL) bool {
	to, err := allowlist.ParseTarget(req.URL.Host, usualPort)
	at, failed := allowlist.ParseTarget(repository.Host, usualPort)
	if err != nil || failed != nil || to != at {
		return false
	}
	base := strings.TrimSuffix(repository.EscapedPath(), "/")
	switch req.URL.EscapedPath() {
	case base + "/info/refs":
		return allowlist.Safe(req.Method) && req.URL.RawQuery == "service=git-upload-pack"
	case base + uploadPack:
		return req.Method == http.MethodPost
	}
	return false
}
