package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (*testHub) CreateCredential(_ context.Context, req *deckhandv1.CreateCredentialRequest) (*deckhandv1.CreateCredentialResponse, error) {
	return &deckhandv1.CreateCredentialResponse{Credential: &deckhandv1.Credential{
		Name: req.GetName(), Kind: req.GetKind(), Hosts: req.GetHosts(), Agents: req.GetAgents(), Settings: req.GetSettings(),
	}}, nil
}

func (*testHub) GetCredential(_ context.Context, req *deckhandv1.GetCredentialRequest) (*deckhandv1.GetCredentialResponse, error) {
	return &deckhandv1.GetCredentialResponse{Credential: &deckhandv1.Credential{
		Name: req.GetName(), Kind: "github_app", Hosts: []string{"github.com"}, Agents: []string{"coder"}, Paths: []string{"/a/**"}, Version: "crv_1", Settings: &deckhandv1.CredentialSettings{
			AppId: "1234", Permissions: map[string]string{"pull_requests": "write", "contents": "read"},
		},
	}}, nil
}

func (*testHub) RotateCredential(_ context.Context, req *deckhandv1.RotateCredentialRequest) (*deckhandv1.RotateCredentialResponse, error) {
	return &deckhandv1.RotateCredentialResponse{Credential: &deckhandv1.Credential{Name: req.GetName()}}, nil
}

func (*testHub) UpdateCredential(_ context.Context, req *deckhandv1.UpdateCredentialRequest) (*deckhandv1.UpdateCredentialResponse, error) {
	return &deckhandv1.UpdateCredentialResponse{Credential: &deckhandv1.Credential{Name: req.GetName(), Hosts: req.GetHosts(), Agents: req.GetAgents()}}, nil
}

func (*testHub) TestCredential(_ context.Context, req *deckhandv1.TestCredentialRequest) (*deckhandv1.TestCredentialResponse, error) {
	res := &deckhandv1.TestCredentialResponse{Ok: true, Url: "https://api.example.com/", Status: 200, Body: "welcome"}
	if req.GetName() == "bad" {
		res = &deckhandv1.TestCredentialResponse{Url: "https://api.example.com/", Problem: "its certificate is signed by an unknown authority", Fix: "give --roots FILE"}
	}
	return res, nil
}

func (*testHub) ListCredentialRequests(context.Context, *deckhandv1.ListCredentialRequestsRequest) (*deckhandv1.ListCredentialRequestsResponse, error) {
	return &deckhandv1.ListCredentialRequestsResponse{NextPageToken: "more", Requests: []*deckhandv1.CredentialRequest{
		{Id: "r1", Credential: "api", Method: "POST", Host: "api.example.com:443", Path: "/v1\x1b[31m", Status: 403, TaskId: "task_1"},
	}}, nil
}

// The value comes from a file, standard input or the environment, in the form of its kind,
// and is in no output.
func TestCredentialsAreCreatedWithTheirValue(t *testing.T) {
	const secret = "tok-canary-7f3K9qLm2"
	h := newHub(t)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "value")
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		return path
	}
	t.Setenv("CLI_TEST_TOKEN", secret)
	for name, c := range map[string]struct {
		args []string
		want *deckhandv1.CredentialValue
	}{
		"bearer": {[]string{"--kind", "bearer", "--host", "a.example", "--from-env", "CLI_TEST_TOKEN"}, &deckhandv1.CredentialValue{Token: secret}},
		"header": {[]string{"--kind", "header", "--header", "X-A", "--host", "a.example", "--value-file", file(secret)}, &deckhandv1.CredentialValue{Value: secret}},
		"basic":  {[]string{"--kind", "basic", "--host", "a.example", "--value-file", file("robot:" + secret + ":x")}, &deckhandv1.CredentialValue{Username: "robot", Password: secret + ":x"}},
		"aws": {[]string{"--kind", "aws_sigv4", "--host", "s3.amazonaws.com", "--value-file", file(`{"Version": 1, "AccessKeyId": "AKIA", "SecretAccessKey": "` + secret + `", "SessionToken": "s"}`)},
			&deckhandv1.CredentialValue{AccessKeyId: "AKIA", SecretAccessKey: secret, SessionToken: "s"}},
		"aws-short": {[]string{"--kind", "aws_sigv4", "--host", "s3.amazonaws.com", "--value-file", file("AKIA:" + secret)}, &deckhandv1.CredentialValue{AccessKeyId: "AKIA", SecretAccessKey: secret}},
		"app": {[]string{"--kind", "github_app", "--app-id", "1", "--repository", "a/b", "--permission", "contents=write,pull_requests=read", "--value-file", file("pem " + secret)},
			&deckhandv1.CredentialValue{PrivateKey: "pem " + secret + "\n"}},
	} {
		res := h.run(t, append([]string{"credential", "create", name, "--agent", "coder", "--expires", "2099-01-31", "--port", "8443"}, c.args...)...)
		require.Zero(t, res.code, "%s: %s", name, res.stderr)
		require.NotContains(t, res.stdout+res.stderr, secret)
		got, ok := h.lastRequest("CreateCredentialRequest").(*deckhandv1.CreateCredentialRequest)
		require.True(t, ok)
		require.True(t, proto.Equal(c.want, got.GetValue()), name)
		require.Equal(t, []uint32{8443}, got.GetPorts())
		require.NotNil(t, got.GetExpiresAt())
		if name == "app" {
			require.Equal(t, map[string]string{"contents": "write", "pull_requests": "read"}, got.GetSettings().GetPermissions())
		}
	}
	res := h.run(t, "credential", "create", "lonely", "--kind", "bearer", "--host", "a.example", "--from-env", "CLI_TEST_TOKEN")
	require.Zero(t, res.code)
	require.Contains(t, res.stderr, "no agent may use it")
	for says, args := range map[string][]string{
		"--kind is missing":          {"--from-env", "CLI_TEST_TOKEN"},
		"give the value with":        {"--kind", "bearer"},
		"--value-file FILE":          {"--kind", "bearer", "--from-env", "CLI_TEST_TOKEN", "--value-file", "x"},
		"empty or not set":           {"--kind", "bearer", "--from-env", "CLI_TEST_NOTHING"},
		"there is no kind":           {"--kind", "barer", "--from-env", "CLI_TEST_TOKEN"},
		"USER:PASSWORD":              {"--kind", "basic", "--from-env", "CLI_TEST_TOKEN"},
		"ID:SECRET":                  {"--kind", "aws_sigv4", "--from-env", "CLI_TEST_TOKEN"},
		"--expires is":               {"--kind", "bearer", "--expires", "soon", "--from-env", "CLI_TEST_TOKEN"},
		"--permission is \"contents": {"--kind", "github_app", "--permission", "contents", "--from-env", "CLI_TEST_TOKEN"},
	} {
		res := h.run(t, append([]string{"credential", "create", "a"}, args...)...)
		require.Equal(t, 2, res.code, says)
		require.Contains(t, res.stderr, says)
		require.NotContains(t, res.stderr, secret)
	}
}

