package credential_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Each kind is inserted in its place, instead of what the command sent there.
func TestAValueIsInsertedInItsPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var got *http.Request
	s := serve(t, func(_ http.ResponseWriter, req *http.Request) { got = req })
	r.create(s.bound("bearer", credential.Bearer, &deckhandv1.CredentialValue{Token: secret}))
	r.create(s.bound("basic", credential.Basic, &deckhandv1.CredentialValue{Username: "robot", Password: secret}))
	in := s.bound("header", credential.Header, &deckhandv1.CredentialValue{Value: secret})
	in.Settings = &deckhandv1.CredentialSettings{Header: "X-Api-Key"}
	r.create(in)
	in = s.bound("query", credential.Query, &deckhandv1.CredentialValue{Value: "a&b=" + secret})
	in.Settings = &deckhandv1.CredentialSettings{Parameter: "key"}
	r.create(in)
	send := func(name string) {
		t.Helper()
		req := request(t, http.MethodPost, s.URL+"/a%20b/c?z=1&key=mine&a=%2F&key=again", "body")
		req.Header.Set("Authorization", "Bearer placeholder")
		req.Header.Set("X-Api-Key", "placeholder")
		req.Header.Set("Proxy-Authorization", "Basic bm9kZQ==")
		in, err := r.Insert(t.Context(), org, node, jail, name, req)
		require.NoError(t, err)
		require.NotEmpty(t, in.Secrets)
		require.Equal(t, http.StatusOK, s.send(t, req))
		require.Empty(t, got.Header.Get("Proxy-Authorization"))
	}
	send("bearer")
	require.Equal(t, []string{"Bearer " + secret}, got.Header["Authorization"])
	require.Equal(t, "z=1&key=mine&a=%2F&key=again", got.URL.RawQuery)
	send("basic")
	user, password, _ := got.BasicAuth()
	require.Equal(t, "robot", user)
	require.Equal(t, secret, password)
	send("header")
	require.Equal(t, []string{secret}, got.Header["X-Api-Key"])
	send("query")
	require.Equal(t, []string{"a&b=" + secret}, got.URL.Query()["key"])
	require.Equal(t, "z=1&a=%2F&key=a%26b%3D"+secret, got.URL.RawQuery)
	r.nowhere(secret)
}

// The hub decides itself whether a request is one that a credential is for.
func TestARequestThatACredentialIsNotForGetsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := bearer("api")
	in.Methods, in.Paths = []string{"GET"}, []string{"/repos/{owner}/{repo}/**", "/user"}
	r.create(in)
	for to, says := range map[string]string{
		"http://api.example.com/user":                    "would not be encrypted",
		"https://other.example.com/user":                 "it goes to other.example.com",
		"https://api.example.com.evil.example/user":      "it goes to api.example.com.evil.example",
		"https://api.example.com:8443/user":              "it goes to port 8443",
		"https://api.example.com/users":                  "its path is /users",
		"https://api.example.com/user/":                  "its path is",
		"https://api.example.com/repos/a":                "its path is",
		"https://api.example.com/repos/a/b/../../admin":  "its path is",
		"https://api.example.com/repos/a/b/%2e%2e/x":     "its path is",
		"https://api.example.com/repos/a%2Fb/c/d/..%2Fx": "its path is",
		"https://api.example.com/repos//b/c":             "its path is",
		"https://api.example.com//repos/a/b/c":           "its path is",
		"https://api.example.com/repos/a/b/c\\..\\d":     "its path is",
		"https://api.example.com/user;x=/repos/a/b":      "its path is",
		"https://api.example.com/user?x=/repos/a/b":      "",
		"https://api.example.com/repos/a/b":              "",
		"https://api.example.com/repos/a/b/c/d/":         "",
		"https://API.example.com:443/repos/a/b/c%20d":    "",
	} {
		req := request(t, http.MethodGet, to, "")
		req.Header.Set("Authorization", "Bearer mine")
		_, err := r.Insert(t.Context(), org, node, jail, "api", req)
		if says == "" {
			require.NoError(t, err, to)
			require.Equal(t, "api.example.com", req.Host)
			continue
		}
		refused(t, err, fault.Denied, says)
		require.Equal(t, "Bearer mine", req.Header.Get("Authorization"), to)
	}
	_, err := r.Insert(t.Context(), org, node, jail, "api", request(t, http.MethodDelete, "https://api.example.com/user", ""))
	refused(t, err, fault.Denied, "its method is DELETE")
	req := request(t, http.MethodGet, "https://api.example.com/user", "")
	req.Host = "admin.example.com"
	_, err = r.Insert(t.Context(), org, node, jail, "api", req)
	refused(t, err, fault.Denied, `it goes to api.example.com:443 and names "admin.example.com"`)
}

