package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Bounds of downloads, which lie in the jail's memory until they are handed over.
const (
	maxDownload  = 256 << 20
	maxDownloads = 20
	// maxWaiting bounds the bytes of all together.
	maxWaiting = 512 << 20
)

// browser is the Chromium of a task with its tabs. It is started by the first call that needs
// it, and again after it ended.
type browser struct {
	program string
	folder  string
	proxy   *proxy

	proc *process // written by the call in progress, with mu held

	mu        sync.Mutex
	tabs      []*tab
	active    *tab
	last      int // the number of the newest tab
	refused   int // tabs that were closed for being too many
	alerts    []string
	downloads map[string]*download
	order     []*download
	surplus   int           // downloads that were cancelled for being too many
	changed   chan struct{} // closed and replaced at each event
	lost      string        // how the browser before this one ended, until it is said
	lostURL   string

	// ran and typed are the origins in whose pages JavaScript of the agent ran, and into whose
	// pages credentials were typed; guarded by mu.
	ran, typed map[string]bool

	// kept, secrets and typings, which counts how often one was typed, are for the call in
	// progress.
	kept    keptState
	secrets secrets
	typings int
	// targets are those that are remembered; for the call in progress.
	targets targets
	// acts are what persons did, for the call in progress.
	acts acts
	// follow has each new tab become the active one: a person has the browser; guarded by mu.
	follow bool
	// private reports that a person has typed a secret since they took the browser over, and
	// released counts how often that has ended; guarded by mu.
	private  bool
	released int
}

// download is a file that a page had the browser save.
type download struct {
	guid, url, name string
	size            int64
	done            bool
	failed          string
	said            bool
}

func newBrowser(program, folder string, proxy *proxy) *browser {
	return &browser{program: program, folder: folder, proxy: proxy, downloads: map[string]*download{}, changed: make(chan struct{}), ran: map[string]bool{}, typed: map[string]bool{},
		secrets: secrets{hiding: make(chan struct{}, 1)}}
}

// start makes sure that the browser runs and has a tab.
func (b *browser) start(ctx context.Context) error {
	if b.proc != nil {
		select {
		case <-b.proc.conn.done:
			b.ended()
		default:
		}
	}
	anew := b.proc == nil
	if anew {
		if err := b.launch(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	none := len(b.tabs) == 0
	b.mu.Unlock()
	if none {
		var made struct{ TargetID string }
		if err := b.proc.conn.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &made); err != nil {
			return err
		}
	}
	if err := b.until(ctx, "a tab", func() bool { return b.active != nil && b.active.ready }); err != nil {
		return err
	}
	if anew {
		sessions{b}.restore(ctx)
	}
	return nil
}

func (b *browser) launch(ctx context.Context) error {
	program, err := find(b.program)
	if err != nil {
		return err
	}
	p, err := launch(program, b.folder, b.proxy.address(), b.onEvent)
	if err != nil {
		return err
	}
	b.setProcess(p)
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for _, one := range []struct {
		method string
		params any
	}{
		{"Browser.setDownloadBehavior", map[string]any{"behavior": "allowAndName", "downloadPath": filepath.Join(b.folder, "downloads"), "eventsEnabled": true}},
		{"Target.setDiscoverTargets", map[string]any{"discover": true, "filter": []map[string]any{{"type": "page"}}}},
		{"Target.setAutoAttach", map[string]any{
			"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
			"filter": []map[string]any{{"type": "page"}},
		}},
	} {
		if err = b.proc.conn.call(ctx, "", one.method, one.params, nil); err != nil {
			break
		}
	}
	if err != nil {
		b.setProcess(nil)
		p.kill()
		how := p.how()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the browser did not start within %s: %s", startWait, how)
		}
		return fmt.Errorf("the browser did not start: %s", how)
	}
	return nil
}

// ended forgets a browser that has ended, and keeps how for the next call.
func (b *browser) ended() {
	how := b.proc.how()
	b.setProcess(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost, b.lostURL = how, ""
	if b.active != nil {
		b.lostURL = b.active.url
	}
	b.tabs, b.active, b.alerts, b.downloads, b.order = nil, nil, nil, map[string]*download{}, nil
}

// takeLost returns how the browser before this one ended, once.
func (b *browser) takeLost() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	how := b.lost
	b.lost, b.lostURL = "", ""
	return how
}

