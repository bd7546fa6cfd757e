package credential_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const secret = "tok-canary-7f3K9qLm2"

func bearer(name string) *deckhandv1.CreateCredentialRequest {
	return &deckhandv1.CreateCredentialRequest{
		Name: name, Kind: "bearer", Hosts: []string{"api.example.com"}, Agents: []string{"coder"}, Value: &deckhandv1.CredentialValue{Token: secret},
	}
}

// A value is sealed, is never returned, is masked, and is another one after a rotation.
func TestACredentialFromCreationToDeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := bearer("api")
	in.Hosts, in.Paths, in.Methods, in.Variable = []string{"API.Example.com.", "bücher.example"}, []string{"/v1/**"}, []string{"GET"}, "API_TOKEN"
	created := r.create(in)
	require.Equal(t, []string{"api.example.com", "xn--bcher-kva.example"}, created.GetHosts())
	require.True(t, created.GetHeld())
	require.Nil(t, created.GetUsedAt())
	_, err := r.Create(t.Context(), org, bearer("api"), admin)
	refused(t, err, fault.Exists, "there is a credential api already")
	require.NotContains(t, r.redact.Org(org).String("it is "+secret), "canary")
	require.False(t, r.redact.Org("org_2").Knows([]byte(secret)), "it is nothing to another organisation")

	_, err = r.Get(t.Context(), "org_2", "api")
	refused(t, err, fault.NotFound, `no credential "api"`)
	all, next, err := r.List(t.Context(), org, "", 10)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, all, 1)

	const second = "tok-second-5hW8rTnv4"
	_, err = r.Rotate(t.Context(), org, &deckhandv1.RotateCredentialRequest{Name: "api", Value: &deckhandv1.CredentialValue{Password: second}}, admin)
	refused(t, err, fault.Invalid, "password is not for credentials of the kind bearer")
	rotated, err := r.Rotate(t.Context(), org, &deckhandv1.RotateCredentialRequest{
		Name: "api", Value: &deckhandv1.CredentialValue{Token: second}, ExpiresAt: timestamppb.New(time.Now().Add(time.Hour)),
	}, admin)
	require.NoError(t, err)
	require.NotEqual(t, created.GetVersion(), rotated.GetVersion())
	require.NotNil(t, rotated.GetExpiresAt())
	require.Equal(t, []string{"org_1/api"}, r.ended)
	rows, err := r.store.SealedWithin(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	values, err := r.Values(rows[0])
	require.NoError(t, err)
	require.Contains(t, values, second)

	text, err := protojson.Marshal(rotated)
	require.NoError(t, err)
	require.NotContains(t, string(text), second)
	r.nowhere(secret, second)
	require.NoError(t, r.Delete(t.Context(), org, "api", admin))
	require.Equal(t, []string{"org_1/api", "org_1/api"}, r.ended)
	refused(t, r.Delete(t.Context(), org, "api", admin), fault.NotFound, "no credential")
	r.nowhere(secret, second)
	var actions []string
	require.NoError(t, r.conn.QueryRow(t.Context(), "SELECT array_agg(action ORDER BY id) FROM audit_entries WHERE org_id = 'org_1'").Scan(&actions))
	require.Equal(t, []string{"credential.created", "credential.rotated", "credential.deleted"}, actions)
}

// A value that was moved to another name or organisation in the database does not open.
func TestAValueIsBoundToItsOrganisationAndName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(bearer("api"))
	rows, err := r.store.SealedWithin(t.Context(), time.Hour)
	require.NoError(t, err)
	for _, other := range []db.SealedWithinRow{
		{OrgID: "org_2", ID: "api", Sealed: rows[0].Sealed}, {OrgID: org, ID: "other", Sealed: rows[0].Sealed},
	} {
		_, err := r.Values(other)
		require.Error(t, err)
	}
}

