package credential

import (
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/hub/egress/mint"
	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/devcontainer"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/httprule"
	"github.com/deckhand-sh/deckhand/internal/netaddr"
	"github.com/deckhand-sh/deckhand/internal/secretcheck"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// AllAgents is the name that stands for every agent.
const AllAgents = "*"

var (
	agentName    = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	methodName   = regexp.MustCompile(`^[A-Z]{1,32}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	appID        = regexp.MustCompile(`^[A-Za-z0-9.]{1,64}$`)
	ownerName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,99}$`)
	repoName     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
	permission   = regexp.MustCompile(`^[a-z][a-z_]{0,63}$`)
	accessKeyID  = regexp.MustCompile(`^[A-Za-z0-9_]{16,128}$`)
	awsWord      = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
)

// complete checks a credential that is to be created, and writes it in the usual way.
func complete(in *deckhandv1.CreateCredentialRequest) error {
	if in.Settings == nil {
		in.Settings = &deckhandv1.CredentialSettings{}
	}
	kind := Kind(in.GetKind())
	f := forms[kind]
	if err := only(in.GetSettings(), kind, f.settings); err != nil {
		return err
	}
	for _, name := range f.needs {
		if !has(name, in.GetSettings(), in.GetValue()) {
			return fault.New(fault.Invalid, "%s is empty, which credentials of the kind %s need", name, kind).WithFix("give it")
		}
	}
	for _, check := range []func() error{
		func() error { return checkReserved(in) },
		func() error { return checkSettings(kind, in.GetSettings()) },
		func() error { return completeHosts(in) },
		func() error { return checkRequests(in) },
		func() error { return checkRest(in) },
		func() error { return checkTyped(in) },
		func() error { return checkValue(kind, in.GetValue()) },
		func() error { return checkExpiry(in.GetExpiresAt().AsTime(), in.GetExpiresAt() != nil) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkReserved refuses the name under which programs in jails call the hub, and the host.
func checkReserved(in *deckhandv1.CreateCredentialRequest) error {
	for _, host := range in.GetHosts() {
		if name, _, _ := strings.Cut(host, ":"); strings.EqualFold(strings.TrimSuffix(name, "."), egresslink.HubHost) {
			return fault.New(fault.Invalid, "hosts has %s, at which programs in jails call the hub", egresslink.HubHost).WithFix("leave it out")
		}
	}
	if in.GetName() != egresslink.HubCredential {
		return nil
	}
	return fault.New(fault.Invalid, "name is %s, under which calls of the hub by programs in jails are recorded", egresslink.HubCredential).WithFix("choose another name")
}

// completeHosts checks the hosts; for a kind that has its own, it adds them if there are none.
func completeHosts(in *deckhandv1.CreateCredentialRequest) error {
	if f := forms[Kind(in.GetKind())]; len(in.GetHosts()) == 0 && f.baseURL != "" {
		in.Hosts = f.hosts
		if base := in.GetSettings().GetBaseUrl(); base != "" {
			u, err := url.Parse(base)
			if err != nil {
				return fault.New(fault.Invalid, "settings.base_url cannot be parsed").WithFix("use https://host/path")
			}
			in.Hosts = []string{u.Hostname()}
			if port := u.Port(); port != "" && len(in.GetPorts()) == 0 {
				t, err := allowlist.ParseTarget(u.Host, 0)
				if err != nil {
					return fault.New(fault.Invalid, "settings.base_url: %s", err).WithFix("use https://host/path")
				}
				in.Ports = []uint32{uint32(t.Port)}
			}
		}
	}
	if len(in.GetHosts()) == 0 {
		return fault.New(fault.Invalid, "hosts is empty").WithFix("name the hosts whose requests it is for, such as api.example.com")
	}
	hosts := make([]string, 0, len(in.GetHosts()))
	for _, text := range in.GetHosts() {
		host, err := checkHost(text)
		if err != nil {
			return err
		}
		if addr, err := netip.ParseAddr(host); err == nil && netaddr.Special(addr) != nil && !in.GetPrivate() {
			return fault.New(fault.Invalid, "hosts has %s, which is not a public address", host).WithFix("set private as well")
		}
		if slices.Contains(hosts, host) {
			return fault.New(fault.Invalid, "hosts has %s twice", host).WithFix("keep one")
		}
		hosts = append(hosts, host)
	}
	in.Hosts = hosts
	if in.GetKind() == string(AWS) {
		for _, host := range hosts {
			if _, _, err := signingScope(in.GetSettings(), host); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkHost returns a host in the usual form: lower case, punycode, without a dot at the end.
func checkHost(text string) (string, error) {
	wrong := func() *fault.Error {
		return fault.New(fault.Invalid, "hosts has %q, which is not the name or address of one host", text).
			WithFix("write it without scheme, port, path and *, such as api.example.com or 10.1.2.3; ports are a field of their own")
	}
	if strings.ContainsAny(text, "*/ ") {
		return "", wrong()
	}
	name := strings.TrimSuffix(strings.ToLower(text), ".")
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		name = strings.Trim(name, "[]")
	} else if name, err = idna.Lookup.ToASCII(name); err != nil || strings.Contains(name, ":") {
		return "", wrong()
	}
	t, err := allowlist.ParseTarget(name, 443)
	if err != nil {
		return "", wrong()
	}
	return t.Host, nil
}

// checkPath says what is wrong with the template of a path.
func checkPath(template string) error {
	fix := "begin with / and leave the query out, as in /repos/{owner}/{repo}/**; !/admin/** leaves paths out"
	template = strings.TrimPrefix(template, httprule.DeniedMark)
	if !strings.HasPrefix(template, "/") || strings.ContainsAny(template, "?# \\") {
		return fault.New(fault.Invalid, "paths has %q, which is not the template of a path", template).WithFix("%s", fix)
	}
	if _, err := httprule.Parse(template); err != nil {
		return fault.New(fault.Invalid, "paths has %q: %s", template, err).WithFix("%s", fix)
	}
	return nil
}

// checkRequests checks which requests a credential is for.
func checkRequests(in *deckhandv1.CreateCredentialRequest) error {
	for i, port := range in.GetPorts() {
		if slices.Contains(in.GetPorts()[:i], port) {
			return fault.New(fault.Invalid, "ports has %d twice", port).WithFix("keep one")
		}
	}
	for i, method := range in.GetMethods() {
		switch {
		case !methodName.MatchString(method):
			return fault.New(fault.Invalid, "methods has %q, which is not a method of HTTP", method).WithFix("use upper-case letters, such as GET")
		case slices.Contains(in.GetMethods()[:i], method):
			return fault.New(fault.Invalid, "methods has %s twice", method).WithFix("keep one")
		}
	}
	for i, path := range in.GetPaths() {
		if err := checkPath(path); err != nil {
			return err
		}
		if slices.Contains(in.GetPaths()[:i], path) {
			return fault.New(fault.Invalid, "paths has %q twice", path).WithFix("keep one")
		}
	}
	return nil
}

// trustVariables are those that change what a program trusts or how it connects, besides
// those that change which programs run.
var trustVariables = []string{
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "CURL_HOME", "AWS_CA_BUNDLE",
	"HOME", "USER", "LOGNAME", "PWD", "OLDPWD", "TMPDIR", "TERM", "LANG", "TZ", "HOSTNAME", "TRACEPARENT",
}

// checkRest checks agents, variable and roots.
func checkRest(in *deckhandv1.CreateCredentialRequest) error {
	for i, name := range in.GetAgents() {
		switch {
		case name != AllAgents && !agentName.MatchString(name):
			return fault.New(fault.Invalid, "agents has %q, which is not the name of an agent", name).WithFix("use names as deckhand agent list shows them, or * for all agents")
		case slices.Contains(in.GetAgents()[:i], name):
			return fault.New(fault.Invalid, "agents has %s twice", name).WithFix("keep one")
		}
	}
	if name := in.GetVariable(); name != "" {
		upper := strings.ToUpper(name)
		switch {
		case !variableName.MatchString(name):
			return fault.New(fault.Invalid, "variable is %q, which is not the name of a variable", name).WithFix("use letters, digits and _, such as GITHUB_TOKEN")
		case devcontainer.ChangesPrograms(name), slices.Contains(trustVariables, upper), strings.HasSuffix(upper, "_PROXY"), strings.HasPrefix(upper, "DECKHAND_"), strings.HasPrefix(upper, "LC_"):
			return fault.New(fault.Invalid, "variable is %s, which changes what programs do", name).WithFix("use the variable from which the program reads its token, such as GITHUB_TOKEN")
		}
	}
	if in.GetRoots() != "" {
		rest := []byte(strings.TrimSpace(in.GetRoots()))
		for len(rest) > 0 {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
				return fault.New(fault.Invalid, "roots has something that is not a certificate in PEM").WithFix("give the certificates of the authorities only, from BEGIN CERTIFICATE to END CERTIFICATE")
			}
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return fault.New(fault.Invalid, "roots has a certificate that cannot be parsed").WithFix("export it again in PEM")
			}
		}
	}
	return nil
}

func checkExpiry(at time.Time, given bool) error {
	if given && !at.After(time.Now()) {
		return fault.New(fault.Invalid, "expires_at is %s, which is past", at.UTC().Format(time.RFC3339)).WithFix("give a value that is still valid")
	}
	return nil
}

// connectionHeaders are those that say how a message is sent, not what it is.
var connectionHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Expect", "Content-Type", "Content-Encoding"}

// checkSettings checks the settings of a kind.
func checkSettings(kind Kind, s *deckhandv1.CredentialSettings) error {
	if name := s.GetHeader(); name != "" {
		canonical := strings.ToLower(name)
		if !httpguts.ValidHeaderFieldName(name) || strings.HasPrefix(canonical, "proxy-") || strings.HasPrefix(canonical, "deckhand-") ||
			slices.ContainsFunc(connectionHeaders, func(h string) bool { return strings.EqualFold(h, name) }) {
			return fault.New(fault.Invalid, "settings.header is %q, into which no credential can be inserted", name).WithFix("use the header that the server's documentation names, such as X-Api-Key")
		}
	}
	if p := s.GetParameter(); strings.ContainsAny(p, "&=# \r\n") {
		return fault.New(fault.Invalid, "settings.parameter is %q, which is not the name of a parameter", p).WithFix("use the name alone, such as key")
	}
	for field, text := range map[string]string{"base_url": s.GetBaseUrl(), "token_url": s.GetTokenUrl()} {
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || field == "base_url" && u.RawQuery != "" {
			return fault.New(fault.Invalid, "settings.%s is not a plain https URL", field).WithFix("use https://host/path, without user and fragment")
		}
	}
	s.BaseUrl = strings.TrimRight(s.GetBaseUrl(), "/")
	for field, text := range map[string]string{"region": s.GetRegion(), "service": s.GetService()} {
		if text != "" && !awsWord.MatchString(text) {
			return fault.New(fault.Invalid, "settings.%s is %q, which is none of AWS", field, text).WithFix("use one such as eu-central-1 and s3")
		}
	}
	if kind == GitHubApp {
		return checkApp(s)
	}
	if (kind == Bearer || kind == Basic) && s.GetBaseUrl() != "" && s.GetApi() == "" {
		return fault.New(fault.Invalid, "settings.base_url is given, and settings.api is empty").WithFix("set settings.api to %s, whose API is there", strings.Join(forge.APIs, " or "))
	}
	return nil
}

// checkApp checks the settings of a GitHub App.
func checkApp(s *deckhandv1.CredentialSettings) error {
	if !appID.MatchString(s.GetAppId()) {
		return fault.New(fault.Invalid, "settings.app_id is %q, which is not the id of an app", s.GetAppId()).WithFix("copy it from the app's page on GitHub, such as 123456")
	}
	for i, text := range s.GetRepositories() {
		owner, name, _ := strings.Cut(text, "/")
		switch {
		case !ownerName.MatchString(owner) || name != "*" && (!repoName.MatchString(name) || name == "." || name == ".."):
			return fault.New(fault.Invalid, "settings.repositories has %q, which is not a repository", text).WithFix("write OWNER/NAME, or OWNER/* for all of an owner")
		case slices.Contains(s.GetRepositories()[:i], text):
			return fault.New(fault.Invalid, "settings.repositories has %s twice", text).WithFix("keep one")
		}
	}
	for name := range s.GetPermissions() {
		if !permission.MatchString(name) {
			return fault.New(fault.Invalid, "settings.permissions has %q, which is not a permission", name).WithFix("use names of GitHub's API, such as contents or pull_requests")
		}
	}
	return nil
}

// checkValue checks the form of a value.
func checkValue(kind Kind, v *deckhandv1.CredentialValue) error {
	if err := only(v, kind, forms[kind].value); err != nil {
		return err
	}
	for _, name := range forms[kind].value {
		if slices.Contains(forms[kind].needs, name) && !has(name, v) {
			return fault.New(fault.Invalid, "value.%s is empty", name).WithFix("give it")
		}
	}
	for field, text := range map[string]string{
		"token": v.GetToken(), "client_secret": v.GetClientSecret(), "refresh_token": v.GetRefreshToken(), "access_key_id": v.GetAccessKeyId(),
		"secret_access_key": v.GetSecretAccessKey(), "session_token": v.GetSessionToken(),
	} {
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fault.New(fault.Invalid, "value.%s has spaces, line ends or characters that none has", field).WithFix("copy it again, whole and alone")
		}
	}
	for field, text := range map[string]string{"value": v.GetValue(), "username": v.GetUsername(), "password": v.GetPassword()} {
		if !httpguts.ValidHeaderFieldValue(text) || strings.TrimSpace(text) != text {
			return fault.New(fault.Invalid, "value.%s has line ends, control characters, or spaces at an end", field).WithFix("copy it again, whole and alone")
		}
	}
	if strings.Contains(v.GetUsername(), ":") {
		return fault.New(fault.Invalid, "value.username has a colon, which basic authentication cannot send").WithFix("check whether it is username:password in one")
	}
	if kind == Password {
		if err := checkTypedValue(v); err != nil {
			return err
		}
	}
	if kind == GitHubApp {
		if _, err := mint.ParseKey(v.GetPrivateKey()); err != nil {
			return fault.New(fault.Invalid, "value.private_key is not a key of a GitHub App: %s", err).WithFix("give the .pem file that GitHub issued")
		}
		return nil
	}
	if kind == AWS && !accessKeyID.MatchString(v.GetAccessKeyId()) {
		return fault.New(fault.Invalid, "value.access_key_id is not the id of an access key").WithFix("give the one that belongs to the secret access key, such as AKIA…")
	}
	if kind == Basic && v.GetUsername() == "" && v.GetPassword() == "" {
		return fault.New(fault.Invalid, "value has neither username nor password").WithFix("give both, or one for a server that takes a key as one of them")
	}
	return checkStrength(kind, v)
}

// checkStrength refuses values that would be guessed, and masked wherever they occur.
func checkStrength(kind Kind, v *deckhandv1.CredentialValue) error {
	secret := map[Kind]string{
		Bearer: "token", GitLab: "token", Header: "value", Query: "value", Basic: "password", Password: "password", OAuth2Client: "client_secret", AWS: "secret_access_key",
	}[kind]
	if kind == Basic && v.GetPassword() == "" {
		secret = "username"
	}
	r := v.ProtoReflect()
	text := r.Get(r.Descriptor().Fields().ByName(protoreflect.Name(secret))).String()
	if weak := secretcheck.Weak(text); weak != "" {
		return fault.New(fault.Invalid, "value.%s %s", secret, weak).WithFix("use one that the server issues")
	}
	return nil
}

// clone returns a request that may be changed.
func clone(in *deckhandv1.CreateCredentialRequest) *deckhandv1.CreateCredentialRequest {
	return proto.CloneOf(in)
}