func (b *browser) close() {
	if b.proc != nil {
		b.proc.close()
		b.setProcess(nil)
	}
}

// setProcess is for the call in progress, which may read proc without mu.
func (b *browser) setProcess(p *process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.proc = p
}

// until waits until a condition holds, which is asked at each event with mu held.
func (b *browser) until(ctx context.Context, what string, holds func() bool) error {
	for {
		b.mu.Lock()
		ok, changed := holds(), b.changed
		b.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-b.proc.conn.done:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
}

// onEvent takes an event of the browser.
func (b *browser) onEvent(e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() {
		close(b.changed)
		b.changed = make(chan struct{})
	}()
	if e.Session != "" {
		for _, t := range b.tabs {
			if t.session == e.Session {
				t.onEvent(b, e)
			}
		}
		return
	}
	switch e.Method {
	case "Target.attachedToTarget", "Target.detachedFromTarget", "Target.targetInfoChanged", "Target.targetCrashed":
		b.onTarget(e)
	case "Browser.downloadWillBegin", "Browser.downloadProgress":
		b.onDownload(e)
	}
}

func (b *browser) onTarget(e event) {
	var p struct {
		SessionID  string
		TargetID   string
		TargetInfo struct{ TargetID, Type, Title, URL, OpenerID string }
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	switch e.Method {
	case "Target.attachedToTarget":
		if p.TargetInfo.Type != "page" {
			return
		}
		if len(b.tabs) >= maxTabs {
			b.refused++
			go func() {
				// The page that opened it waits for it to go on.
				b.later(p.SessionID, "Runtime.runIfWaitingForDebugger", nil)
				b.later("", "Target.closeTarget", map[string]any{"targetId": p.TargetInfo.TargetID})
			}()
			return
		}
		b.last++
		t := &tab{number: b.last, target: p.TargetInfo.TargetID, session: p.SessionID, url: p.TargetInfo.URL, byID: map[string]*request{}, group: b.groupOf(p.TargetInfo.OpenerID)}
		t.reset()
		t.navigations = 0
		b.tabs = append(b.tabs, t)
		if b.active == nil || b.follow {
			b.active = t
		}
		go b.prepare(t)
	case "Target.detachedFromTarget":
		for i, t := range b.tabs {
			if t.session != p.SessionID {
				continue
			}
			b.tabs = append(b.tabs[:i:i], b.tabs[i+1:]...)
			if b.active == t {
				b.active = nil
				if len(b.tabs) > 0 {
					b.active = b.tabs[max(0, i-1)]
				}
			}
			break
		}
	case "Target.targetInfoChanged":
		for _, t := range b.tabs {
			if t.target == p.TargetInfo.TargetID {
				t.title = report.Clean([]byte(p.TargetInfo.Title), 200)
			}
		}
	case "Target.targetCrashed":
		for _, t := range b.tabs {
			if t.target == p.TargetID {
				t.crashed, t.dialog, t.loading = true, nil, false
			}
		}
	}
}

// groupOf returns the group of a new tab.
func (b *browser) groupOf(opener string) *group {
	if opener == "" {
		return &group{}
	}
	for _, t := range b.tabs {
		if t.target == opener {
			return t.group
		}
	}
	return &group{ran: true, typed: true} // what opened it is gone: it may be of any
}

// later makes a call from a goroutine of its own, whose end nobody waits for.
func (b *browser) later(session, method string, params any) {
	b.mu.Lock()
	proc := b.proc
	b.mu.Unlock()
	if proc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = proc.conn.call(ctx, session, method, params, nil)
}

// prepare has a new tab report its events, and lets it begin.
func (b *browser) prepare(t *tab) {
	for _, one := range []struct {
		method string
		params any
	}{
		{"Page.enable", nil},
		{"Runtime.enable", nil},
		{"Network.enable", map[string]any{"maxTotalBufferSize": 1 << 20, "maxResourceBufferSize": 1 << 19}},
		{"Log.enable", nil},
		{"DOM.enable", nil},
		{"Inspector.enable", nil},
		{"Page.setInterceptFileChooserDialog", map[string]any{"enabled": true}},
		{"Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}},
		// There is no printer, and nobody who would close the dialog.
		{"Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": "window.print = () => {}"}},
		{"Runtime.runIfWaitingForDebugger", nil},
	} {
		b.later(t.session, one.method, one.params)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t.ready = true
	close(b.changed)
	b.changed = make(chan struct{})
}

// onDialog decides a dialog that has opened: one that leaves no choice is closed, and of a
// page that is left. Any other waits for browser_dialog; no other call waits for it.
func (b *browser) onDialog(t *tab) {
	if t.dialog.kind != "alert" && t.dialog.kind != "beforeunload" {
		return
	}
	if len(b.alerts) < maxKept {
		b.alerts = append(b.alerts, fmt.Sprintf("%s %q", t.dialog.kind, t.dialog.message))
	}
	t.dialog = nil
	go b.later(t.session, "Page.handleJavaScriptDialog", map[string]any{"accept": true})
}

func (b *browser) onDownload(e event) {
	var p struct {
		GUID, URL, SuggestedFilename, State string
		TotalBytes, ReceivedBytes           float64
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	if e.Method == "Browser.downloadWillBegin" {
		d := &download{guid: p.GUID, url: report.Clean([]byte(p.URL), maxTextKept), name: p.SuggestedFilename}
		waiting := 0
		for _, one := range b.order {
			if !one.said {
				waiting++
			}
		}
		if waiting >= maxDownloads {
			b.surplus++
			go b.later("", "Browser.cancelDownload", map[string]any{"guid": p.GUID})
			return
		}
		b.order = append(b.order, d)
		b.downloads[p.GUID] = d
		return
	}
	d := b.downloads[p.GUID]
	if d == nil || d.failed != "" {
		if p.State == "completed" { // before it could be cancelled
			b.discard(p.GUID)
		}
		return
	}
	if d.done {
		return
	}
	d.size = int64(p.ReceivedBytes)
	all := int64(0)
	for _, one := range b.order {
		if one.failed == "" {
			all += one.size
		}
	}
	switch {
	case p.TotalBytes > maxDownload || p.ReceivedBytes > maxDownload:
		d.failed = fmt.Sprintf("it is larger than %d MiB; fetch it with http_download", maxDownload>>20)
		go b.later("", "Browser.cancelDownload", map[string]any{"guid": p.GUID})
		if p.State == "completed" {
			b.discard(p.GUID)
		}
	case all > maxWaiting:
		d.failed = fmt.Sprintf("the downloads that wait are larger than %d MiB", maxWaiting>>20)
		go b.later("", "Browser.cancelDownload", map[string]any{"guid": p.GUID})
		if p.State == "completed" {
			b.discard(p.GUID)
		}
	case p.State == "completed":
		d.done = true
	case p.State == "canceled":
		d.failed = "it was cancelled, or broke off"
	}
}

// discard deletes the browser's copy of a download.
func (b *browser) discard(guid string) {
	_ = os.Remove(filepath.Join(b.folder, "downloads", filepath.Base(guid)))
}

// takeFailed returns the downloads that failed, and how many were too many, once.
func (b *browser) takeFailed() (failed []*download, surplus int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.order[:0]
	for _, d := range b.order {
		if d.failed == "" {
			kept = append(kept, d)
			continue
		}
		failed = append(failed, d)
		delete(b.downloads, d.guid)
	}
	b.order, surplus, b.surplus = kept, b.surplus, 0
	return failed, surplus
}

// finished returns the downloads that are complete and not handed over, and marks nothing.
func (b *browser) finished() (done []*download, running int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.order {
		switch {
		case d.said:
		case d.done:
			done = append(done, d)
		case d.failed == "":
			running++
		}
	}
	return done, running
}

// handedOver marks downloads as handed over, and deletes the browser's copies.
func (b *browser) handedOver(all []*download) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range all {
		d.said = true
		b.discard(d.guid)
		delete(b.downloads, d.guid)
	}
	kept := b.order[:0]
	for _, d := range b.order {
		if !d.said {
			kept = append(kept, d)
		}
	}
	b.order = kept
}