// A rotation of the vault's keys opens values by what the table of sealed columns says.
func TestTheTableOfSealedColumnsNamesWhatAValueIsBoundTo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(bearer("api"))
	at := slices.IndexFunc(store.SealedColumns, func(c store.SealedColumn) bool { return c.Table == "egress_credentials" })
	require.GreaterOrEqual(t, at, 0)
	var object string
	var sealed []byte
	require.NoError(t, r.conn.QueryRow(t.Context(), "SELECT "+store.SealedColumns[at].Object+", sealed FROM egress_credentials").Scan(&object, &sealed))
	plain, err := r.vault.Open(sealed, object)
	require.NoError(t, err)
	require.Contains(t, string(plain), secret)
}

// What is wrong with a credential is said with the field and what to write.
func TestACredentialIsChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for says, change := range map[string]func(*deckhandv1.CreateCredentialRequest){
		"hosts is empty":                     func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = nil },
		`"https://api.example.com"`:          func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = []string{"https://api.example.com"} },
		`"api.example.com:8443"`:             func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = []string{"api.example.com:8443"} },
		`"*.example.com"`:                    func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = []string{"*.example.com"} },
		`"10.0.0.0/8"`:                       func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = []string{"10.0.0.0/8"} },
		"10.1.2.3, which is not a public":    func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = []string{"10.1.2.3"} },
		"api.example.com twice":              func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = []string{"api.example.com", "API.example.com"} },
		"ports has 443 twice":                func(c *deckhandv1.CreateCredentialRequest) { c.Ports = []uint32{443, 443} },
		`methods has "get"`:                  func(c *deckhandv1.CreateCredentialRequest) { c.Methods = []string{"get"} },
		`paths has "v1"`:                     func(c *deckhandv1.CreateCredentialRequest) { c.Paths = []string{"v1"} },
		`paths has "/v1?x=1"`:                func(c *deckhandv1.CreateCredentialRequest) { c.Paths = []string{"/v1?x=1"} },
		`agents has "Coder"`:                 func(c *deckhandv1.CreateCredentialRequest) { c.Agents = []string{"Coder"} },
		"LD_PRELOAD, which changes":          func(c *deckhandv1.CreateCredentialRequest) { c.Variable = "LD_PRELOAD" },
		"https_proxy, which changes":         func(c *deckhandv1.CreateCredentialRequest) { c.Variable = "https_proxy" },
		"NODE_EXTRA_CA_CERTS, which changes": func(c *deckhandv1.CreateCredentialRequest) { c.Variable = "NODE_EXTRA_CA_CERTS" },
		"GIT_SSH_COMMAND, which changes":     func(c *deckhandv1.CreateCredentialRequest) { c.Variable = "GIT_SSH_COMMAND" },
		"not the name of a variable":         func(c *deckhandv1.CreateCredentialRequest) { c.Variable = "A-B" },
		"not a certificate":                  func(c *deckhandv1.CreateCredentialRequest) { c.Roots = "-----BEGIN PRIVATE KEY-----" },
		"which is past":                      func(c *deckhandv1.CreateCredentialRequest) { c.ExpiresAt = timestamppb.New(time.Now().Add(-time.Hour)) },
		"token is empty":                     func(c *deckhandv1.CreateCredentialRequest) { c.Value = &deckhandv1.CredentialValue{} },
		"username is not for credentials":    func(c *deckhandv1.CreateCredentialRequest) { c.Value.Username = "u" },
		"header is not for credentials": func(c *deckhandv1.CreateCredentialRequest) {
			c.Settings = &deckhandv1.CredentialSettings{Header: "X-A"}
		},
		"value.token reads like words":  func(c *deckhandv1.CreateCredentialRequest) { c.Value.Token = "correct-horse-battery-staple" },
		"value.token has spaces":        func(c *deckhandv1.CreateCredentialRequest) { c.Value.Token = secret + "\r\nX: y" },
		"into which no credential":      func(c *deckhandv1.CreateCredentialRequest) { header(c, "Content-Length") },
		"settings.header is \"X A\"":    func(c *deckhandv1.CreateCredentialRequest) { header(c, "X A") },
		"value.value has line ends":     func(c *deckhandv1.CreateCredentialRequest) { header(c, "X-A"); c.Value.Value = "a8f7Kq2\nX: y" },
		"neither username nor password": func(c *deckhandv1.CreateCredentialRequest) { c.Kind, c.Value = "basic", &deckhandv1.CredentialValue{} },
		"value.username has a colon": func(c *deckhandv1.CreateCredentialRequest) {
			c.Kind, c.Value = "basic", &deckhandv1.CredentialValue{Username: "a:b", Password: secret}
		},
		"private_key is not a key": func(c *deckhandv1.CreateCredentialRequest) {
			c.Kind = "github_app"
			c.Settings = app("acme/web")
			c.Value = &deckhandv1.CredentialValue{PrivateKey: "x"}
		},
		"repositories is empty": func(c *deckhandv1.CreateCredentialRequest) {
			c.Kind = "github_app"
			c.Settings = app()
			c.Value = &deckhandv1.CredentialValue{PrivateKey: "x"}
		},
		`settings.repositories has "acme"`: func(c *deckhandv1.CreateCredentialRequest) {
			c.Kind = "github_app"
			c.Settings = app("acme")
			c.Value = &deckhandv1.CredentialValue{PrivateKey: "x"}
		},
		"token_url is not a plain https":       func(c *deckhandv1.CreateCredentialRequest) { client(c, "http://login.example.com/token") },
		"settings.region and settings.service": func(c *deckhandv1.CreateCredentialRequest) { keys(c, "minio.example.com") },
		"value.access_key_id is not": func(c *deckhandv1.CreateCredentialRequest) {
			keys(c, "s3.eu-west-1.amazonaws.com")
			c.Value.AccessKeyId = "short"
		},
	} {
		in := bearer("api")
		change(in)
		_, err := r.Create(t.Context(), org, in, admin)
		e := fault.As(err)
		if assert.NotNil(t, e, "%s: %v", says, err) {
			assert.Equal(t, fault.Invalid, e.Kind, says)
			assert.Contains(t, e.Message, says)
			assert.NotEmpty(t, e.Fix, says)
			assert.NotContains(t, e.Message+e.Fix, "canary", says)
		}
	}
	r.nowhere(secret)
}

