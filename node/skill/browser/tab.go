package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Bounds of what is kept of a tab, and of how many there are.
const (
	maxTabs     = 20
	maxKept     = 200
	maxTextKept = 500
)

// tab is a page of the browser. All fields are guarded by browser.mu.
type tab struct {
	number  int
	target  string
	session string
	ready   bool // its events are enabled
	url     string
	title   string
	loader  string // identifies the document
	loading bool
	crashed bool
	dialog  *dialog
	// refs are the references to elements of the document, by the element's id, and nodes
	// the elements by reference.
	refs  map[int64]string
	nodes map[string]element
	// shown are the lines of the last snapshot.
	shown    []string
	console  []entry
	requests []*request
	byID     map[string]*request
	// navigations counts the documents that the tab has shown.
	navigations int
	// chooser is the element that last asked for files.
	chooser int64
	// script is the world of the scripts of the document, and of which origin it is.
	script struct{ id, origin string }
	// world is the driver's own world of scripts in the document.
	world string
	group *group
	cast  screencast
	// secrets are the elements of the document into which a person typed a secret, by their ids,
	// with their frames.
	secrets map[int64]string
}

// group are tabs that opened one another: their documents may reach each other. It reports
// whether JavaScript of the agent ran in one of them, and whether a credential was typed.
type group struct{ ran, typed bool }

// element is an element of a page, and what a reference stands for.
type element struct {
	backend    int64
	frame      string
	role, name string
}

// dialog is one that is open.
type dialog struct {
	kind, message, given, url string
}

// entry is a message on the console.
type entry struct {
	level, text, from string
	at                time.Time
}

// request is one that a page made.
type request struct {
	method, url, kind string
	status            int
	failed            string
	began, ended      time.Time
	bytes             int64
}

// open reports whether it is in progress.
func (r *request) open() bool { return r.ended.IsZero() }

// waits reports whether a page that waits for its network waits for it: not for streams.
func (r *request) waits() bool {
	return r.open() && r.kind != "EventSource" && r.kind != "WebSocket" && r.kind != "Media" && r.kind != "Ping"
}

func (t *tab) name() string { return fmt.Sprintf("t%d", t.number) }

// reset forgets what was of the document before.
func (t *tab) reset() {
	t.refs, t.nodes, t.shown, t.chooser, t.secrets = map[int64]string{}, map[string]element{}, nil, 0, map[int64]string{}
	t.cast.data = ""
	t.navigations++
}

func (t *tab) note(level, text, from string) {
	t.console = append(t.console, entry{level, report.Clean([]byte(text), maxTextKept), report.Clean([]byte(from), 200), time.Now()})
	if over := len(t.console) - maxKept; over > 0 {
		t.console = append(t.console[:0], t.console[over:]...)
	}
}

// onEvent takes an event of the tab's; the browser's mu is held.
func (t *tab) onEvent(b *browser, e event) {
	switch {
	case e.Method == "Page.screencastFrame":
		t.onFilm(e)
	case strings.HasPrefix(e.Method, "Page."):
		t.onPage(b, e)
	case strings.HasPrefix(e.Method, "Network."):
		t.onNetwork(e)
	case e.Method == "Fetch.requestPaused":
		t.onPaused(b, e)
	case strings.HasPrefix(e.Method, "Runtime.executionContext"):
		t.onContext(e)
	case e.Method == "Runtime.consoleAPICalled":
		var p struct {
			Type string `json:"type"`
			Args []struct {
				Type        string          `json:"type"`
				Value       json.RawMessage `json:"value"`
				Description string          `json:"description"`
			} `json:"args"`
			StackTrace struct {
				CallFrames []callFrame `json:"callFrames"`
			} `json:"stackTrace"`
		}
		if json.Unmarshal(e.Params, &p) != nil {
			return
		}
		var words []string
		for _, arg := range p.Args {
			var s string
			switch {
			case json.Unmarshal(arg.Value, &s) == nil:
				words = append(words, s)
			case len(arg.Value) > 0:
				words = append(words, string(arg.Value))
			default:
				words = append(words, arg.Description)
			}
		}
		from := ""
		if len(p.StackTrace.CallFrames) > 0 {
			from = p.StackTrace.CallFrames[0].String()
		}
		t.note(p.Type, strings.Join(words, " "), from)
	case e.Method == "Runtime.exceptionThrown":
		var p struct {
			Details exception `json:"exceptionDetails"`
		}
		if json.Unmarshal(e.Params, &p) == nil {
			t.note("error", p.Details.String(), fmt.Sprintf("%s:%d", p.Details.URL, p.Details.Line+1))
		}
	case e.Method == "Log.entryAdded":
		var p struct {
			Entry struct{ Level, Text, URL string } `json:"entry"`
		}
		if json.Unmarshal(e.Params, &p) == nil && p.Entry.Level != "verbose" {
			t.note(p.Entry.Level, p.Entry.Text, p.Entry.URL)
		}
	case e.Method == "Inspector.targetCrashed":
		t.crashed, t.dialog, t.loading = true, nil, false
	}
}

