package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	// lookFor is how long a person has a new tab before them until they can act in it.
	lookFor = 400 * time.Millisecond
)

// acts are what persons did with the browser since the agent's last call.
type acts struct {
	by                                     string
	clicks, keys, scrolls, answers, secret int
}

func (a acts) any() bool { return a.clicks+a.keys+a.scrolls+a.answers+a.secret > 0 }

func (a acts) String() string {
	var parts []string
	for _, one := range []struct {
		n         int
		one, many string
	}{
		{a.clicks, "click", "clicks"}, {a.keys, "key", "keys"}, {a.scrolls, "scroll", "scrolls"}, {a.answers, "answer to a dialog", "answers to dialogs"},
		{a.secret, "field for a secret filled in", "fields for secrets filled in"}, // and not how long they are
	} {
		switch {
		case one.n == 1:
			parts = append(parts, "1 "+one.one)
		case one.n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.many))
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
	from browserlink.Mouse // where the mouse was pressed, and in which tab
	in   *tab
	// secrets is what is in the fields for secrets that they typed into.
	secrets map[field]string
	seen    seen
}

// field is one that a person typed into.
type field struct {
	t       *tab
	backend int64
}

// seen is what a person has before them. The one who shows and the one who acts share it.
type seen struct {
	mu sync.Mutex
	// picture is the tab of the newest picture and since when it is that; header is the tab of
	// the newest frame, with its dialog.
	picture, header *tab
	since           time.Time
}

// show notes what was sent: at is the tab of the picture, nil if there was none.
func (s *seen) show(header, picture *tab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header = header
	if picture == nil || picture == s.picture {
		return
	}
	if s.picture != nil {
		s.since = time.Now()
	}
	s.picture = picture
}

// has reports whether the person has had the time to see a tab, or a dialog of it.
func (s *seen) has(t *tab, dialog bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dialog {
		return s.header == t
	}
	return s.picture == t && time.Since(s.since) >= lookFor
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
	p.held, p.by, p.in, p.secrets = true, by, nil, map[field]string{}
	p.follow(true)
	return true
}

// follow has new tabs become the active one, or not.
func (p *person) follow(on bool) {
	p.k.browser.mu.Lock()
	defer p.k.browser.mu.Unlock()
	p.k.browser.follow = on
}

// release gives the turn back. No result shows from now on what the person typed into fields for
// secrets.
func (p *person) release() {
	p.held = false
	p.follow(false)
	b := p.k.browser
	for _, value := range p.secrets {
		b.secrets.addTyped(value)
	}
	b.mu.Lock()
	b.private = false
	b.released++
	for _, t := range b.tabs { // drawn before
		t.cast.data = ""
	}
	b.mu.Unlock()
	<-p.k.turn
}

// do does one act of the person with the page. One that is not a movement of the mouse is done
// only in a tab that they have before them: a page may open another one just before they act.
func (p *person) do(ctx context.Context, said browserlink.Said) browserlink.Did {
	defer p.k.idle.Call()()
	did := browserlink.Did{Number: said.Number}
	ctx, cancel := context.WithTimeout(ctx, inputWait)
	defer cancel()
	b, in := p.k.browser, said.Input
	ends := in.Mouse != nil && in.Mouse.Action == "released"
	b.mu.Lock()
	t, proc := b.active, b.proc
	if ends && p.in != nil {
		t = p.in // where it was pressed
	}
	if t != nil {
		did.URL = b.secrets.mask(clean(t.url, 500))
	}
	b.mu.Unlock()
	switch {
	case t == nil || proc == nil:
		did.Problem = "no page is open"
		return did
	case !ends && (in.Mouse == nil || in.Mouse.Action != "moved") && !p.seen.has(t, in.Dialog != nil):
		did.Problem = "another tab is shown now: look at it first; this was not done"
		return did
	}
	at := &page{b: b, t: t}
	var err error
	switch {
	case in.Dialog != nil:
		err = p.answer(ctx, at, *in.Dialog, &did)
	case in.Mouse != nil:
		err = p.mouse(ctx, at, in, &did)
	case in.Text != "":
		err = p.keys(ctx, at, in.Text, true, &did, func() error {
			return at.act(ctx, "Input.insertText", map[string]any{"text": in.Text}, nil)
		})
	case in.Key != "":
		var k key
		var held int
		if k, held, err = parseKey(in.Key); err == nil {
			text := ""
			if len([]rune(k.name)) == 1 {
				text = k.name
			}
			err = p.keys(ctx, at, text, held&^8 == 0, &did, func() error { return at.press(ctx, k, held) })
		}
	}
	if errors.Is(err, errDialog) && did.Made {
		err = nil // it opened by what was done
	}
	if err != nil {
		did.Problem = b.secrets.mask(report.Clean([]byte(err.Error()), 300))
	}
	did.On = b.secrets.mask(did.On)
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

func (p *person) mouse(ctx context.Context, at *page, in *browserlink.Input, did *browserlink.Did) error {
	m := *in.Mouse
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
	case "pressed":
		did.On = p.named(ctx, at, m)
		params["type"], params["button"], params["clickCount"] = "mousePressed", button, clicks
		p.from, p.in = m, at.t
		p.did(func(a *acts) { a.clicks++ })
	case "released":
		params["type"], params["button"], params["clickCount"] = "mouseReleased", button, clicks
		if what, _ := in.Act(p.from); what != "" {
			did.On = p.named(ctx, at, m)
		}
		p.in = nil
	default:
		return fmt.Errorf("%q is nothing that a mouse does", m.Action)
	}
	did.Made = true
	return at.act(ctx, "Input.dispatchMouseEvent", params, nil)
}

