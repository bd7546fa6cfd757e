package browser

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// secrets are the values of credentials that were typed into pages. While the browser lives,
// no result shows them: text is masked, and in pictures what contains one is hidden.
type secrets struct {
	mu sync.Mutex // guards all fields: those who watch ask, too
	// hiding has room for the one who hides what shows a secret in a page.
	hiding chan struct{}

	values []string
	// whole match the values as pages and addresses may write them, and parts beginnings and
	// ends of them, the longest first.
	whole, parts []mask
}

// mask replaces what matches by what it is.
type mask struct {
	match *regexp.Regexp
	by    string
}

const (
	// leastPart is the length of a part of a secret that is masked: where a text is cut, a
	// secret may be cut, too.
	leastPart = 6
	// maxSecrets bounds how many are kept.
	maxSecrets = 50
	// leastSecret and maxTyped bound the length of what a person types and is masked: less is
	// found in any text.
	leastSecret = 4
	maxTyped    = 256
)

// add has the value of a credential masked from now on.
func (s *secrets) add(credential, value string) error {
	if err := s.keep("credential "+credential, value); err != nil {
		return fmt.Errorf("credential: %w", err)
	}
	return nil
}

// addTyped has what a person typed masked from now on.
func (s *secrets) addTyped(value string) {
	if runes := []rune(value); len(runes) >= leastSecret {
		_ = s.keep("secret typed by a person", string(runes[:min(len(runes), maxTyped)])) // whether there is room was asked before
	}
}

// full returns an error if n more secrets cannot be kept.
func (s *secrets) full(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.values)+n > maxSecrets {
		return errSecrets
	}
	return nil
}

var errSecrets = fmt.Errorf("%d secrets were typed by this task, and no more can be kept out of its results", maxSecrets)

func (s *secrets) keep(name, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value == "" || slices.Contains(s.values, value) {
		return nil
	}
	if len(s.values) >= maxSecrets {
		return errSecrets
	}
	s.values = append(s.values, value)
	whole := "[" + name + "]"
	s.whole = append(s.whole, mask{regexp.MustCompile(written(value)), whole})
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		s.whole = append(s.whole, mask{regexp.MustCompile(regexp.QuoteMeta(encoding.EncodeToString([]byte(value))) + "=*"), whole})
	}
	part := "[part of " + name + "]"
	runes := []rune(value)
	for n := len(runes) - 1; n >= max(leastPart, len(runes)/3); n-- {
		s.parts = append(s.parts, mask{regexp.MustCompile(written(string(runes[:n])) + "|" + written(string(runes[len(runes)-n:]))), part})
	}
	return nil
}

// all returns the values.
func (s *secrets) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.values)
}