// In review mode nothing that may change something gets a credential before a person has
// accepted the run.
func TestAReviewedRunChangesNothingWithACredential(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(bearer("api"))
	r.persona.Mode = persona.Review
	_, err := r.Insert(t.Context(), org, node, jail, "api", request(t, http.MethodGet, "https://api.example.com/", ""))
	require.NoError(t, err)
	_, err = r.Insert(t.Context(), org, node, jail, "api", request(t, http.MethodPost, "https://api.example.com/", "x"))
	refused(t, err, fault.Denied, "the run is reviewed")
	r.exec("ALTER TABLE tasks DISABLE TRIGGER USER")
	r.exec("UPDATE tasks SET state = 'review_needed' WHERE id = 'task_1'")
	_, err = r.Insert(t.Context(), org, node, jail, "api", request(t, http.MethodPost, "https://api.example.com/", "x"))
	require.NoError(t, err)
}

// GitLab's API takes the token in one place, and its Git in another.
func TestATokenOfGitLabIsInsertedWhereItIsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var got *http.Request
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		got = req
		user, password, _ := req.BasicAuth()
		switch {
		case req.URL.Path == "/gitlab/api/v4/user" && req.Header.Get("Private-Token") == secret:
			_, _ = io.WriteString(w, `{"username": "robot", "token": "`+secret+`"}`)
		case req.URL.Path == "/gitlab/acme/web.git/info/refs" && user == "oauth2" && password == secret:
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	in := s.bound("gitlab", credential.GitLab, &deckhandv1.CredentialValue{Token: secret})
	in.Settings, in.Hosts, in.Ports = &deckhandv1.CredentialSettings{BaseUrl: s.URL + "/gitlab"}, nil, nil
	created := r.create(in)
	require.Equal(t, []string{"127.0.0.1"}, created.GetHosts())
	require.Equal(t, []uint32{s.port}, created.GetPorts())

	req := request(t, http.MethodGet, s.URL+"/gitlab/api/v4/user?private_token=mine&x=1", "")
	req.Header.Set("Job-Token", "mine")
	_, err := r.Insert(t.Context(), org, node, jail, "gitlab", req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, s.send(t, req))
	require.Equal(t, "x=1", got.URL.RawQuery)
	require.Empty(t, got.Header.Get("Job-Token"))
	req = request(t, http.MethodGet, s.URL+"/gitlab/acme/web.git/info/refs?service=git-upload-pack", "")
	_, err = r.Insert(t.Context(), org, node, jail, "gitlab", req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, s.send(t, req))
	require.Empty(t, got.Header.Get("Private-Token"))
	for _, path := range []string{"/gitlab/users/sign_in", "/api/v4/user", "/gitlab", "/gitlab/acme/..%2f/info/refs"} {
		_, err = r.Insert(t.Context(), org, node, jail, "gitlab", request(t, http.MethodGet, s.URL+path, ""))
		refused(t, err, fault.Denied, "is for GitLab's API and Git")
	}

	result, err := r.Test(t.Context(), org, "gitlab", "", admin)
	require.NoError(t, err)
	require.True(t, result.GetOk(), result)
	require.Equal(t, s.URL+"/gitlab/api/v4/user", result.GetUrl())
	require.Contains(t, result.GetBody(), `"username": "robot"`)
	require.NotContains(t, result.String(), "canary")
	r.nowhere(secret)
}

