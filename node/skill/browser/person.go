package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

const (
	// maxSaid bounds a line of one who watches.
	maxSaid = 80 << 10
	// inputWait bounds one act of a person.
	inputWait = 5 * time.Second
	// dragDistance is how many pixels make a drag of a click.
	dragDistance = 5
)

// acts are what persons did with the browser since the agent's last call.
type acts struct {
	by            string
	clicks, keys  int
	scrolls, rest int
}

func (a acts) any() bool { return a.clicks+a.keys+a.scrolls+a.rest > 0 }

func (a acts) String() string {
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{{a.clicks, "clicks"}, {a.keys, "keys"}, {a.scrolls, "scrolls"}, {a.rest, "answers to dialogs"}} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	return a.by + " took over the browser since your last call: " + strings.Join(parts, ", ")
}

// person is one who watches, and may take the browser over: then it has the turn of the agent's
// calls.
type person struct {
	k    *server
	held bool
	by   string
	from browserlink.Mouse // where the mouse was pressed
}

// hear does what one who watches says, until they say nothing any more.
func (p *person) hear(ctx context.Context, s *stream, answers chan<- browserlink.Shown) {
	say := func(answer browserlink.Shown) {
		select {
		case answers <- answer:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		if s.conn.SetReadDeadline(time.Now().Add(browserlink.ViewerPatience*time.Second)) != nil {
			return
		}
		var said browserlink.Said
		if s.receive(&said, maxSaid) != nil {
			return
		}
		switch {
		case said.Take != "" && !p.held:
			if !p.take(ctx, report.Clean([]byte(said.Take), 100)) {
				return
			}
			say(browserlink.Shown{Taken: true})
		case said.Give && p.held:
			p.release()
			say(browserlink.Shown{Given: true})
		case said.Input != nil:
			did := browserlink.Did{Number: said.Number, Problem: "the browser is not taken over"}
			if p.held {
				did = p.do(ctx, said)
			}
			say(browserlink.Shown{Did: &did})
		}
	}
}

// take waits for the end of the call in progress; the next one waits for the person.
func (p *person) take(ctx context.Context, by string) bool {
	select {
	case p.k.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	p.held, p.by, p.k.opened = true, by, 0
	return true
}

func (p *person) release() {
	p.held = false
	<-p.k.turn
}

// do does one act of the person with the page.
func (p *person) do(ctx context.Context, said browserlink.Said) browserlink.Did {
	defer p.k.idle.Call()()
	did := browserlink.Did{Number: said.Number}
	ctx, cancel := context.WithTimeout(ctx, inputWait)
	defer cancel()
	b := p.k.browser
	b.mu.Lock()
	t, proc := b.active, b.proc
	if t != nil { // what the last act opened
		if newest := b.tabs[len(b.tabs)-1]; newest.number > p.k.opened && p.k.opened > 0 {
			t, b.active = newest, newest
		}
		p.k.opened = b.last
	}
	b.mu.Unlock()
	if t == nil || proc == nil {
		did.Problem = "no page is open"
		return did
	}
	at := &page{b, t}
	var err error
	switch in := said.Input; {
	case in.Dialog != nil:
		err = p.answer(ctx, at, *in.Dialog, &did)
	case in.Mouse != nil:
		err = p.mouse(ctx, at, *in.Mouse, &did)
	case in.Text != "":
		did.What = "typed"
		err = p.keys(ctx, at, in.Text, &did, func() error {
			return at.act(ctx, "Input.insertText", map[string]any{"text": in.Text}, nil)
		})
	case in.Key != "":
		var k key
		var held int
		if k, held, err = parseKey(in.Key); err == nil {
			if did.What = "pressed"; len([]rune(in.Key)) == 1 {
				did.What = "typed"
			}
			err = p.keys(ctx, at, in.Key, &did, func() error { return at.press(ctx, k, held) })
		}
	}
	if errors.Is(err, errDialog) && did.What != "" {
		err = nil // it opened by what was done
	}
	if err != nil {
		did.Problem = b.secrets.mask(report.Clean([]byte(err.Error()), 300))
	}
	did.On, did.Text = b.secrets.mask(did.On), b.secrets.mask(did.Text)
	return did
}

// did counts an act for the agent to be told of.
func (p *person) did(count func(a *acts)) {
	a := &p.k.browser.acts
	if a.by != "" && a.by != p.by {
		a.by = "several persons"
	} else {
		a.by = p.by
	}
	count(a)
}

func (p *person) mouse(ctx context.Context, at *page, m browserlink.Mouse, did *browserlink.Did) error {
	m.X, m.Y = min(max(m.X, 0), viewWidth-1), min(max(m.Y, 0), viewHeight-1)
	button := m.Button
	if button != "right" && button != "middle" {
		button = "left"
	}
	params := map[string]any{"x": m.X, "y": m.Y, "modifiers": m.Held & 15}
	clicks := min(max(m.Clicks, 1), 3)
	switch m.Action {
	case "moved":
		params["type"] = "mouseMoved"
	case "wheel":
		params["type"], params["deltaX"], params["deltaY"] = "mouseWheel", m.DeltaX, m.DeltaY
		p.did(func(a *acts) { a.scrolls++ })
		did.What = "scrolled"
	case "pressed":
		did.On = p.named(ctx, at, m)
		params["type"], params["button"], params["clickCount"] = "mousePressed", button, clicks
		p.from = m
		p.did(func(a *acts) { a.clicks++ })
		did.What = map[string]string{"left": "clicked", "right": "right-clicked", "middle": "middle-clicked"}[button]
	case "released":
		params["type"], params["button"], params["clickCount"] = "mouseReleased", button, clicks
		if math.Hypot(m.X-p.from.X, m.Y-p.from.Y) > dragDistance {
			did.What, did.On = "dragged to", p.named(ctx, at, m)
		}
	default:
		return fmt.Errorf("%q is nothing that a mouse does", m.Action)
	}
	return at.act(ctx, "Input.dispatchMouseEvent", params, nil)
}

// underScript names what is at a point, and focusScript what has the focus, with whether that is
// for a secret.
const (
	nameScript = `const name = (e) => {
		if (!e) return '';
		const label = e.getAttribute?.('aria-label') || e.labels?.[0]?.innerText || e.getAttribute?.('placeholder') || e.getAttribute?.('alt') || (['input', 'textarea', 'select'].includes(e.localName) ? e.name : e.innerText) || '';
		return '<' + e.localName + '> ' + label.trim().replace(/\s+/g, ' ').slice(0, 80);
	};`
	underScript = `((x, y) => { ` + nameScript + `
		let e = document.elementFromPoint(x, y);
		while (e?.shadowRoot?.elementFromPoint(x, y) && e.shadowRoot.elementFromPoint(x, y) !== e) e = e.shadowRoot.elementFromPoint(x, y);
		return name(e);
	})(%g, %g)`
	focusScript = `(() => { ` + nameScript + `
		let d = document, e = d.activeElement, foreign = false;
		for (;;) {
			if (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
			else if (e?.localName === 'iframe' || e?.localName === 'frame') {
				try { d = e.contentDocument; } catch { d = null; }
				if (!d) { foreign = true; break; }
				e = d.activeElement;
			} else break;
		}
		const hint = [e?.autocomplete, e?.name, e?.id].join(' ');
		const secret = foreign || e?.type === 'password' || e?.localName === 'input' && /passw|passphrase|one-time-code|cc-(number|csc|exp)|\bpin\b|\botp\b|secret/i.test(hint);
		return {on: name(e), secret, password: e?.type === 'password', origin: d?.location?.origin ?? ''};
	})()`
)

// named describes what is under the mouse; empty if the page does not say.
func (p *person) named(ctx context.Context, at *page, m browserlink.Mouse) string {
	raw, err := at.in(ctx, fmt.Sprintf(underScript, m.X, m.Y))
	if err != nil {
		return ""
	}
	return report.Clean([]byte(unmarshalString(raw)), 120)
}

// keys types or presses something. What is typed into a field for a password is not said, and
// JavaScript of the agent and passwords are kept apart, as with those of credentials; see
// typeSecret. If the page does not say what has the focus, it counts as one.
func (p *person) keys(ctx context.Context, at *page, text string, did *browserlink.Did, do func() error) error {
	focus := struct {
		On, Origin       string
		Secret, Password bool
	}{Secret: true}
	raw, err := at.in(ctx, focusScript)
	if err == nil {
		err = json.Unmarshal(raw, &focus)
	}
	if err != nil {
		if errors.Is(err, errDialog) {
			did.What = ""
			return errors.New("the page shows a dialog: answer it first")
		}
		focus.Secret = true
	}
	if focus.Password {
		b := p.k.browser
		b.mu.Lock()
		ran := at.t.group.ran || b.ran[focus.Origin]
		if !ran {
			at.t.group.typed, b.typed[focus.Origin] = true, true
		}
		b.mu.Unlock()
		if ran {
			did.What = ""
			return fmt.Errorf("JavaScript of the agent (%s) has run in pages of %s or in this tab, and might read what is typed", toolname.BrowserExecuteJS, clean(focus.Origin, 100))
		}
	}
	keys := 1 // such as Enter
	if did.What == "typed" {
		keys, did.Hidden = len([]rune(text)), focus.Secret
	}
	if did.On = report.Clean([]byte(focus.On), 120); !did.Hidden {
		did.Text = report.Clean([]byte(text), 2000)
	}
	p.did(func(a *acts) { a.keys += keys })
	return do()
}

// answer closes the dialog that the page shows.
func (p *person) answer(ctx context.Context, at *page, with browserlink.Answer, did *browserlink.Did) error {
	at.b.mu.Lock()
	open := at.t.dialog
	at.b.mu.Unlock()
	if open == nil {
		return errors.New("the page shows no dialog")
	}
	params := map[string]any{"accept": with.Accept}
	if open.kind == "prompt" && with.Accept {
		params["promptText"] = with.Text
	}
	did.What, did.On, did.Text = map[bool]string{true: "accepted", false: "dismissed"}[with.Accept], fmt.Sprintf("%s %q", open.kind, open.message), report.Clean([]byte(with.Text), 500)
	p.did(func(a *acts) { a.rest++ })
	return at.b.proc.conn.call(ctx, at.t.session, "Page.handleJavaScriptDialog", params, nil)
}

// afterPerson says what a person did since the last call, and what the page shows now. A call
// that would act on the page is not made: it was meant for the page before.
func (c *call) afterPerson(tool string) error {
	did := c.b.acts
	if !did.any() {
		return nil
	}
	c.b.acts = acts{}
	c.b.mu.Lock()
	c.t.shown = nil
	url, title := c.t.url, c.t.title
	c.b.mu.Unlock()
	if !toolname.ActsOnPage(tool) {
		c.say("note: %s", did)
		return nil
	}
	shows := result{}
	shows.say("url: %s", clean(url, 500))
	shows.say("title: %q", title)
	if lines, err := c.snapshot(c.ctx, nil); err == nil {
		var left int
		if shows.content, left = fit(lines, changesBytes); left > 0 {
			shows.say("the page begins so; %d more lines: use %s", left, toolname.BrowserSnapshot)
		}
	}
	return fmt.Errorf("%s. Nothing was done by this call, which was meant for the page before: make it again if it is still right. The page is now:\n%s", did, shows.text(url))
}
