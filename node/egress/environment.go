package egress

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The files in nodelink.TrustPath: what the jail's root trusts and the jail's authorities,
// and the authorities alone.
const (
	TrustBundle      = "bundle.pem"
	TrustAuthorities = "authorities.pem"
)

// variable is one of an environment.
type variable struct{ name, value string }

// Environment returns a command's environment with what it needs for the way out of its
// jail: how programs find the proxy, whom they trust, placeholders for the tokens that the
// proxy inserts, and how git reaches the hosts of credentials. What the command has of it
// already stays. The user name of the proxy says which exec it is; some programs send none
// without a password.
func Environment(exec string, rules *nodev1.Egress, env []string) []string {
	set := map[string]bool{}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		set[name] = true
	}
	proxy := fmt.Sprintf("http://%s:x@127.0.0.1:%d", exec, allowlist.ProxyPort)
	all := []variable{{"http_proxy", proxy}, {"https_proxy", proxy}, {"no_proxy", "localhost,127.0.0.1,::1"}}
	for _, one := range all[:3:3] {
		all = append(all, variable{strings.ToUpper(one.name), one.value})
	}
	if len(rules.GetAuthorities()) > 0 {
		all = append(all, trust...)
	}
	for _, b := range rules.GetBindings() {
		if b.GetVariable() != "" {
			all = append(all, variable{b.GetVariable(), b.GetPlaceholder()})
		}
	}
	if !set["GIT_CONFIG_COUNT"] {
		all = append(all, gitConfig(rules)...)
	}
	var out []string
	for _, one := range all {
		if !set[one.name] {
			set[one.name] = true
			out = append(out, one.name+"="+one.value)
		}
	}
	return append(out, env...)
}

// trust are the variables by which programs find the certificates that they trust: OpenSSL
// and Go, curl, git, Python's requests and pip, Node (which adds to its own), the AWS tools,
// Cargo, Deno, Nix and gRPC.
var trust = func() (out []variable) {
	bundle := nodelink.TrustPath + "/" + TrustBundle
	for _, name := range []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "PIP_CERT", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT", "NIX_SSL_CERT_FILE",
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	} {
		out = append(out, variable{name, bundle})
	}
	return append(out, variable{"NODE_EXTRA_CA_CERTS", nodelink.TrustPath + "/" + TrustAuthorities})
}()

// gitConfig has git reach the hosts of credentials over HTTPS, whatever form a remote or a
// submodule names them in.
func gitConfig(rules *nodev1.Egress) []variable {
	var out []variable
	count := 0
	add := func(key, value string) {
		n := strconv.Itoa(count)
		out = append(out, variable{"GIT_CONFIG_KEY_" + n, key}, variable{"GIT_CONFIG_VALUE_" + n, value})
		count++
	}
	for _, b := range rules.GetBindings() {
		base := ""
		if ports := b.GetPorts(); len(ports) > 0 && ports[0] != 443 {
			base = ":" + strconv.Itoa(int(ports[0]))
		}
		for _, host := range b.GetHosts() {
			key := "url.https://" + host + base + "/.insteadOf"
			for _, form := range []string{"git@" + host + ":", "ssh://git@" + host + "/", "ssh://" + host + "/", "git://" + host + "/"} {
				add(key, form)
			}
		}
	}
	if count == 0 {
		return nil
	}
	return append(out, variable{"GIT_CONFIG_COUNT", strconv.Itoa(count)})
}
