package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// checkURL refuses addresses that are not of the web: files of the jail, pages of the browser
// itself, and pages written into the address.
func checkURL(text string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return "", fmt.Errorf("url: %q is not a URL", report.Clean([]byte(text), 200))
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		if u.Host == "" {
			return "", errors.New("url: the host is missing; write it like https://example.com/path")
		}
		if u.User != nil {
			return "", errors.New("url: leave out the user name and password")
		}
		return u.String(), nil
	case "":
		return "", errors.New("url: write the whole address, such as https://example.com/path")
	}
	if u.String() == "about:blank" {
		return "about:blank", nil
	}
	return "", fmt.Errorf("url: the browser opens http and https addresses only, not %s:", report.Clean([]byte(u.Scheme), 30))
}

func (c *call) timeout() time.Duration {
	return min(cmp.Or(time.Duration(c.args.TimeoutSeconds)*time.Second, defaultTimeout), longestTimeout)
}

func doNavigate(c *call) error {
	ways := 0
	for _, given := range []bool{c.args.URL != "", c.args.History != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return errors.New("give either url or history")
	}
	c.b.mu.Lock()
	c.t.crashed = false
	c.b.mu.Unlock()
	var err error
	switch c.args.History {
	case "":
		err = c.open(c.args.URL)
	case "reload":
		err = c.act(c.ctx, "Page.reload", nil, nil)
	case "back", "forward":
		err = c.goTo(c.args.History)
	default:
		return errors.New("history: use back, forward or reload")
	}
	if err != nil && !errors.Is(err, errDialog) {
		return err
	}
	// The document must be there before it can be quiet.
	calm, err := c.settle(c.ctx, c.began, c.timeout())
	if err != nil {
		return err
	}
	if selector := c.args.WaitForSelector; selector != "" {
		if err := c.waitFor(func() (bool, error) { return c.matches(selector) }, "the selector "+selector); err != nil {
			return err
		}
	}
	c.b.mu.Lock()
	at, status := c.t.url, 0
	for _, r := range c.t.requests {
		if r.kind == "Document" && r.status != 0 && r.began.After(c.began) {
			status = r.status
		}
	}
	c.was.title = "" // it is always said
	c.b.mu.Unlock()
	// Without TLS, what the node's proxy refuses is shown as a page.
	if why := c.b.proxy.why(siteOf(at)); status == http.StatusForbidden && why != "" {
		return fmt.Errorf("%s cannot be opened: %s", siteOf(at), why)
	}
	if status >= 400 {
		c.say("status: %d", status)
	}
	if at == c.was.url {
		c.say("url: %s", clean(at, 500))
	}
	return c.changes(calm)
}

// open goes to an address.
func (c *call) open(address string) error {
	address, err := checkURL(address)
	if err != nil {
		return err
	}
	var gone struct {
		LoaderID   string `json:"loaderId"`
		ErrorText  string `json:"errorText"`
		IsDownload bool   `json:"isDownload"`
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout())
	defer cancel()
	if err := c.act(ctx, "Page.navigate", map[string]any{"url": address}, &gone); err != nil {
		if ctx.Err() != nil {
			go c.b.later(c.t.session, "Page.stopLoading", nil)
		}
		return err
	}
	if gone.ErrorText != "" && !gone.IsDownload && gone.ErrorText != "net::ERR_ABORTED" {
		host := siteOf(address)
		if why := c.b.proxy.why(host); why != "" {
			return fmt.Errorf("%s cannot be opened: %s", host, why)
		}
		return fmt.Errorf("%s cannot be opened: %s", host, explain(gone.ErrorText))
	}
	if gone.IsDownload || gone.ErrorText != "" {
		c.say("the address is a file, which is downloaded; the page stays as it was")
		return nil
	}
	if gone.LoaderID != "" {
		return c.b.until(c.ctx, "the page", func() bool { return c.t.loader == gone.LoaderID || c.t.crashed || c.t.dialog != nil })
	}
	return nil
}