// onContext notes the world in which the document's scripts run.
func (t *tab) onContext(e event) {
	var p struct {
		UniqueID string `json:"executionContextUniqueId"`
		Context  struct {
			UniqueID, Origin string
			Name             string
			AuxData          struct {
				IsDefault bool
				FrameID   string
			}
		}
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	switch at := p.Context; {
	case e.Method == "Runtime.executionContextsCleared", e.Method == "Runtime.executionContextDestroyed" && p.UniqueID == t.world:
		t.world = ""
	case e.Method == "Runtime.executionContextCreated" && at.Name == worldName && !at.AuxData.IsDefault && at.AuxData.FrameID == t.target:
		t.world = at.UniqueID
	}
	switch at := p.Context; {
	case e.Method == "Runtime.executionContextsCleared", e.Method == "Runtime.executionContextDestroyed" && p.UniqueID == t.script.id:
		t.script.id, t.script.origin = "", ""
	case e.Method == "Runtime.executionContextCreated" && at.AuxData.IsDefault && at.AuxData.FrameID == t.target:
		t.script.id, t.script.origin = at.UniqueID, at.Origin
	}
}

// callFrame is a place in a script.
type callFrame struct {
	URL  string `json:"url"`
	Line int    `json:"lineNumber"`
}

func (f callFrame) String() string { return fmt.Sprintf("%s:%d", f.URL, f.Line+1) }

// exception is what a script threw.
type exception struct {
	Text      string `json:"text"`
	URL       string `json:"url"`
	Line      int    `json:"lineNumber"`
	Exception struct {
		Description string          `json:"description"`
		Value       json.RawMessage `json:"value"`
	} `json:"exception"`
}

func (e exception) String() string {
	switch {
	case e.Exception.Description != "":
		return e.Exception.Description
	case len(e.Exception.Value) > 0:
		return e.Text + " " + string(e.Exception.Value)
	}
	return e.Text
}

func (t *tab) onPage(b *browser, e event) {
	switch e.Method {
	case "Page.frameNavigated":
		var p struct {
			Frame struct{ ID, ParentID, URL, LoaderID string } `json:"frame"`
		}
		if json.Unmarshal(e.Params, &p) != nil || p.Frame.ParentID != "" {
			return
		}
		t.url, t.loader, t.crashed = p.Frame.URL, p.Frame.LoaderID, false
		t.reset()
	case "Page.navigatedWithinDocument":
		var p struct{ FrameID, URL string }
		if json.Unmarshal(e.Params, &p) == nil && p.FrameID == t.target {
			t.url = p.URL
		}
	case "Page.frameStartedLoading", "Page.frameStoppedLoading":
		var p struct{ FrameID string }
		if json.Unmarshal(e.Params, &p) == nil && p.FrameID == t.target {
			t.loading = e.Method == "Page.frameStartedLoading"
		}
	case "Page.javascriptDialogOpening":
		var p struct{ URL, Message, Type, DefaultPrompt string }
		if json.Unmarshal(e.Params, &p) == nil {
			t.dialog = &dialog{p.Type, report.Clean([]byte(p.Message), maxTextKept), p.DefaultPrompt, p.URL}
			b.onDialog(t)
		}
	case "Page.javascriptDialogClosed":
		t.dialog = nil
	case "Page.fileChooserOpened":
		var p struct {
			Backend int64 `json:"backendNodeId"`
		}
		if json.Unmarshal(e.Params, &p) == nil {
			t.chooser = p.Backend
		}
	}
}

func (t *tab) onNetwork(e event) {
	var p struct {
		RequestID string `json:"requestId"`
		Type      string `json:"type"`
		Request   struct{ URL, Method string }
		Response  struct {
			URL    string
			Status int
		}
		Redirect *struct{ Status int } `json:"redirectResponse"`
		Error    string                `json:"errorText"`
		Canceled bool                  `json:"canceled"`
		Bytes    float64               `json:"encodedDataLength"`
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	now := time.Now()
	at := t.byID[p.RequestID]
	switch e.Method {
	case "Network.requestWillBeSent":
		if strings.HasPrefix(p.Request.URL, "data:") {
			return
		}
		if at != nil && p.Redirect != nil {
			at.status, at.ended = p.Redirect.Status, now
		}
		r := &request{method: p.Request.Method, url: report.Clean([]byte(p.Request.URL), maxTextKept), kind: p.Type, began: now}
		t.byID[p.RequestID] = r
		t.requests = append(t.requests, r)
		if over := len(t.requests) - maxKept; over > 0 {
			t.requests = append(t.requests[:0], t.requests[over:]...)
		}
		if len(t.byID) > 4*maxKept {
			for id, one := range t.byID {
				if !one.open() {
					delete(t.byID, id)
				}
			}
		}
	case "Network.responseReceived":
		if at != nil {
			at.status = p.Response.Status
		}
	case "Network.loadingFinished":
		if at != nil {
			at.ended, at.bytes = now, int64(p.Bytes)
			delete(t.byID, p.RequestID)
		}
	case "Network.loadingFailed":
		if at != nil {
			at.ended, at.failed = now, p.Error
			if p.Canceled {
				at.failed = "cancelled"
			}
			delete(t.byID, p.RequestID)
		}
	}
}
