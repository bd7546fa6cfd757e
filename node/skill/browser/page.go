package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// What the driver does in a page: it runs its own scripts in a world of their own, which the
// page's scripts do not reach, and sends input as a person would.

// page is a tab of a browser that a call works with.
type page struct {
	b *browser
	t *tab
	// root is the page's tree while a call looks for its target: it is read once for that.
	root *node
	// quietAt is until when the page must have done nothing to count as quiet; zero once it does.
	quietAt time.Time
}

// looked returns the tree in which a target is looked for.
func (p *page) looked(ctx context.Context) (*node, error) {
	if p.root != nil {
		return p.root, nil
	}
	root, err := p.tree(ctx)
	p.root = root
	return root, err
}

// remote is a value of a page.
type remote struct {
	Type     string          `json:"type"`
	Subtype  string          `json:"subtype"`
	Value    json.RawMessage `json:"value"`
	ObjectID string          `json:"objectId"`
	// Unserializable is a number such as NaN, and Description what has no value.
	Unserializable string `json:"unserializableValue"`
	Description    string `json:"description"`
}

type evaluated struct {
	Result    remote     `json:"result"`
	Exception *exception `json:"exceptionDetails"`
}

// worldName is what the driver's own worlds are called.
const worldName = "deckhand"

// world returns the driver's own world in a frame.
func (p *page) world(ctx context.Context, frame string) (int64, error) {
	var made struct {
		ID int64 `json:"executionContextId"`
	}
	err := p.act(ctx, "Page.createIsolatedWorld", map[string]any{"frameId": frame, "worldName": worldName}, &made)
	return made.ID, err
}

// on calls a function of JavaScript on an element, and returns its result.
func (p *page) on(ctx context.Context, e element, function string, args ...any) (json.RawMessage, error) {
	frame := e.frame
	if frame == "" {
		frame = p.t.target
	}
	world, err := p.world(ctx, frame)
	if err != nil {
		return nil, err
	}
	var resolved struct {
		Object remote `json:"object"`
	}
	if err := p.act(ctx, "DOM.resolveNode", map[string]any{"backendNodeId": e.backend, "executionContextId": world}, &resolved); err != nil {
		return nil, err
	}
	defer p.release(resolved.Object.ObjectID)
	given := make([]map[string]any, len(args))
	for i, arg := range args {
		given[i] = map[string]any{"value": arg}
	}
	return p.value(ctx, "Runtime.callFunctionOn", map[string]any{
		"functionDeclaration": function, "objectId": resolved.Object.ObjectID, "arguments": given, "returnByValue": true, "awaitPromise": true,
	})
}

// release forgets an object of a page.
func (p *page) release(object string) {
	go p.b.later(p.t.session, "Runtime.releaseObject", map[string]any{"objectId": object})
}

// in evaluates an expression in the driver's world of the page itself.
func (p *page) in(ctx context.Context, expression string) (json.RawMessage, error) {
	params := map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}
	p.b.mu.Lock()
	known := p.t.world
	p.b.mu.Unlock()
	if known != "" {
		params["uniqueContextId"] = known
		out, err := p.value(ctx, "Runtime.evaluate", params)
		var gone *protocolError // before that came as an event
		if !errors.As(err, &gone) || !strings.Contains(gone.Message, "uniqueContextId not found") {
			return out, err
		}
		delete(params, "uniqueContextId")
	}
	world, err := p.world(ctx, p.t.target)
	if err != nil {
		return nil, err
	}
	params["contextId"] = world
	return p.value(ctx, "Runtime.evaluate", params)
}

func (p *page) value(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	var out evaluated
	if err := p.act(ctx, method, params, &out); err != nil {
		return nil, err
	}
	if out.Exception != nil {
		return nil, fmt.Errorf("the page's script failed: %s", report.Clean([]byte(out.Exception.String()), 500))
	}
	return out.Result.Value, nil
}

// errDialog is returned for what a dialog keeps from ending.
var errDialog = errors.New("a dialog is open")

// act makes a call that a dialog of the page would hold up. If one opens, it returns
// errDialog: what the call did until then is done.
func (p *page) act(ctx context.Context, method string, params, result any) error {
	return p.unlessDialog(ctx, func(ctx context.Context, c *conn) error { return c.call(ctx, p.t.session, method, params, result) })
}