// nameScript has a function that describes an element, without what a person types into it, and
// underScript describes what is at a point.
const (
	nameScript = `const name = (e) => {
		if (!e) return '';
		const typed = ['input', 'textarea', 'select'].includes(e.localName);
		const label = e.getAttribute?.('aria-label') || e.labels?.[0]?.innerText || e.getAttribute?.('placeholder') || e.getAttribute?.('alt') || (typed ? e.name : e.isContentEditable ? e.getAttribute('role') : e.innerText) || '';
		return '<' + e.localName + '> ' + label.trim().replace(/\s+/g, ' ').slice(0, 80);
	};`
	underScript = `((x, y) => { ` + nameScript + `
		let e = document.elementFromPoint(x, y);
		while (e?.shadowRoot?.elementFromPoint(x, y) && e.shadowRoot.elementFromPoint(x, y) !== e) e = e.shadowRoot.elementFromPoint(x, y);
		return name(e);
	})(%g, %g)`
)

// named describes what is under the mouse; empty if the page does not say.
func (p *person) named(ctx context.Context, at *page, m browserlink.Mouse) string {
	raw, err := at.in(ctx, fmt.Sprintf(underScript, m.X, m.Y))
	if err != nil {
		return ""
	}
	return report.Clean([]byte(unmarshalString(raw)), 120)
}

// keys types text, or presses a key, whose character is text, with which other keys are held unless
// alone. JavaScript of the agent and what is typed into fields for secrets are kept apart, as with
// credentials; see typeSecret. Nothing is typed if it is not known into what, such as into a frame
// that cannot be looked into.
func (p *person) keys(ctx context.Context, at *page, text string, alone bool, did *browserlink.Did, do func() error) error {
	focus, err := at.focus(ctx)
	switch {
	case errors.Is(err, errDialog):
		return errors.New("the page shows a dialog: answer it first")
	case err != nil && text != "":
		did.Hidden = true
		return fmt.Errorf("it is not known what has the focus, and nothing was typed: %w", err)
	case err != nil:
		did.Hidden, did.Made = true, true
		p.did(func(a *acts) { a.keys++ })
		return do()
	}
	defer at.release(focus.object)
	if did.On, did.Hidden = report.Clean([]byte(focus.On), 120), focus.Secret; !focus.Secret {
		keys := 1 // such as Enter
		if text != "" && alone {
			keys = len([]rune(text))
		}
		p.did(func(a *acts) { a.keys += keys })
		did.Made = true
		return do()
	}
	if text == "" {
		p.did(func(a *acts) { a.keys++ })
	} else if err := p.admit(at, focus, text); err != nil {
		return err
	}
	did.Made = true
	err = do()
	p.note(ctx, at, focus, text)
	return err
}

// admit refuses text in a field for a secret that could not be kept from the agent, and otherwise
// marks the field.
func (p *person) admit(at *page, focus focused, text string) error {
	b, here := p.k.browser, field{at.t, focus.backend}
	_, known := p.secrets[here]
	if len([]rune(text)) > maxTyped {
		return fmt.Errorf("a text for a secret has at most %d characters", maxTyped)
	}
	if !known {
		if err := b.secrets.full(len(p.secrets) + 1); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at.t.group.ran || b.ran[focus.Origin] {
		return fmt.Errorf("JavaScript of the agent (%s) has run in pages of %s or in this tab, and might read what is typed", toolname.BrowserExecuteJS, clean(focus.Origin, 100))
	}
	at.t.group.typed, b.typed[focus.Origin], b.private = true, true, true
	at.t.secrets[focus.backend] = focus.frame
	for _, one := range focus.within {
		at.t.secrets[one] = focus.frame
	}
	if !known {
		p.secrets[here] = ""
		p.did(func(a *acts) { a.secret++ })
	}
	return nil
}

// note keeps what is in a field for a secret after text was typed into it. A page may take it out
// at once, or be gone.
func (p *person) note(ctx context.Context, at *page, focus focused, text string) {
	here := field{at.t, focus.backend}
	before, known := p.secrets[here]
	if !known {
		return
	}
	now, err := at.valueOf(ctx, focus)
	if err != nil || now == "" {
		now = before + text
	}
	if !strings.HasPrefix(now, before) && !strings.HasPrefix(before, now) {
		p.k.browser.secrets.addTyped(before) // another one in the same field
	}
	p.secrets[here] = now
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
	did.On, did.Made = fmt.Sprintf("%s %q", open.kind, open.message), true
	p.did(func(a *acts) { a.answers++ })
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
