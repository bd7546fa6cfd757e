package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// The state of a browser is read after each call that may change it. A browser that is started
// anew, because Chromium ended, the jail was replaced or a task went back to a checkpoint,
// begins with it: cookies and storages are set before any script of a page runs, then each tab
// opens its address again.

const (
	// captureWait bounds the reading of the state, and restoreWait its restoring.
	captureWait = 2 * time.Second
	restoreWait = 25 * time.Second
	// tabWait bounds the opening of one tab.
	tabWait = 8 * time.Second
	// maxStates is of how many frames of a tab the storages are read.
	maxStates = 10
	// maxOrigins bounds the origins whose local storage is kept.
	maxOrigins = 30
)

// keptState is what a browser begins with when it is started anew.
type keptState struct {
	// session is the newest state; nil for none.
	session *browserlink.Session
	// tabs are the newest states of tabs by number, and local that of the local storage.
	tabs  map[int]browserlink.Tab
	local map[string][]browserlink.Item
	// trying reports that no call has succeeded since the pages were opened again: if the
	// browser ends meanwhile, they are not opened once more.
	trying bool
	// note is what is said of a restored state, once.
	note string
	// sent is the state that was handed over last.
	sent string
}

// lostNote is said if a browser begins without a state that it should have.
const lostNote = "the state that it had then is not kept any more: it has no pages, cookies and storages, and nobody is logged in"

// sessions reads and restores the state of a browser, for the call in progress.
type sessions struct{ *browser }

// captureScript reads a frame's storages and how far it is scrolled.
const captureScript = `(() => {
	let dropped = 0;
	const take = (of) => {
		const out = [];
		try {
			const s = of();
			for (let i = 0; i < s.length && out.length < 500; i++) {
				const k = s.key(i), v = s.getItem(k) ?? '';
				if (k.length + v.length > 65536) dropped++;
				else out.push([k, v]);
			}
		} catch { return null }
		return out;
	};
	return {origin: location.origin, local: take(() => localStorage), session: take(() => sessionStorage), x: scrollX, y: scrollY, dropped};
})()`

type frameTree struct {
	Frame  struct{ ID string } `json:"frame"`
	Childs []frameTree         `json:"childFrames"`
}

func (f frameTree) ids(out []string) []string {
	out = append(out, f.Frame.ID)
	for _, one := range f.Childs {
		out = one.ids(out)
	}
	return out
}

// capture reads the state of the browser; a tab that cannot be asked now has the state that
// it had. It is for the call in progress.
func (b sessions) capture(ctx context.Context) {
	if b.proc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, captureWait)
	defer cancel()
	s := &browserlink.Session{}
	var got struct{ Cookies []browserlink.Cookie }
	read := make(chan error, 1)
	go func() { read <- b.proc.conn.call(ctx, "", "Storage.getCookies", nil, &got) }()
	b.mu.Lock()
	tabs, active := append([]*tab(nil), b.tabs...), b.active
	s.Ran, s.Typed = slices.Sorted(maps.Keys(b.ran)), slices.Sorted(maps.Keys(b.typed))
	b.mu.Unlock()
	old := b.kept.tabs
	b.kept.tabs = map[int]browserlink.Tab{}
	for _, t := range tabs {
		b.mu.Lock()
		state := browserlink.Tab{URL: t.url, Title: t.title, Active: t == active}
		silent := !t.ready || t.crashed || t.dialog != nil
		b.mu.Unlock()
		if !strings.HasPrefix(state.URL, "http://") && !strings.HasPrefix(state.URL, "https://") {
			continue
		}
		if before, ok := old[t.number]; ok && before.URL == state.URL {
			state.X, state.Y, state.Storage = before.X, before.Y, before.Storage
		}
		if !silent {
			s.Dropped += b.captureTab(ctx, t, &state)
		}
		b.kept.tabs[t.number] = state
		s.Tabs = append(s.Tabs, state)
	}
	if <-read != nil {
		return
	}
	s.Cookies, s.Local = got.Cookies, b.kept.local
	b.kept.session = s
}