// input sends events of the mouse or the keyboard, as act does, without waiting for one before the
// next is sent.
func (p *page) input(ctx context.Context, method string, events ...map[string]any) error {
	return p.unlessDialog(ctx, func(ctx context.Context, c *conn) error {
		var first error
		var all []*begun
		for _, e := range events {
			one, err := c.begin(p.t.session, method, e)
			if first = err; err != nil {
				break
			}
			all = append(all, one)
		}
		for _, one := range all {
			if err := one.end(ctx, nil); first == nil {
				first = err
			}
		}
		return first
	})
}

// unlessDialog has calls end, or returns errDialog once a dialog opens.
func (p *page) unlessDialog(ctx context.Context, do func(ctx context.Context, c *conn) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.b.mu.Lock()
	proc := p.b.proc // those who watch act beside a call that may set another
	p.b.mu.Unlock()
	if proc == nil {
		return errEnded
	}
	ended := make(chan error, 1)
	go func() { ended <- do(ctx, proc.conn) }()
	for {
		p.b.mu.Lock()
		open, crashed, changed := p.t.dialog != nil, p.t.crashed, p.b.changed
		p.b.mu.Unlock()
		switch {
		case open:
			// Its result, if it comes, is not read any more.
			cancel()
			<-ended //nolint:errcheck // why the call ended is not asked any more
			return errDialog
		case crashed:
			cancel()
			<-ended //nolint:errcheck // why the call ended is not asked any more
			return errCrashed
		}
		select {
		case err := <-ended:
			return err
		case <-changed:
		}
	}
}

// errCrashed is returned for a page that has ended.
var errCrashed = errors.New("the page crashed; open it again with browser_navigate")

// point is where an element can be clicked, or why it cannot.
type point struct {
	X, Y    float64
	Problem string
}

// pointScript returns whether an element can be clicked, and what covers it.
const pointScript = `function() {
	const say = (e) => {
		const name = (e.getAttribute('aria-label') || e.innerText || '').trim().replace(/\s+/g, ' ').slice(0, 60);
		return '<' + e.localName + (e.id ? ' id=' + JSON.stringify(e.id) : '') + '>' + (name ? ' ' + JSON.stringify(name) : '');
	};
	if (!this.isConnected) return {problem: 'it is not on the page any more'};
	const e = this.nodeType === 1 ? this : this.parentElement;
	if (!e) return {problem: 'it is no element'};
	if (e.disabled || e.closest('fieldset[disabled]') && 'disabled' in e || e.getAttribute('aria-disabled') === 'true') return {problem: 'it is disabled'};
	if (getComputedStyle(e).visibility === 'hidden') return {problem: 'it is hidden'};
	const rect = [...e.getClientRects()].find((r) => r.width > 0 && r.height > 0);
	if (!rect) return {problem: 'it is not shown: it has no size'};
	const x = (Math.max(rect.left, 0) + Math.min(rect.right, innerWidth)) / 2, y = (Math.max(rect.top, 0) + Math.min(rect.bottom, innerHeight)) / 2;
	const hit = e.getRootNode().elementFromPoint(x, y);
	if (!hit) return {problem: 'it is outside of the page'};
	const inside = (a, b) => { for (let at = b; at; at = at.parentNode ?? at.host) if (at === a) return true; return false; };
	const label = hit.closest && hit.closest('label');
	if (!inside(e, hit) && !inside(hit, e) && !(label && label.control === e)) return {problem: 'it is covered by ' + say(hit)};
	return {dx: x - rect.left, dy: y - rect.top, left: rect.left, top: rect.top};
}`