func TestCredentialsAreRotatedTestedAndFollowed(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	path := filepath.Join(t.TempDir(), "app.pem")
	require.NoError(t, os.WriteFile(path, []byte("pem"), 0o600))
	res := h.run(t, "credential", "rotate", "github", "--value-file", path)
	require.Zero(t, res.code, res.stderr)
	got, _ := h.lastRequest("RotateCredentialRequest").(*deckhandv1.RotateCredentialRequest)
	require.Equal(t, "pem\n", got.GetValue().GetPrivateKey(), "it is read as a value of the credential's kind")
	res = h.run(t, "credential", "show", "github")
	require.Zero(t, res.code)
	require.Contains(t, res.stdout, "permissions=contents:read,pull_requests:write")
	res = h.run(t, "credential", "test", "good")
	require.Zero(t, res.code, res.stderr)
	require.Contains(t, res.stdout, "welcome")
	res = h.run(t, "credential", "test", "bad")
	require.Equal(t, 1, res.code)
	require.Contains(t, res.stderr, "unknown authority")
	require.Contains(t, res.stderr, "--roots FILE")
	res = h.run(t, "credential", "usage", "api")
	require.Zero(t, res.code)
	require.Contains(t, res.stdout, "api.example.com:443")
	require.NotContains(t, res.stdout, "\x1b[31m")
	require.Contains(t, res.stderr, "--page-token more")
}

// What no flag names stays, an empty list removes what is there, and the value is sent only if it
// is given.
func TestCredentialsAreUpdated(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	res := h.run(t, "credential", "update", "github", "--agent", "coder,reviewer", "--path", "", "--permission", "contents=write", "--app-id", "5678")
	require.Zero(t, res.code, res.stderr)
	require.Contains(t, res.stdout, "coder,reviewer")
	got, _ := h.lastRequest("UpdateCredentialRequest").(*deckhandv1.UpdateCredentialRequest)
	require.Equal(t, []string{"github.com"}, got.GetHosts())
	require.Equal(t, []string{"coder", "reviewer"}, got.GetAgents())
	require.Empty(t, got.GetPaths())
	require.Equal(t, "crv_1", got.GetVersion())
	require.Equal(t, "5678", got.GetSettings().GetAppId())
	require.Equal(t, map[string]string{"contents": "write"}, got.GetSettings().GetPermissions())
	require.Nil(t, got.GetValue())
	require.Nil(t, got.GetExpiresAt())
	path := filepath.Join(t.TempDir(), "app.pem")
	require.NoError(t, os.WriteFile(path, []byte("pem"), 0o600))
	res = h.run(t, "credential", "update", "github", "--host", "github.example.com", "--value-file", path, "--expires", "2099-01-31")
	require.Zero(t, res.code, res.stderr)
	got, _ = h.lastRequest("UpdateCredentialRequest").(*deckhandv1.UpdateCredentialRequest)
	require.Equal(t, []string{"github.example.com"}, got.GetHosts())
	require.Equal(t, []string{"/a/**"}, got.GetPaths())
	require.Equal(t, "pem\n", got.GetValue().GetPrivateKey())
	require.Equal(t, 2099, got.GetExpiresAt().AsTime().Year())
	require.Equal(t, 2, h.run(t, "credential", "update", "github", "--expires", "soon").code)
}