func header(c *deckhandv1.CreateCredentialRequest, name string) {
	c.Kind, c.Settings, c.Value = "header", &deckhandv1.CredentialSettings{Header: name}, &deckhandv1.CredentialValue{Value: secret}
}

func app(repositories ...string) *deckhandv1.CredentialSettings {
	return &deckhandv1.CredentialSettings{AppId: "1234", Repositories: repositories, Permissions: map[string]string{"contents": "write"}}
}

func client(c *deckhandv1.CreateCredentialRequest, tokenURL string) {
	c.Kind, c.Settings, c.Value = "oauth2_client", &deckhandv1.CredentialSettings{TokenUrl: tokenURL, ClientId: "c"}, &deckhandv1.CredentialValue{ClientSecret: secret}
}

func keys(c *deckhandv1.CreateCredentialRequest, host string) {
	c.Kind, c.Hosts, c.Value = "aws_sigv4", []string{host}, &deckhandv1.CredentialValue{AccessKeyId: accessKey, SecretAccessKey: secretKey}
}

// Each form in which a value is sent is masked.
func TestAllFormsOfAValueAreMasked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := bearer("basic")
	in.Kind, in.Value = string(credential.Basic), &deckhandv1.CredentialValue{Username: "robot", Password: secret}
	r.create(in)
	in = bearer("header")
	header(in, "Authorization")
	in.Value.Value = "Token 8Jk2mQ9xPz41"
	r.create(in)
	in = bearer("app")
	key, text := appKey(t)
	_ = key
	in.Kind, in.Settings, in.Value = string(credential.GitHubApp), app("acme/web"), &deckhandv1.CredentialValue{PrivateKey: text}
	r.create(in)
	mask := r.redact.Org(org)
	for _, sent := range []string{
		secret, base64.StdEncoding.EncodeToString([]byte("robot:" + secret)), "8Jk2mQ9xPz41", strings.Split(text, "\n")[2],
	} {
		require.NotContains(t, mask.String("sent: "+sent+"."), sent)
	}
	require.Equal(t, "robot", mask.String("robot"))
}