// explain says in words what the browser's errors mean.
func explain(text string) string {
	if words, ok := map[string]string{
		"net::ERR_NAME_NOT_RESOLVED": "the host name is not known", "net::ERR_CONNECTION_REFUSED": "nothing listens there", "net::ERR_CONNECTION_RESET": "the server broke off the connection",
		"net::ERR_EMPTY_RESPONSE": "the server broke off without a response", "net::ERR_TOO_MANY_REDIRECTS": "it redirects in a circle", "net::ERR_TUNNEL_CONNECTION_FAILED": "the jail's proxy did not let it through",
		"net::ERR_CERT_AUTHORITY_INVALID": "its certificate is of no authority that the browser trusts", "net::ERR_CERT_DATE_INVALID": "its certificate has expired", "net::ERR_CERT_COMMON_NAME_INVALID": "its certificate is for another host",
		"net::ERR_INVALID_RESPONSE": "the server does not speak HTTP", "net::ERR_INVALID_HTTP_RESPONSE": "the server does not speak HTTP", "net::ERR_SSL_PROTOCOL_ERROR": "the server does not speak TLS", "net::ERR_TIMED_OUT": "the server does not answer",
		"net::ERR_UNSAFE_PORT": "browsers do not open that port", "net::ERR_BLOCKED_BY_CLIENT": "the browser does not open it",
	}[text]; ok {
		return words + " (" + text + ")"
	}
	return report.Clean([]byte(text), 200)
}

func (c *call) goTo(way string) error {
	var history struct {
		CurrentIndex int
		Entries      []struct {
			ID  int
			URL string
		}
	}
	if err := c.act(c.ctx, "Page.getNavigationHistory", nil, &history); err != nil {
		return err
	}
	to := history.CurrentIndex + map[string]int{"back": -1, "forward": 1}[way]
	if to < 0 || to >= len(history.Entries) {
		return fmt.Errorf("history: there is no page to go %s to", way)
	}
	before := c.was
	if err := c.act(c.ctx, "Page.navigateToHistoryEntry", map[string]any{"entryId": history.Entries[to].ID}, nil); err != nil {
		return err
	}
	return c.b.until(c.ctx, "the page", func() bool {
		return c.t.navigations > before.navigation || c.t.url != before.url || c.t.dialog != nil || c.t.crashed
	})
}

func doClick(c *call) error {
	e, err := c.target(forAction)
	if err != nil {
		return err
	}
	held := 0
	for _, m := range c.args.Modifiers {
		held |= modifiers[strings.ToLower(m)]
	}
	taken, err := bring(c, e)
	if err != nil {
		return err
	}
	taken()
	at, err := c.pointOf(c.ctx, e) // not before: the page may move while the picture is taken
	if err != nil {
		return err
	}
	if at.Problem != "" {
		return fmt.Errorf("%s cannot be clicked: %s", c.named(e), at.Problem)
	}
	count, verb := 1, "clicked"
	if c.args.DoubleClick {
		count, verb = 2, "double-clicked"
	}
	c.say("%s %s", verb, c.named(e))
	if err := c.click(c.ctx, at, cmp.Or(c.args.Button, "left"), count, held); err != nil && !errors.Is(err, errDialog) {
		return err
	}
	return c.after()
}

func doHover(c *call) error {
	e, err := c.target(forAction)
	if err != nil {
		return err
	}
	if _, _, err := c.marks(c.ctx, e); err != nil {
		return err
	}
	at, err := c.pointOf(c.ctx, e)
	if err != nil {
		return err
	}
	if at.Problem != "" {
		return fmt.Errorf("%s cannot be reached: %s", c.named(e), at.Problem)
	}
	c.say("the mouse is on %s", c.named(e))
	if err := moveTo(c.ctx, &c.page, at, 0); err != nil && !errors.Is(err, errDialog) {
		return err
	}
	return c.after()
}

func doFill(c *call) error {
	e, err := c.target(forText)
	if err != nil {
		return err
	}
	taken, err := bring(c, e)
	if err != nil {
		return err
	}
	taken()
	if c.args.Credential != "" {
		if err := c.typeSecret(e); err != nil {
			return err
		}
		if c.args.Submit {
			if err := c.act(c.ctx, "DOM.focus", map[string]any{"backendNodeId": e.backend}, nil); err != nil && !errors.Is(err, errDialog) {
				return err
			}
		}
		return c.submitted()
	}
	raw, err := c.on(c.ctx, e, fillScript, c.args.Text, c.args.ClearFirst)
	if err != nil && !errors.Is(err, errDialog) {
		return err
	}
	var ready struct {
		Problem    string
		Set, Empty bool
	}
	if err := json.Unmarshal(raw, &ready); err == nil && ready.Problem != "" {
		return fmt.Errorf("nothing can be typed into %s: %s", c.named(e), ready.Problem)
	}
	if err := c.enter(ready.Set, ready.Empty); err != nil && !errors.Is(err, errDialog) {
		return err
	}
	c.say("typed %d characters into %s", len([]rune(c.args.Text)), c.named(e))
	return c.submitted()
}

// submitted presses Enter if the call says so, and says what has changed.
func (c *call) submitted() error {
	if c.args.Submit {
		if err := c.press(c.ctx, named["enter"], 0); err != nil && !errors.Is(err, errDialog) {
			return err
		}
		c.say("pressed Enter")
	}
	return c.after()
}