// captureTab reads the storages of a tab's frames, and returns how many items were too large.
func (b sessions) captureTab(ctx context.Context, t *tab, state *browserlink.Tab) (dropped int) {
	p := &page{b: b.browser, t: t}
	var tree struct {
		Tree frameTree `json:"frameTree"`
	}
	if p.act(ctx, "Page.getFrameTree", nil, &tree) != nil {
		return 0
	}
	frames := tree.Tree.ids(nil)
	storage := map[string][]browserlink.Item{}
	for i, frame := range frames[:min(len(frames), maxStates)] {
		world, err := p.world(ctx, frame)
		if err != nil {
			continue
		}
		raw, err := p.value(ctx, "Runtime.evaluate", map[string]any{"expression": captureScript, "contextId": world, "returnByValue": true})
		if err != nil {
			continue
		}
		var got struct {
			Origin         string
			Local, Session []browserlink.Item
			X, Y           float64
			Dropped        int
		}
		if json.Unmarshal(raw, &got) != nil || !strings.HasPrefix(got.Origin, "http") {
			continue
		}
		dropped += got.Dropped
		if i == 0 {
			state.X, state.Y = got.X, got.Y
		}
		if len(got.Session) > 0 {
			storage[got.Origin] = got.Session
		}
		b.keepLocal(got.Origin, got.Local)
	}
	// Frames that were left keep theirs, as in the browser.
	for origin, items := range state.Storage {
		if _, seen := storage[origin]; !seen && len(storage) < maxOrigins && !sameOrigin(state.URL, origin) {
			storage[origin] = items
		}
	}
	state.Storage = storage
	return dropped
}

func sameOrigin(address, origin string) bool {
	return address == origin || strings.HasPrefix(address, origin+"/")
}

func (b sessions) keepLocal(origin string, items []browserlink.Item) {
	// The map of a state that was read before is not changed any more.
	local := make(map[string][]browserlink.Item, len(b.kept.local)+1)
	for one, its := range b.kept.local {
		local[one] = its
	}
	if _, known := local[origin]; items == nil || !known && len(local) >= maxOrigins {
		return
	}
	local[origin] = items
	if len(items) == 0 {
		delete(local, origin)
	}
	b.kept.local = local
}

// begin has the browser begin with a state when it is started.
func (b sessions) begin(s browserlink.Session) {
	b.kept.session, b.kept.local = &s, s.Local
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, origin := range s.Ran {
		b.ran[origin] = true
	}
	for _, origin := range s.Typed {
		b.typed[origin] = true
	}
}

