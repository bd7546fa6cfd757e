package step

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/httprule"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// requestOf returns what a person is told about the request of a call, and whether the egress
// of its jail lets it through; nil for a call that sends none, or whose URL cannot be read.
func requestOf(tool string, arguments map[string]any, egress *nodev1.Egress) *inbox.Request {
	method := inbox.RequestMethods[tool]
	text, _ := arguments["url"].(string)
	u, err := url.Parse(text)
	if method == "" || err != nil || u.Host == "" {
		return nil
	}
	out := &inbox.Request{Method: method, Host: u.Host}
	ascii := u.Hostname()
	if !isASCII(ascii) {
		// What the request is sent to: see net/http.
		if name, err := idna.Lookup.ToASCII(ascii); err == nil {
			ascii = name
			out.ASCIIHost = name
		} else {
			out.Refused = "the host is not a valid name"
		}
		for label := range strings.SplitSeq(u.Hostname(), ".") {
			if mixesScripts(label) {
				out.MixedLabels = append(out.MixedLabels, label)
			}
		}
	}
	if out.Refused == "" {
		out.Refused, out.Allow = refusedBy(egress, u, ascii, method)
		out.Credentials = credentialsFor(egress, u, ascii, method)
	}
	return out
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// Scripts that are written together with others in one word.
var together = []string{"Han", "Hiragana", "Katakana", "Hangul", "Bopomofo"}

// mixesScripts reports whether a label has letters of scripts that no language writes in one
// word, so that it may pass for another name.
func mixesScripts(label string) bool {
	scripts := map[string]bool{}
	for _, r := range label {
		if !unicode.IsLetter(r) {
			continue
		}
		for name, table := range unicode.Scripts {
			if unicode.Is(table, r) && name != "Common" && name != "Inherited" {
				if slices.Contains(together, name) {
					name = "Han"
				}
				scripts[name] = true
			}
		}
	}
	return len(scripts) > 1
}

// refusedBy returns why a jail's egress refuses a request, and what would allow it; "" if it
// allows it, or if that depends on more than is known here.
func refusedBy(egress *nodev1.Egress, u *url.URL, host, method string) (refused, allow string) {
	usual := uint16(443)
	if u.Scheme == "http" {
		usual = 80
	}
	if port := u.Port(); port != "" {
		host += ":" + port
	}
	target, err := allowlist.ParseTarget(host, usual)
	if err != nil {
		return err.Error(), ""
	}
	list, rules := allowlist.List{}, []httprule.Rule(nil)
	for _, r := range egress.GetRules() {
		rule := allowlist.Rule{Host: r.GetHost(), Methods: r.GetMethods(), Private: r.GetPrivate(), ReadOnly: r.GetReadOnly(), HTTP: r.GetHttp()}
		for _, port := range r.GetPorts() {
			rule.Ports = append(rule.Ports, uint16(port)) //nolint:gosec // the persona was checked
		}
		if len(rule.HTTP) > 0 && rule.Reaches(target) {
			for _, text := range rule.HTTP {
				if one, err := httprule.ParseRule(text); err == nil {
					rules = append(rules, one)
				}
			}
		}
		list.Rules = append(list.Rules, rule)
	}
	for _, b := range egress.GetBindings() {
		if slices.Contains(b.GetHosts(), target.Host) {
			return "", "" // a credential is inserted there, or the proxy says why not
		}
	}
	if len(rules) > 0 {
		path, err := httprule.Canonical(requestTarget(u))
		if err != nil {
			return err.Error(), ""
		}
		if httprule.NeedsOperations(rules, method, path) {
			return "", ""
		}
		if d := httprule.Decide(rules, method, path, nil); d.Effect != httprule.Allow {
			if d.Suggestion != "" {
				allow = fmt.Sprintf("egress: {allow: [{host: %q, http: [%q]}]}", target.Host, "allow "+d.Suggestion)
			}
			return d.Reason, allow
		}
		return "", ""
	}
	if u.Scheme == "https" {
		method = allowlist.Opaque
	}
	if refusal := list.Match(target, method); refusal != nil {
		return refusal.Reason, refusal.Allow
	}
	return "", ""
}

// credentialsFor returns the names of the credentials that the node's proxy inserts into a
// request: those bound to its host, port, method and path.
func credentialsFor(egress *nodev1.Egress, u *url.URL, host, method string) (names []string) {
	if u.Scheme != "https" {
		return nil // never in the clear
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	path, err := httprule.Canonical(requestTarget(u))
	if err != nil {
		return nil
	}
	for _, b := range egress.GetBindings() {
		ports := b.GetPorts()
		if len(ports) == 0 {
			ports = []uint32{443}
		}
		scope, err := httprule.ParseScope(b.GetMethods(), b.GetPaths())
		if err == nil && scope.Covers(method, path) && slices.Contains(b.GetHosts(), strings.ToLower(host)) &&
			slices.ContainsFunc(ports, func(p uint32) bool { return strconv.FormatUint(uint64(p), 10) == port }) {
			names = append(names, b.GetCredential())
		}
	}
	return names
}

// requestTarget is the target of a request for a URL.
func requestTarget(u *url.URL) string {
	target := u.EscapedPath()
	if target == "" {
		target = "/"
	}
	if u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	return target
}