// enter types the call's text into what has the focus.
func (c *call) enter(set, empty bool) error {
	switch {
	case set:
		return nil
	case c.args.Slowly && len([]rune(c.args.Text)) <= 500:
		if c.args.ClearFirst && !empty {
			if err := c.press(c.ctx, named["delete"], 0); err != nil {
				return err
			}
		}
		for _, r := range c.args.Text {
			k := character(string(r))
			if r == '\n' {
				k = named["enter"]
			}
			if err := c.press(c.ctx, k, 0); err != nil {
				return err
			}
		}
		return nil
	case c.args.Text == "":
		if !c.args.ClearFirst || empty {
			return nil
		}
		return c.press(c.ctx, named["delete"], 0)
	}
	return c.act(c.ctx, "Input.insertText", map[string]any{"text": c.args.Text}, nil)
}

func doChoose(c *call) error {
	e, err := c.target(forChoice)
	if err != nil {
		return err
	}
	taken, err := bring(c, e)
	if err != nil {
		return err
	}
	taken()
	raw, err := c.on(c.ctx, e, chooseScript, c.args.Values)
	if err != nil && !errors.Is(err, errDialog) {
		return err
	}
	var done struct {
		Problem string
		Chosen  []string
	}
	if err := json.Unmarshal(raw, &done); err == nil && done.Problem != "" {
		return fmt.Errorf("nothing can be chosen in %s: %s", c.named(e), report.Clean([]byte(done.Problem), 1500))
	}
	c.say("chose %d options in %s", len(c.args.Values), c.named(e))
	return c.after()
}

func doPress(c *call) error {
	k, held, err := parseKey(c.args.Key)
	if err != nil {
		return err
	}
	if c.args.Target != "" {
		e, err := c.target(forAction)
		if err != nil {
			return err
		}
		if err := c.act(c.ctx, "DOM.focus", map[string]any{"backendNodeId": e.backend}, nil); err != nil && !errors.Is(err, errDialog) {
			return fmt.Errorf("%s cannot take the focus: %w", c.named(e), err)
		}
		taken, err := bring(c, e)
		if err != nil {
			return err
		}
		taken()
	}
	if err := c.press(c.ctx, k, held); err != nil && !errors.Is(err, errDialog) {
		return err
	}
	c.say("pressed %s", c.args.Key)
	return c.after()
}

func doScroll(c *call) error {
	var raw json.RawMessage
	direction := c.args.Direction
	if c.args.Target != "" {
		e, err := c.target(forLook)
		if err != nil {
			return err
		}
		if direction == "" {
			if err := c.act(c.ctx, "DOM.scrollIntoViewIfNeeded", map[string]any{"backendNodeId": e.backend}, nil); err != nil {
				return err
			}
			c.say("%s is in view", c.named(e))
			return c.after()
		}
		if raw, err = c.on(c.ctx, e, "function(direction, amount) { return ("+scrollScript+")(this, direction, amount) }", direction, c.args.Amount); err != nil {
			return err
		}
	} else {
		var err error
		if raw, err = c.in(c.ctx, fmt.Sprintf("(%s)(null, %s, %g)", scrollScript, quote(cmp.Or(direction, "down")), c.args.Amount)); err != nil {
			return err
		}
	}
	var at struct {
		Top, Height, View float64
		What              string
	}
	if err := json.Unmarshal(raw, &at); err != nil {
		return err
	}
	c.say("%s is scrolled to %g of %g pixels, and shows %g", clean(at.What, 100), at.Top, at.Height, at.View)
	return c.after()
}