// A persona gets bindings of the credentials that it lists and may use.
func TestBindingsAreThoseThatAnAgentMayUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := bearer("api")
	in.Paths, in.Methods, in.Ports, in.Variable = []string{"/v1/**"}, []string{"GET", "POST"}, []uint32{8443}, "API_TOKEN"
	r.create(in)
	other := bearer("other")
	other.Hosts, other.Agents = []string{"other.example.com"}, []string{"somebody"}
	r.create(other)
	late := bearer("late")
	late.Hosts, late.ExpiresAt = []string{"late.example.com"}, timestamppb.New(time.Now().Add(time.Hour))
	r.create(late)

	bindings, err := r.Bindings(t.Context(), org, "coder", []persona.Credential{{Name: "api", Pushes: []string{"refs/heads/x create"}}})
	require.NoError(t, err)
	require.Len(t, bindings, 1)
	b := bindings[0]
	require.Equal(t, []string{"api.example.com"}, b.GetHosts())
	require.Equal(t, []uint32{8443}, b.GetPorts())
	require.Equal(t, []string{"/v1/**"}, b.GetPaths())
	require.Equal(t, []string{"refs/heads/x create"}, b.GetPushes())
	require.True(t, b.GetHeld())
	require.Equal(t, "API_TOKEN", b.GetVariable())
	require.NotEmpty(t, b.GetPlaceholder())
	require.NotEmpty(t, b.GetVersion())
	require.NotContains(t, b.String(), "canary")

	want := []persona.Credential{{Name: "none"}, {Name: "api"}, {Name: "late"}}
	bindings, err = r.Bindings(t.Context(), org, "coder", want)
	refused(t, err, fault.NotFound, "there is no credential none: it was deleted, or never created")
	require.Len(t, bindings, 2, "the others can be used")
	r.exec("UPDATE egress_credentials SET expires_at = now() - interval '1 second' WHERE name = 'late'")
	bindings, err = r.Bindings(t.Context(), org, "coder", want[1:])
	refused(t, err, fault.Precondition, "credential late has expired")
	require.Len(t, bindings, 1)
	_, err = r.Bindings(t.Context(), org, "coder", []persona.Credential{{Name: "other"}})
	refused(t, err, fault.Denied, "agent coder may not use credential other")
	_, err = r.Bindings(t.Context(), "org_2", "coder", want[1:])
	refused(t, err, fault.NotFound, "there is no credential api")
	_, err = r.Bindings(t.Context(), org, "coder", []persona.Credential{{Name: "api", Permissions: map[string]string{"contents": "write"}}})
	refused(t, err, fault.Denied, "cannot be narrowed")
}

