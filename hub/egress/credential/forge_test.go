package credential_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (r *rig) caller() credential.Caller {
	return credential.Caller{OrgID: org, NodeID: node, JailID: jail, ExecID: "step_1", Persona: r.persona}
}

// Which credential is for a repository follows from what each is bound to.
func TestTheCredentialForARepositoryIsTheOneBoundToItsAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	here := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, err := r.Forge(t.Context(), r.caller(), "acme/web", "")
	refused(t, err, fault.Denied, "no credential of the persona is for pull requests of \"acme/web\"")

	// A token for something else on the same host does not count.
	other := here.bound("other", credential.Bearer, &deckhandv1.CredentialValue{Token: "other-token-3f9a1c77"})
	other.Paths = []string{"/v1/**"}
	r.create(other)
	_, err = r.Forge(t.Context(), r.caller(), "acme/web", "")
	refused(t, err, fault.Denied, "no credential of the persona")

	api := here.bound("api", credential.Bearer, &deckhandv1.CredentialValue{Token: "api-token-91c0e5d3b7"})
	api.Settings = &deckhandv1.CredentialSettings{Api: "github", BaseUrl: here.URL + "/api/v3"}
	api.Paths = []string{"/api/v3/repos/acme/{name}/**"}
	r.create(api)
	access, err := r.Forge(t.Context(), r.caller(), "acme/web", "")
	require.NoError(t, err)
	assert.Equal(t, forge.GitHub, access.API)
	assert.Equal(t, here.URL+"/api/v3", access.BaseURL)
	assert.Equal(t, "api", access.Credential)
	assert.True(t, access.Private)
	_, err = r.Forge(t.Context(), r.caller(), "other/web", "")
	refused(t, err, fault.Denied, "its path is /api/v3/repos/other/web/pulls")

	lab := here.bound("lab", credential.GitLab, &deckhandv1.CredentialValue{Token: "glpat-5c1d9e0b7a42"})
	lab.Settings = &deckhandv1.CredentialSettings{BaseUrl: here.URL}
	r.create(lab)
	_, err = r.Forge(t.Context(), r.caller(), "acme/web", "")
	refused(t, err, fault.Invalid, "credentials api, lab are all for pull requests")
	access, err = r.Forge(t.Context(), r.caller(), "acme/web", "lab")
	require.NoError(t, err)
	assert.Equal(t, forge.GitLab, access.API)
	access, err = r.Forge(t.Context(), r.caller(), "acme/group/web", "")
	require.NoError(t, err, "only GitLab has groups of groups")
	assert.Equal(t, "lab", access.Credential)
	_, err = r.Forge(t.Context(), r.caller(), "acme/web", "none")
	refused(t, err, fault.Denied, `credential "none" of the persona is not for`)

	req := request(t, http.MethodPost, here.URL+"/api/v4/projects/acme%2Fweb/merge_requests", "{}")
	secrets, err := access.Insert(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, "glpat-5c1d9e0b7a42", req.Header.Get("Private-Token"))
	assert.Contains(t, secrets, "glpat-5c1d9e0b7a42")
	_, err = access.Insert(t.Context(), request(t, http.MethodPost, "https://elsewhere.test/api/v4/projects/x/merge_requests", "{}"))
	refused(t, err, fault.Denied, "it goes to elsewhere.test")

	require.NoError(t, access.Record(t.Context(), egresslink.Record{Method: http.MethodPost, Host: req.URL.Host, Path: "/x", Status: http.StatusCreated}))
	var n int
	require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT count(*) FROM credential_requests WHERE credential = 'lab' AND task_id = 'task_1' AND status = 201`).Scan(&n))
	assert.Equal(t, 1, n)

	// A run under review may only read.
	r.persona.Mode = persona.Review
	_, err = access.Insert(t.Context(), request(t, http.MethodPost, req.URL.String(), "{}"))
	refused(t, err, fault.Denied, "reviewed before anything leaves")
	r.persona.Mode = persona.Autonomous
	require.NoError(t, r.Delete(t.Context(), org, "lab", admin))
	_, err = access.Insert(t.Context(), request(t, http.MethodPost, req.URL.String(), "{}"))
	refused(t, err, fault.NotFound, "there is no credential lab")
}

// A token of a GitHub App for a pull request is for one repository, and has no right that
// pull requests do not need.
func TestATokenForPullRequestsIsNarrow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked []map[string]any
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/app/installations/7/access_tokens" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var in map[string]any
		_ = json.NewDecoder(req.Body).Decode(&in)
		asked = append(asked, in)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token":"ghs_token%d0b9e1f7ac5","expires_at":"2099-01-01T00:00:00Z"}`, len(asked))
	})
	_, private := appKey(t)
	app := s.bound("app", credential.GitHubApp, &deckhandv1.CredentialValue{PrivateKey: private})
	app.Settings = &deckhandv1.CredentialSettings{
		BaseUrl: s.URL, AppId: "42", InstallationId: 7, Repositories: []string{"acme/*"},
		Permissions: map[string]string{"contents": "write", "pull_requests": "write", "actions": "write"},
	}
	r.create(app)
	access, err := r.Forge(t.Context(), r.caller(), "acme/web", "")
	require.NoError(t, err)
	req := request(t, http.MethodPost, s.URL+"/repos/acme/web/pulls", "{}")
	secrets, err := access.Insert(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, secrets, 1)
	assert.Equal(t, "Bearer "+secrets[0], req.Header.Get("Authorization"))
	assert.Equal(t, []map[string]any{{
		"repositories": []any{"web"}, "permissions": map[string]any{"pull_requests": "write", "contents": "read"},
	}}, asked)

	_, err = r.Forge(t.Context(), r.caller(), "other/web", "")
	refused(t, err, fault.Denied, "credential app does not allow repository other/web")
	r.persona.Credentials[0].Repositories = []string{"acme/api"}
	_, err = r.Forge(t.Context(), r.caller(), "acme/web", "")
	refused(t, err, fault.Denied, "the persona does not list repository acme/web")
	r.persona.Credentials[0].Repositories = nil
	r.persona.Credentials[0].Permissions = map[string]string{"contents": "write", "pull_requests": "read"}
	_, err = r.Forge(t.Context(), r.caller(), "acme/web", "")
	refused(t, err, fault.Denied, "lacks the permission pull_requests: write")
}

func TestTheURLOfAnAPINeedsItsName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := &deckhandv1.CreateCredentialRequest{
		Name: "api", Kind: "bearer", Hosts: []string{"git.example.com"}, Value: &deckhandv1.CredentialValue{Token: "api-token-91c0e5d3b7"},
		Settings: &deckhandv1.CredentialSettings{BaseUrl: "https://git.example.com/api/v3"},
	}
	_, err := r.Create(t.Context(), org, in, admin)
	refused(t, err, fault.Invalid, "settings.base_url is given, and settings.api is empty")
}