// restore brings a browser that was just started to the state that it is to begin with. Pages
// that cannot be opened are left out; what the browser said is in the note.
func (b sessions) restore(ctx context.Context) {
	s := b.kept.session
	if s == nil || len(s.Tabs) == 0 && len(s.Cookies) == 0 && len(s.Local) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restoreWait)
	defer cancel()
	again := b.kept.trying
	b.kept.trying = true
	b.setCookies(ctx, s.Cookies)
	tabs := s.Tabs
	if again {
		tabs = nil
	}
	b.mu.Lock()
	first := b.active
	b.mu.Unlock()
	seeds := map[string]seed{}
	for origin, items := range s.Local {
		seeds[origin] = seed{Local: items}
	}
	b.seed(ctx, first, seeds)
	opened, active := 0, first
	for i, want := range tabs {
		at := first
		if i > 0 {
			if at = b.anotherTab(ctx); at == nil {
				break
			}
		}
		if b.open(ctx, at, want) {
			opened++
		}
		if want.Active {
			active = at
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = active
	for _, t := range b.tabs {
		t.requests, t.byID, t.console = nil, map[string]*request{}, nil
	}
	b.alerts = nil
	switch {
	case again:
		b.kept.note = "it has its cookies and storages of before; its pages were not opened again, because the browser ended when they were"
	case len(tabs) > 0:
		b.kept.note = fmt.Sprintf("its session was restored: cookies, storages and %d of %d tabs, whose pages were loaded again; the active one is %s. What was typed and not sent is gone", opened, len(tabs), clean(active.url, 300))
	default:
		b.kept.note = "its cookies and storages were restored"
	}
	if s.Dropped > 0 {
		b.kept.note += fmt.Sprintf("; %d items of storages were too large to be kept", s.Dropped)
	}
}

func (b sessions) setCookies(ctx context.Context, cookies []browserlink.Cookie) {
	var all []map[string]any
	for _, c := range cookies {
		one := map[string]any{"name": c.Name, "value": c.Value, "path": c.Path, "secure": c.Secure, "httpOnly": c.HTTPOnly}
		if strings.HasPrefix(c.Domain, ".") {
			one["domain"] = c.Domain
		} else { // of one host only
			scheme := "http"
			if c.Secure || c.SourceScheme == "Secure" {
				scheme = "https"
			}
			one["url"] = scheme + "://" + c.Domain + c.Path
		}
		if !c.Session && c.Expires > 0 {
			one["expires"] = c.Expires
		}
		for name, text := range map[string]string{"sameSite": c.SameSite, "priority": c.Priority, "sourceScheme": c.SourceScheme} {
			if text != "" {
				one[name] = text
			}
		}
		if c.SourcePort != 0 {
			one["sourcePort"] = c.SourcePort
		}
		if len(c.PartitionKey) > 0 {
			one["partitionKey"] = c.PartitionKey
		}
		all = append(all, one)
	}
	if len(all) == 0 || b.proc.conn.call(ctx, "", "Storage.setCookies", map[string]any{"cookies": all}, nil) == nil {
		return
	}
	// One that this browser does not take keeps the others from being set.
	for _, one := range all {
		_ = b.proc.conn.call(ctx, "", "Storage.setCookies", map[string]any{"cookies": []any{one}}, nil)
	}
}

// seed is what the storages of an origin hold.
type seed struct {
	Local   []browserlink.Item `json:"local"`
	Session []browserlink.Item `json:"session"`
}

// seedScript sets the storages of the frame's origin.
const seedScript = `(seed) => {
	const put = (s, items) => { if (!items) return; s.clear(); for (const [k, v] of items) s.setItem(k, v); };
	try { put(localStorage, seed.local) } catch { /* refused, or full */ }
	try { put(sessionStorage, seed.session) } catch { /* as above */ }
}`

// seed sets the storages of origins from a tab. It shows an empty page of each, for which no
// request is sent.
func (b sessions) seed(ctx context.Context, t *tab, seeds map[string]seed) {
	if len(seeds) == 0 {
		return
	}
	p := &page{b: b.browser, t: t}
	if p.act(ctx, "Fetch.enable", map[string]any{"patterns": []map[string]any{{"urlPattern": "*"}}}, nil) != nil {
		return
	}
	_ = p.act(ctx, "Network.setBypassServiceWorker", map[string]any{"bypass": true}, nil)
	for origin, items := range seeds {
		if p.load(ctx, origin+"/") != nil {
			continue
		}
		text, err := json.Marshal(items)
		if err != nil {
			continue
		}
		_, _ = p.in(ctx, "("+seedScript+")("+string(text)+")") // what cannot be set is missing
	}
	_ = p.act(ctx, "Network.setBypassServiceWorker", map[string]any{"bypass": false}, nil)
	_ = p.act(ctx, "Fetch.disable", nil, nil)
}

// load opens an address and waits until its document is there.
func (p *page) load(ctx context.Context, address string) error {
	var gone struct {
		LoaderID  string `json:"loaderId"`
		ErrorText string `json:"errorText"`
	}
	ctx, cancel := context.WithTimeout(ctx, tabWait)
	defer cancel()
	if err := p.act(ctx, "Page.navigate", map[string]any{"url": address}, &gone); err != nil {
		return err
	}
	if gone.ErrorText != "" {
		return fmt.Errorf("%s", gone.ErrorText)
	}
	return p.b.until(ctx, "the page", func() bool {
		return p.t.loader == gone.LoaderID && !p.t.loading || p.t.crashed || p.t.dialog != nil
	})
}

// emptyPage is what is shown in place of any page while storages are set.
const emptyPage = "PCFkb2N0eXBlIGh0bWw+" // <!doctype html>

// onPaused answers a request of a tab whose storages are set.
func (t *tab) onPaused(b *browser, e event) {
	var p struct{ RequestID string }
	if json.Unmarshal(e.Params, &p) == nil {
		go b.later(t.session, "Fetch.fulfillRequest", map[string]any{
			"requestId": p.RequestID, "responseCode": 200, "body": emptyPage,
			"responseHeaders": []map[string]any{{"name": "Content-Type", "value": "text/html"}, {"name": "Cache-Control", "value": "no-store"}},
		})
	}
}

// anotherTab returns a new tab; nil if there is none.
func (b sessions) anotherTab(ctx context.Context) (made *tab) {
	var target struct{ TargetID string }
	if b.proc.conn.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target) != nil {
		return nil
	}
	_ = b.until(ctx, "a tab", func() bool {
		for _, t := range b.tabs {
			if t.target == target.TargetID && t.ready {
				made = t
			}
		}
		return made != nil
	})
	return made
}

// open has a tab show what it showed before.
func (b sessions) open(ctx context.Context, t *tab, want browserlink.Tab) bool {
	seeds := map[string]seed{}
	for origin, items := range want.Storage {
		seeds[origin] = seed{Session: items}
	}
	b.seed(ctx, t, seeds)
	address, err := checkURL(want.URL)
	if err != nil {
		return false
	}
	p := &page{b: b.browser, t: t}
	if p.load(ctx, address) != nil {
		return false
	}
	_ = p.act(ctx, "Page.resetNavigationHistory", nil, nil)
	if want.X != 0 || want.Y != 0 {
		if _, err := p.settle(ctx, time.Time{}, settleAfter); err == nil {
			_, _ = p.in(ctx, fmt.Sprintf("scrollTo({left: %g, top: %g, behavior: 'instant'})", want.X, want.Y))
		}
	}
	return true
}

// changesState reports whether a call may change the state of the browser.
func changesState(tool string) bool {
	switch tool {
	case toolname.BrowserSnapshot, toolname.BrowserExtract, toolname.BrowserScreenshot, toolname.BrowserConsole, toolname.BrowserNetwork:
		return false
	}
	return true
}