// Two credentials that could be for one request are an error, never a choice.
func TestTwoCredentialsForOneRequestAreAnError(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, change := range map[string]func(*deckhandv1.CreateCredentialRequest){
		"everything": func(*deckhandv1.CreateCredentialRequest) {},
		"reads":      func(c *deckhandv1.CreateCredentialRequest) { c.Methods = []string{"GET"} },
		"writes":     func(c *deckhandv1.CreateCredentialRequest) { c.Methods = []string{"POST"} },
		"v1":         func(c *deckhandv1.CreateCredentialRequest) { c.Paths = []string{"/v1/**"} },
		"v2":         func(c *deckhandv1.CreateCredentialRequest) { c.Paths = []string{"/v2/**"} },
		"item":       func(c *deckhandv1.CreateCredentialRequest) { c.Paths = []string{"/{version}/items"} },
		"port":       func(c *deckhandv1.CreateCredentialRequest) { c.Ports = []uint32{8443} },
		"no-v1":      func(c *deckhandv1.CreateCredentialRequest) { c.Paths = []string{"!/v1/**"} },
		"no-items":   func(c *deckhandv1.CreateCredentialRequest) { c.Paths = []string{"/v1/**", "!/v1/items"} },
		"host":       func(c *deckhandv1.CreateCredentialRequest) { c.Hosts = []string{"b.example.com"} },
		"var-1":      func(c *deckhandv1.CreateCredentialRequest) { c.Hosts, c.Variable = []string{"c.example.com"}, "TOKEN" },
		"var-2":      func(c *deckhandv1.CreateCredentialRequest) { c.Hosts, c.Variable = []string{"d.example.com"}, "TOKEN" },
	} {
		in := bearer(name)
		change(in)
		r.create(in)
	}
	for pair, conflicts := range map[[2]string]bool{
		{"everything", "reads"}: true, {"reads", "writes"}: false, {"v1", "v2"}: false, {"v1", "item"}: true, {"v2", "reads"}: true,
		{"everything", "no-v1"}: true, {"no-v1", "v1"}: false, {"v1", "no-v1"}: false, {"no-v1", "v2"}: true, {"no-v1", "item"}: true, {"no-items", "item"}: true, {"no-items", "no-v1"}: false,
		{"everything", "port"}: false, {"everything", "host"}: false, {"var-1", "var-2"}: true,
	} {
		bindings, err := r.Bindings(t.Context(), org, "coder", []persona.Credential{{Name: pair[0]}, {Name: pair[1]}, {Name: "host"}})
		if pair[1] == "host" {
			bindings, err = r.Bindings(t.Context(), org, "coder", []persona.Credential{{Name: pair[0]}, {Name: pair[1]}})
		}
		if !conflicts {
			require.NoError(t, err, pair)
			continue
		}
		refused(t, err, fault.Precondition, pair[0])
		require.ErrorContains(t, err, pair[1])
		require.Len(t, bindings, 1, "neither of them is inserted")
		require.Equal(t, "host", bindings[0].GetCredential())
	}
}