// waitFor asks until a condition holds.
func (c *call) waitFor(holds func() (bool, error), what string) error {
	end := time.Now().Add(c.timeout())
	for {
		ok, err := holds()
		if err != nil && (errors.Is(err, errEnded) || errors.Is(err, errCrashed) || c.ctx.Err() != nil) {
			return err
		}
		if errors.Is(err, errNotSelector) {
			return err
		}
		if ok {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s did not come within %s", what, c.timeout())
		}
		if err := pause(c.ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *call) matches(selector string) (bool, error) {
	_, err := finder{&c.page}.bySelector(c.ctx, selector)
	if err != nil && strings.Contains(err.Error(), "matches several") {
		return true, nil
	}
	return err == nil, err
}

func (c *call) shows(text string) (bool, error) {
	raw, err := c.in(c.ctx, fmt.Sprintf("(document.body?.innerText ?? '').replace(/\\s+/g, ' ').includes(%s)", quote(strings.Join(strings.Fields(text), " "))))
	if err != nil {
		return false, err
	}
	if string(raw) == "true" {
		return true, nil
	}
	// In frames and shadow trees, too.
	root, err := c.tree(c.ctx)
	return err == nil && strings.Contains(strings.Join(strings.Fields(root.text()), " "), strings.Join(strings.Fields(text), " ")), err
}

func doWait(c *call) error {
	a := c.args
	conditions := 0
	for _, one := range []struct {
		given bool
		what  string
		holds func() (bool, error)
	}{
		{a.Selector != "", "the selector " + a.Selector, func() (bool, error) { return c.matches(a.Selector) }},
		{a.Text != "", fmt.Sprintf("the text %q", a.Text), func() (bool, error) { return c.shows(a.Text) }},
		{a.TextGone != "", fmt.Sprintf("the end of the text %q", a.TextGone), func() (bool, error) {
			there, err := c.shows(a.TextGone)
			return !there && err == nil, err
		}},
		{a.URLContains != "", fmt.Sprintf("an address with %q", a.URLContains), func() (bool, error) {
			c.b.mu.Lock()
			defer c.b.mu.Unlock()
			return strings.Contains(c.t.url, a.URLContains), nil
		}},
	} {
		if !one.given {
			continue
		}
		conditions++
		if err := c.waitFor(one.holds, one.what); err != nil {
			return err
		}
		c.say("%s is there", one.what)
	}
	if a.Seconds > 0 {
		conditions++
		if err := pause(c.ctx, min(time.Duration(a.Seconds*float64(time.Second)), 30*time.Second)); err != nil {
			return err
		}
	}
	if conditions == 0 || a.NetworkIdle {
		calm, err := c.settle(c.ctx, time.Time{}, c.timeout())
		if err != nil {
			return err
		}
		if !calm {
			return fmt.Errorf("the page still loads after %s", c.timeout())
		}
		c.say("the page is quiet")
	}
	return c.after()
}

func doExecute(c *call) error {
	document, err := c.mayRun()
	if err != nil {
		return err
	}
	var out evaluated
	err = c.act(c.ctx, "Runtime.evaluate", map[string]any{
		"expression": c.args.Expression, "uniqueContextId": document, "returnByValue": true, "awaitPromise": true, "userGesture": true, "replMode": true, "timeout": float64(c.timeout().Milliseconds()),
	}, &out)
	if err != nil && strings.Contains(err.Error(), "Object reference chain is too long") {
		return errors.New("expression: its value is too large, or not data; return a string or a plain object")
	}
	var refused *protocolError
	if errors.As(err, &refused) && time.Since(c.began) >= c.timeout() {
		return fmt.Errorf("expression: it ran for longer than %s and was ended", c.timeout())
	}
	if err != nil && !errors.Is(err, errDialog) {
		return err
	}
	if out.Exception != nil {
		return fmt.Errorf("expression: %s", report.Clean([]byte(out.Exception.String()), 1000))
	}
	text := cmp.Or(string(out.Result.Value), out.Result.Unserializable, out.Result.Type)
	if out.Result.Type == "string" {
		text = unmarshalString(out.Result.Value)
	}
	if errors.Is(err, errDialog) {
		text = "(no value: a dialog opened)"
	}
	c.say("the value, of type %s:", cmp.Or(out.Result.Type, "none"))
	if err := c.after(); err != nil {
		return err
	}
	most := c.limit(changesBytes)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
		c.say("there is more of the value: set max_bytes up to %d", mostBytes)
	}
	changed := c.content
	c.content = cleanLines(text)
	if changed != "" {
		c.content += "\n--- what has changed on the page:\n" + changed
	}
	return nil
}

func doAnswerDialog(c *call) error {
	c.b.mu.Lock()
	open := c.t.dialog
	c.b.mu.Unlock()
	if open == nil {
		return errors.New("the page shows no dialog")
	}
	accept := c.args.Action != "dismiss"
	params := map[string]any{"accept": accept}
	if open.kind == "prompt" && accept {
		params["promptText"] = cmp.Or(c.args.Text, open.given)
	}
	if err := c.b.proc.conn.call(c.ctx, c.t.session, "Page.handleJavaScriptDialog", params, nil); err != nil {
		return err
	}
	if err := c.b.until(c.ctx, "the dialog to close", func() bool { return c.t.dialog != open }); err != nil {
		return err
	}
	verb := map[bool]string{true: "accepted", false: "dismissed"}[accept]
	c.say("%s the dialog: %s %q", verb, open.kind, open.message)
	return c.after()
}