// A test says what the server says, and what is wrong with its TLS.
func TestATestSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "not "+base64.StdEncoding.EncodeToString([]byte("robot:"+secret)))
		case "/away":
			http.Redirect(w, req, "https://evil.example/", http.StatusFound)
		case "/ok":
			_, _ = io.WriteString(w, "welcome")
		}
	})
	in := s.bound("api", credential.Basic, &deckhandv1.CredentialValue{Username: "robot", Password: secret})
	r.create(in)
	test := func(name, url string) *deckhandv1.TestCredentialResponse {
		t.Helper()
		got, err := r.Test(t.Context(), org, name, url, admin)
		require.NoError(t, err)
		assert.NotContains(t, got.String(), secret)
		return got
	}
	got := test("api", "")
	require.False(t, got.GetOk())
	require.EqualValues(t, 401, got.GetStatus())
	require.Contains(t, got.GetProblem(), "refuses the credential")
	require.Contains(t, got.GetFix(), "deckhand credential rotate api")
	require.NotContains(t, got.GetBody(), base64.StdEncoding.EncodeToString([]byte("robot:"+secret)))
	got = test("api", s.URL+"/ok")
	require.True(t, got.GetOk())
	require.Equal(t, "welcome", got.GetBody())
	require.Contains(t, test("api", s.URL+"/away").GetProblem(), "which is not followed")
	_, err := r.Test(t.Context(), org, "api", "https://other.example.com/", admin)
	refused(t, err, fault.Invalid, "it goes to other.example.com")
	_, err = r.Test(t.Context(), org, "none", "", admin)
	refused(t, err, fault.NotFound, "no credential")

	in = s.bound("untrusted", credential.Bearer, &deckhandv1.CredentialValue{Token: secret})
	in.Roots = ""
	r.create(in)
	got = test("untrusted", "")
	require.Contains(t, got.GetProblem(), "signed by an unknown authority")
	require.Contains(t, got.GetFix(), "--roots")
	in = s.bound("named", credential.Bearer, &deckhandv1.CredentialValue{Token: secret})
	in.Hosts = []string{"localhost"}
	r.create(in)
	require.Contains(t, test("named", "").GetProblem(), "its certificate is for")
	in = s.bound("nobody", credential.Bearer, &deckhandv1.CredentialValue{Token: secret})
	_, port := dead(t)
	in.Ports = []uint32{port}
	r.create(in)
	require.Contains(t, test("nobody", "").GetProblem(), "connection refused")
	var n int
	require.NoError(t, r.conn.QueryRow(t.Context(), "SELECT count(*) FROM audit_entries WHERE action = 'credential.tested'").Scan(&n))
	require.Equal(t, 6, n)
	r.nowhere(secret)
}

// Projects of GitLab are named in one segment, with an encoded slash, which reaches the server as
// it is.
func TestAProjectOfGitLabIsOneSegment(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := bearer("lab")
	in.Kind, in.Paths = "gitlab", []string{"/api/v4/projects/{project%2F}/merge_requests", "/api/v4/projects/{project%2F}/repository/**"}
	in.Hosts = []string{"gitlab.example.com"}
	in.Settings = &deckhandv1.CredentialSettings{BaseUrl: "https://gitlab.example.com"}
	r.create(in)
	for path, fits := range map[string]bool{
		"/api/v4/projects/acme%2Fweb/merge_requests":      true,
		"/api/v4/projects/acme%2fgroup%2Fweb/repository":  true,
		"/api/v4/projects/17/merge_requests":              true,
		"/api/v4/projects/acme/web/merge_requests":        false,
		"/api/v4/projects/acme%2F..%2Fweb/merge_requests": false,
		"/api/v4/projects/acme%252Fweb/merge_requests":    false,
		"/api/v4/projects/acme%2Fweb/issues":              false,
	} {
		req := request(t, http.MethodGet, "https://gitlab.example.com"+path, "")
		_, err := r.Insert(t.Context(), org, node, jail, "lab", req)
		if !fits {
			refused(t, err, fault.Denied, "is not for this request")
			continue
		}
		require.NoError(t, err, path)
		require.Equal(t, secret, req.Header.Get("Private-Token"))
		require.Equal(t, path, req.URL.EscapedPath())
	}
}