// pointOf returns where to click an element, which was brought into view.
func (p *page) pointOf(ctx context.Context, e element) (point, error) {
	var problem string
	// What moves, or is covered for a moment, is tried again.
	for range 10 {
		raw, err := p.on(ctx, e, pointScript)
		if err != nil {
			return point{}, err
		}
		var at struct{ Problem string }
		if err := json.Unmarshal(raw, &at); err != nil {
			return point{}, err
		}
		if problem = at.Problem; problem == "" {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return point{}, err
		}
	}
	if problem != "" {
		return point{Problem: problem}, nil
	}
	var shape struct {
		Quads [][]float64 `json:"quads"`
	}
	if err := p.act(ctx, "DOM.getContentQuads", map[string]any{"backendNodeId": e.backend}, &shape); err != nil {
		return point{}, err
	}
	for _, q := range shape.Quads {
		if len(q) != 8 {
			continue
		}
		left, right := min(q[0], q[2], q[4], q[6]), max(q[0], q[2], q[4], q[6])
		top, bottom := min(q[1], q[3], q[5], q[7]), max(q[1], q[3], q[5], q[7])
		left, right, top, bottom = max(left, 0), min(right, viewWidth), max(top, 0), min(bottom, viewHeight)
		if right-left >= 1 && bottom-top >= 1 {
			return point{X: (left + right) / 2, Y: (top + bottom) / 2}, nil
		}
	}
	return point{Problem: "it is outside of what is shown"}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A page is given long to do what follows from an action, and only brief if it has drawn something
// soon and neither asks for anything nor loads: one that has drawn nothing may do so after a timer of
// its own. It is looked at meanwhile; if it goes on after that, it is given long after all.
const (
	brief = 20 * time.Millisecond
	long  = 150 * time.Millisecond
)

// soon are the times at which a page is asked whether it has drawn something.
var soon = []time.Duration{4 * time.Millisecond, brief, 2 * brief}

// watchScript has the page note what changes in it, and drewScript reports whether something has.
const (
	watchScript = `(() => {
	self.deckhandDrawn?.disconnect();
	self.deckhandDrawn = new MutationObserver(() => { self.deckhandDrew = true });
	self.deckhandDrew = false;
	self.deckhandDrawn.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
})()`
	drewScript = `(() => {
	const drew = !!self.deckhandDrawn && (self.deckhandDrew || self.deckhandDrawn.takeRecords().length > 0);
	self.deckhandDrew = false;
	return drew;
})()`
)

// watch begins to note what an action changes in the page; see drew.
func (p *page) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	_, err := p.in(ctx, watchScript)
	if errors.Is(err, errEnded) {
		return err
	}
	return nil // nothing is noted, so the page is given long
}

// drew reports whether something has changed in the page's own document since watch or drew was called.
func (p *page) drew(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	drawn, err := p.in(ctx, drewScript)
	if errors.Is(err, errEnded) {
		return false, err
	}
	return err == nil && string(drawn) == "true", nil
}

// settle waits until a page does nothing any more that the action before may have begun, for
// at most a time. It reports whether it does. For one that has drawn something soon it sets
// quietAt: the page counts as quiet if it does nothing until then; see wentOn.
func (p *page) settle(ctx context.Context, since time.Time, most time.Duration) (bool, error) {
	end := time.Now().Add(most)
	calm, quiet, asked := time.Now(), soon[0], 0
	p.quietAt = time.Time{}
	for {
		stop, asks, busy, changed := busy(p, since)
		if asks {
			quiet = long
		}
		now := time.Now()
		if busy {
			calm, quiet = now, long
		}
		switch {
		case stop:
			return true, nil
		case now.After(end):
			return false, nil
		case !busy && now.Sub(calm) >= quiet:
			if quiet == long {
				return true, nil
			}
			if drawn, err := p.drew(ctx); err != nil || drawn {
				p.quietAt = time.Now().Add(brief - soon[0])
				return true, err
			}
			if asked++; asked < len(soon) {
				quiet = soon[asked]
			} else {
				quiet = long
			}
		}
		wait := time.NewTimer(min(50*time.Millisecond, quiet-now.Sub(calm)+time.Millisecond, time.Until(end)+time.Millisecond))
		select {
		case <-changed:
		case <-wait.C:
		case <-p.b.proc.conn.done:
			wait.Stop()
			return false, errEnded
		case <-ctx.Done():
			wait.Stop()
			return false, ctx.Err()
		}
		wait.Stop()
	}
}

// busy reports whether a page waits for something since a time, whether it asked for something, and
// whether nothing is to be waited for: it shows a dialog or has crashed. changed is closed when that
// may be different.
func busy(p *page, since time.Time) (stop, asks, busy bool, changed <-chan struct{}) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	busy = p.t.loading
	for _, r := range p.t.requests {
		if !r.began.Before(since) {
			asks, busy = true, busy || r.waits()
		}
	}
	return p.t.dialog != nil || p.t.crashed, asks, busy, p.b.changed
}

// wentOn reports whether a page that settle took for quiet has done something since, once it has been
// given its time. Then it has been given long.
func (p *page) wentOn(ctx context.Context, since time.Time, most time.Duration) (bool, error) {
	if p.quietAt.IsZero() {
		return false, nil
	}
	if err := pause(ctx, time.Until(p.quietAt)); err != nil {
		return false, err
	}
	p.quietAt = time.Time{}
	drawn, err := p.drew(ctx)
	if err != nil {
		return false, err
	}
	if stop, asks, busy, _ := busy(p, since); stop || !drawn && !asks && !busy {
		return false, nil
	}
	if err := pause(ctx, long); err != nil {
		return false, err
	}
	_, err = p.settle(ctx, since, most)
	p.quietAt = time.Time{}
	return true, err
}