// What a credential is for changes under its name, with the value that it has; but a value that
// is kept is sent nowhere that it was not for.
func TestACredentialIsUpdated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	made := r.create(bearer("api"))
	update := func(change func(*deckhandv1.UpdateCredentialRequest)) (*deckhandv1.Credential, error) {
		now, err := r.Get(t.Context(), org, "api")
		require.NoError(t, err)
		in := &deckhandv1.UpdateCredentialRequest{
			Name: "api", Version: now.GetVersion(), Hosts: now.GetHosts(), Ports: now.GetPorts(), Methods: now.GetMethods(), Paths: now.GetPaths(), Private: now.GetPrivate(),
			Agents: now.GetAgents(), Settings: now.GetSettings(), Variable: now.GetVariable(), Roots: now.GetRoots(),
		}
		change(in)
		return r.Update(t.Context(), org, in, admin)
	}
	got, err := update(func(in *deckhandv1.UpdateCredentialRequest) {
		in.Methods, in.Agents, in.Variable = []string{http.MethodGet}, []string{"coder", "reviewer"}, "API_TOKEN"
	})
	require.NoError(t, err)
	require.Equal(t, []string{http.MethodGet}, got.GetMethods())
	require.Equal(t, []string{"coder", "reviewer"}, got.GetAgents())
	require.NotEqual(t, made.GetVersion(), got.GetVersion())
	require.Equal(t, made.GetRotatedAt().AsTime(), got.GetRotatedAt().AsTime(), "the value was not replaced")
	require.Contains(t, r.ended, "org_1/api")
	req := request(t, http.MethodGet, "https://api.example.com/", "")
	_, err = r.Insert(t.Context(), org, node, jail, "api", req)
	require.NoError(t, err)
	require.NotEmpty(t, req.Header.Get("Authorization"))
	_, err = r.Insert(t.Context(), org, node, jail, "api", request(t, http.MethodPost, "https://api.example.com/", ""))
	refused(t, err, fault.Denied, "its method is POST")

	for says, change := range map[string]func(*deckhandv1.UpdateCredentialRequest){
		"hosts: evil.example.com is new": func(in *deckhandv1.UpdateCredentialRequest) { in.Hosts = append(in.Hosts, "evil.example.com") },
		"ports: 8443 is new":             func(in *deckhandv1.UpdateCredentialRequest) { in.Ports = []uint32{443, 8443} },
		"private: it was for public":     func(in *deckhandv1.UpdateCredentialRequest) { in.Private = true },
		"settings.base_url": func(in *deckhandv1.UpdateCredentialRequest) {
			in.Settings.Api, in.Settings.BaseUrl = "gitlab", "https://api.example.com/x"
		},
		"which is not a method": func(in *deckhandv1.UpdateCredentialRequest) { in.Methods = []string{"get"} },
		"hosts is empty":        func(in *deckhandv1.UpdateCredentialRequest) { in.Hosts = nil },
	} {
		_, err := update(change)
		refused(t, err, fault.Invalid, says)
	}
	_, err = update(func(in *deckhandv1.UpdateCredentialRequest) { in.Version = made.GetVersion() })
	refused(t, err, fault.Precondition, "has changed since it was read")
	_, err = r.Update(t.Context(), org, &deckhandv1.UpdateCredentialRequest{Name: "absent", Hosts: []string{"a.example.com"}}, admin)
	refused(t, err, fault.NotFound, "there is no credential")
	_, err = r.Update(t.Context(), "org_2", &deckhandv1.UpdateCredentialRequest{Name: "api", Hosts: []string{"api.example.com"}}, admin)
	refused(t, err, fault.NotFound, "there is no credential")

	const another = "another-token-0123456789"
	got, err = update(func(in *deckhandv1.UpdateCredentialRequest) {
		in.Hosts, in.Value = []string{"eu.example.com"}, &deckhandv1.CredentialValue{Token: another}
	})
	require.NoError(t, err)
	require.Equal(t, []string{"eu.example.com"}, got.GetHosts())
	require.True(t, got.GetRotatedAt().AsTime().After(made.GetRotatedAt().AsTime()))
	req = request(t, http.MethodGet, "https://eu.example.com/", "")
	_, err = r.Insert(t.Context(), org, node, jail, "api", req)
	require.NoError(t, err)
	require.Equal(t, "Bearer "+another, req.Header.Get("Authorization"))
	_, err = r.Insert(t.Context(), org, node, jail, "api", request(t, http.MethodGet, "https://api.example.com/", ""))
	refused(t, err, fault.Denied, "it goes to api.example.com")
	var audited int
	require.NoError(t, r.conn.QueryRow(t.Context(), "SELECT count(*) FROM audit_entries WHERE action = 'credential.updated'").Scan(&audited))
	require.Equal(t, 2, audited)
	r.nowhere(another)
}

// A token is not given for a host that its credential is not for any more.
func TestATokenIsForTheHostsOfItsCredential(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGitHub(t)
	g.app(r, func(c *deckhandv1.CreateCredentialRequest) {
		c.Settings.InstallationId, c.Settings.Repositories = 77, []string{"acme/web"}
	})
	_, err := r.Token(t.Context(), org, node, jail, "github", fmt.Sprintf("%s:%d", g.host, g.port))
	require.NoError(t, err)
	for _, target := range []string{"evil.example.com:443", fmt.Sprintf("%s:1", g.host)} {
		_, err := r.Token(t.Context(), org, node, jail, "github", target)
		refused(t, err, fault.Denied, "is not for requests to "+target)
	}
	_, err = r.Token(t.Context(), org, node, jail, "github", "nonsense")
	refused(t, err, fault.Invalid, "is not a host and port")
}