// written returns an expression that matches a text in which any character may be written as in
// addresses, in HTML or in JSON.
func written(text string) string {
	var out strings.Builder
	for _, r := range text {
		one := string(r)
		out.WriteString("(?:" + regexp.QuoteMeta(one) + "|(?i:")
		for _, b := range []byte(one) {
			fmt.Fprintf(&out, `%%%02x`, b)
		}
		fmt.Fprintf(&out, `|\\u%04x)`, r)
		if r == ' ' {
			out.WriteString(`|\+`)
		}
		if escaped := html.EscapeString(one); escaped != one {
			out.WriteString("|" + regexp.QuoteMeta(escaped))
		}
		if r == '"' || r == '\\' {
			out.WriteString("|" + regexp.QuoteMeta(`\`+one))
		}
		out.WriteString(")")
	}
	return out.String()
}

// mask returns a text without the secrets, and without beginnings and ends of them.
func (s *secrets) mask(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range [][]mask{s.whole, s.parts} {
		for _, m := range all {
			text = m.match.ReplaceAllLiteralString(text, m.by)
		}
	}
	return text
}

// absent reports whether no secret is in any of some texts.
func (s *secrets) absent(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return s.mask(text) != text })
}

// maskAnswer masks all of an answer that is text.
func (s *secrets) maskAnswer(a *Answer) {
	if len(s.all()) == 0 {
		return
	}
	for _, text := range []*string{&a.Answer, &a.Error, &a.URL, &a.Title} {
		*text = s.mask(*text)
	}
	for i := range a.Files {
		a.Files[i].Name, a.Files[i].URL = s.mask(a.Files[i].Name), s.mask(a.Files[i].URL)
	}
}

// secretField reports what is wrong with a field for a secret, and of which origin its frame is.
//
//nolint:gosec // a script, no secret
const secretField = `function() {
	return {origin: location.origin, password: this.localName === 'input' && this.type === 'password'};
}`

// typeScript sets the value of a password field, whatever has the focus, if the field is still
// one, in a document of an origin. Nothing of the page runs between the check and the setting.
const typeScript = `function(origin, text) {
	if (!this.isConnected) return {problem: 'it is not on the page any more'};
	if (location.origin !== origin) return {problem: 'its frame shows another page now'};
	if (this.localName !== 'input' || this.type !== 'password') return {problem: 'it is no password field any more'};
	if (this.disabled) return {problem: 'it is disabled'};
	if (this.readOnly) return {problem: 'it is read-only'};
	Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(this, text);
	this.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
	this.dispatchEvent(new Event('change', {bubbles: true}));
	return {};
}`

// admits refuses to type a secret into an element: one of a frame that the credential is not
// for, or one that would show it, from where it could be copied. It returns the frame's origin.
func (c *call) admits(e element, s browserlink.Secret) (string, error) {
	raw, err := c.on(c.ctx, e, secretField)
	if err != nil {
		return "", err
	}
	var field struct {
		Origin   string
		Password bool
	}
	if err := json.Unmarshal(raw, &field); err != nil {
		return "", err
	}
	u, err := url.Parse(field.Origin)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("credential %s is not for this page, which is of no host", s.Credential)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	ports := s.Ports
	if len(ports) == 0 {
		ports = []int{443}
	}
	switch host := u.Hostname(); {
	case !slices.Contains(s.Hosts, host) || !slices.ContainsFunc(ports, func(one int) bool { return fmt.Sprint(one) == port }):
		return "", fmt.Errorf("credential %s is not for pages of %s; it is for %s", s.Credential, clean(u.Host, 200), strings.Join(s.Hosts, ", "))
	case u.Scheme != "https" && host != "localhost" && host != "127.0.0.1" && host != "::1":
		return "", fmt.Errorf("credential %s is not typed into %s, which is not encrypted", s.Credential, clean(field.Origin, 200))
	case !field.Password:
		return "", fmt.Errorf("%s is no password field: it would show credential %s", c.named(e), s.Credential)
	}
	return field.Origin, nil
}

// typeSecret types the call's credential into an element.
//
// JavaScript of the agent and passwords are kept apart, for as long as the browser lives: what it
// leaves behind in a page (a listener, another window of it, a stored response) could read what
// is typed later, and what a page keeps of a password it could read itself. So a password is
// typed only into tabs that it never ran in, and that no such tab opened, and only for origins
// that it never ran in; afterwards, it is refused there.
func (c *call) typeSecret(e element) error {
	switch {
	case c.secret == nil:
		return errors.New("credential: its value did not come with the call; make the call again")
	case c.args.Text != "":
		return errors.New("give either text or credential")
	}
	origin, err := c.admits(e, *c.secret)
	if err != nil {
		return fmt.Errorf("credential: %w", err)
	}
	c.b.mu.Lock()
	ran, here := c.t.group.ran, c.b.ran[origin]
	c.b.mu.Unlock()
	switch {
	case here:
		return fmt.Errorf("credential: %s has run in pages of %s, and might read what is typed there: no password is typed there while this browser lives", toolname.BrowserExecuteJS, clean(origin, 200))
	case ran:
		return fmt.Errorf("credential: %s has run in this tab, or in one that opened it or was opened by it, and might read what is typed: open the page in a new tab with %s", toolname.BrowserExecuteJS, toolname.BrowserTabs)
	}
	if err := c.b.secrets.add(c.secret.Credential, c.secret.Value); err != nil {
		return err
	}
	c.b.mu.Lock()
	c.t.group.typed, c.b.typed[origin] = true, true
	c.b.mu.Unlock()
	raw, err := c.on(c.ctx, e, typeScript, origin, c.secret.Value)
	if err != nil && !errors.Is(err, errDialog) {
		return err
	}
	var done struct{ Problem string }
	if err := json.Unmarshal(raw, &done); err == nil && done.Problem != "" {
		return fmt.Errorf("credential: nothing was typed into %s: %s", c.named(e), done.Problem)
	}
	c.b.typings++
	c.say("typed credential %s into %s", clean(c.args.Credential, 100), c.named(e))
	return nil
}

// mayRun refuses JavaScript of the agent where a password was typed, and otherwise marks that
// it runs in the tab's document now. It returns which document that is.
func (c *call) mayRun() (document string, err error) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	switch at := c.t.script; {
	case at.id == "":
		return "", errors.New("expression: the page is being loaded; wait for it, and make the call again")
	case c.b.typed[at.origin]:
		return "", fmt.Errorf("expression: a credential was typed into a page of %s, where JavaScript might read it: it is refused there while this browser lives", clean(at.origin, 200))
	case c.t.group.typed:
		return "", fmt.Errorf("expression: a credential was typed into this tab, or into one that opened it or was opened by it, where JavaScript might read it: use a new tab, with %s", toolname.BrowserTabs)
	default:
		c.t.group.ran, c.b.ran[at.origin] = true, true
		return at.id, nil
	}
}
