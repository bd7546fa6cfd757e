package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/browser"
	"github.com/deckhand-sh/deckhand/node/skill/browser/browsertest"
)

// rig is a browser that is kept, and the site.
type rig struct {
	t         testing.TB
	site      *browsertest.Site
	url       string
	folder    string
	workspace string
	exec      string
	// key, if set, signs the calls, and secret is the credential that they type.
	key    browserlink.Key
	secret *browserlink.Secret
	keeper string
	last   string // the command of the last call
	calls  int
}

// start keeps a real browser for a test.
func start(t testing.TB) *rig { return startBehind(t, "") }

// startBehind keeps one whose requests go through a proxy.
func startBehind(t testing.TB, proxy string) *rig {
	t.Helper()
	r := newRig(t)
	r.keep(browser.Config{Proxy: proxy})
	return r
}

// newRig returns a site without a browser.
func newRig(t testing.TB) *rig {
	t.Helper()
	site := &browsertest.Site{}
	server := httptest.NewServer(site)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rig{t: t, site: site, url: server.URL, workspace: t.TempDir()}
}

// keep keeps a browser until the test or the function that it returns ends it.
func (r *rig) keep(cfg browser.Config) (end func()) {
	r.t.Helper()
	r.folder = filepath.Join(r.t.TempDir(), "browser")
	r.key, r.keeper, cfg.Start.Now = cfg.Start.Key, cfg.Start.Keeper, time.Now().UnixMilli()
	cfg.Folder, cfg.IdleSeconds = r.folder, 600
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- browser.Serve(ctx, cfg) }()
	end = sync.OnceFunc(func() {
		cancel()
		require.NoError(r.t, <-ended)
	})
	r.t.Cleanup(end)
	return end
}

// ask makes a call as the program does.
func (r *rig) ask(tool string, args map[string]any) browser.Answer {
	r.t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(r.t, err)
	began := time.Now()
	defer func() { r.t.Logf("%s %v took %s", tool, args, time.Since(began).Round(time.Millisecond)) }()
	call := browser.Request{Tool: tool, Arguments: raw, Exec: r.exec}
	if r.key != nil {
		r.calls++
		call.Exec = fmt.Sprintf("step_%d", r.calls)
		if r.secret != nil {
			call.Secret, err = r.key.SealSecret(r.keeper, call.Exec, *r.secret)
			require.NoError(r.t, err)
		}
		r.last = call.Exec
		call.Number, call.Deadline = int64(r.calls), time.Now().Add(time.Minute).UnixMilli()
		r.sign(&call)
	}
	return r.send(call)
}

// sign signs a call for the rig's keeper.
func (r *rig) sign(call *browser.Request) {
	call.Signature = r.key.Sign(browserlink.Call{
		Keeper: r.keeper, Exec: call.Exec, Number: call.Number, Deadline: call.Deadline, Tool: call.Tool, Arguments: call.Arguments, Secret: call.Secret,
	})
}

// send passes a call on as the program does.
func (r *rig) send(call browser.Request) browser.Answer {
	r.t.Helper()
	request, err := json.Marshal(call)
	require.NoError(r.t, err)
	var out bytes.Buffer
	require.NoError(r.t, browser.Ask(context.Background(), r.folder, r.workspace, bytes.NewReader(request), &out))
	var said browser.Answer
	require.NoError(r.t, json.Unmarshal(out.Bytes(), &said))
	return said
}

// do makes a call that succeeds.
func (r *rig) do(tool string, args map[string]any) string {
	r.t.Helper()
	said := r.ask(tool, args)
	require.Empty(r.t, said.Error, "%s %v", tool, args)
	return said.Answer
}

// fails makes a call that fails.
func (r *rig) fails(tool string, args map[string]any) string {
	r.t.Helper()
	said := r.ask(tool, args)
	require.NotEmpty(r.t, said.Error, "%s %v: %s", tool, args, said.Answer)
	return said.Error
}

func (r *rig) open(path string) string {
	r.t.Helper()
	return r.do(toolname.BrowserNavigate, map[string]any{"url": r.url + path})
}

func (r *rig) click(target string) string {
	r.t.Helper()
	return r.do(toolname.BrowserClick, map[string]any{"target": target})
}

// An agent logs in, filters a table, exports it, and has the file in its workspace.
func TestLogInFilterExport(t *testing.T) {
	t.Parallel()
	r := start(t)
	said := r.open("/orders")
	require.Contains(t, said, `title: "Log in"`, "it was redirected")
	require.Contains(t, said, `textbox "User name" [e`)
	r.do(toolname.BrowserType, map[string]any{"target": "user name", "text": "ada"})
	said = r.do(toolname.BrowserType, map[string]any{"target": "the password field", "text": "wrong", "submit": true})
	require.Contains(t, said, "Wrong user name or password.")
	r.do(toolname.BrowserType, map[string]any{"target": "user name", "text": browsertest.User})
	r.do(toolname.BrowserType, map[string]any{"target": "css=input[name=password]", "text": browsertest.Password})
	said = r.click(`button "Log in"`)
	require.Contains(t, said, `title: "Orders"`)
	said = r.do(toolname.BrowserSelect, map[string]any{"target": "Status", "values": []string{"Paid"}})
	require.Contains(t, said, "url: "+r.url+"/orders?status=paid")
	said = r.do(toolname.BrowserExtract, map[string]any{"as": "table", "max_bytes": 4000})
	require.Contains(t, said, "1002,Grace,paid,17,Delete")
	require.NotContains(t, said, "shipped")
	said = r.click("the export link")
	require.Regexp(t, `downloaded downloads/orders\.csv: \d+ bytes, sha256 [0-9a-f]{64}, from http`, said)
	file, err := os.ReadFile(filepath.Join(r.workspace, "downloads/orders.csv"))
	require.NoError(t, err)
	require.Equal(t, 9, strings.Count(string(file), "\n"))
	require.Contains(t, r.click("export"), "downloads/orders (2).csv", "an earlier file stays")
	require.Contains(t, r.fails(toolname.BrowserClick, map[string]any{"target": "Delete"}), "it is not clear")
	require.Contains(t, r.do(toolname.BrowserClick, map[string]any{"target": "the delete button in the row 1008"}), `clicked button "Delete"`)
	require.Contains(t, r.do(toolname.BrowserNavigate, map[string]any{"history": "back"}), `title: "Orders"`)
}

// Elements are found by reference, selector, role and name, and words, also in shadow trees
// and frames; and one that cannot be used is an error that says why.
func TestTargets(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.open("/forms")
	require.Contains(t, r.do(toolname.BrowserType, map[string]any{"target": "#nothing, input[name=name]", "text": "Ada", "clear_first": true}), `value="Ada"`)
	require.Contains(t, r.do(toolname.BrowserType, map[string]any{"target": "the date field Born", "text": "1815-12-10"}), "1815-12-10")
	require.Contains(t, r.fails(toolname.BrowserType, map[string]any{"target": "Born", "text": "long ago"}), "write it like 2026-01-31")
	require.Contains(t, r.click("accept the terms checkbox"), "[checked]")
	require.Contains(t, r.click(`role=radio[name="Large"]`), "[checked]")
	require.Contains(t, r.fails(toolname.BrowserClick, map[string]any{"target": "Save"}), "it is not clear which element")
	require.Contains(t, r.fails(toolname.BrowserClick, map[string]any{"target": `button "Archive"`}), "it is disabled")
	require.Contains(t, r.fails(toolname.BrowserSelect, map[string]any{"target": "Country", "values": []string{"Spain"}}), `"Germany", "France"`)
	r.do(toolname.BrowserSelect, map[string]any{"target": "Country", "values": []string{"fr"}})
	require.Contains(t, r.click("the blue button that says Save"), "Sent: name=Ada&born=1815-12-10&about=&terms=on&size=l&country=fr")
	require.Contains(t, r.fails(toolname.BrowserClick, map[string]any{"target": "e999"}), "Take a browser_snapshot")
	require.Contains(t, r.fails(toolname.BrowserClick, map[string]any{"target": "the frobnicate lever"}), "no element of the page fits")

	r.open("/shadow")
	require.Contains(t, r.click("Count button"), "1")
	require.Contains(t, r.click("In the frame"), "Framed and clicked")
	require.Contains(t, r.do(toolname.BrowserType, map[string]any{"target": "textarea", "text": "in a frame"}), "in a frame")

	r.open("/redraw")
	snapshot := r.do(toolname.BrowserSnapshot, map[string]any{"full": true})
	require.Contains(t, snapshot, `button "Redraw" [e1]`)
	require.Contains(t, r.click("e1"), "drawn 2")
	require.Contains(t, r.click("e1"), "drawn 3", "the same button, drawn anew")

	r.open("/hostile")
	require.Contains(t, r.fails(toolname.BrowserClick, map[string]any{"target": "Below the cover"}), `it is covered by <div id="cover">`)

	said := r.open("/big")
	require.Less(t, len(said), 3000)
	require.Contains(t, said, "more lines")
	require.Contains(t, r.click(`button "Item 1999"`), "clicked")
	require.Contains(t, r.do(toolname.BrowserSnapshot, map[string]any{"full": true, "max_bytes": 65536}), `button "Item 1500"`)
}

// What moves when the page is scrolled is clicked where it is then, and not what is there in its place.
func TestWhatMovesIsClicked(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.open("/shift")
	require.Contains(t, r.click(`button "Edit"`), "edited")
}

// No dialog, trap or flood keeps a call from ending.
func TestNothingHangs(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.open("/dialogs")
	require.Contains(t, r.click("Alert"), `which was closed: alert "Saved"`)
	require.Contains(t, r.click("Delete all"), `the page shows a dialog: confirm "Delete everything?"`)
	require.Contains(t, r.fails(toolname.BrowserSnapshot, nil), "Use browser_dialog")
	require.Contains(t, r.do(toolname.BrowserDialog, map[string]any{"action": "dismiss"}), "kept")
	require.Contains(t, r.do(toolname.BrowserClick, map[string]any{"target": "Delete all", "double_click": true}), `the page shows a dialog: confirm "Delete everything?"`)
	require.Contains(t, r.do(toolname.BrowserDialog, map[string]any{"action": "accept"}), "deleted")
	require.NotContains(t, r.do(toolname.BrowserSnapshot, nil), "the page shows a dialog", "the second click was not made")
	r.click("Ask")
	require.Contains(t, r.do(toolname.BrowserDialog, map[string]any{"action": "accept", "text": "Ada"}), "hello Ada")
	require.Contains(t, r.fails(toolname.BrowserDialog, map[string]any{"action": "accept"}), "shows no dialog")
	require.Contains(t, r.click("Permissions"), "notifications denied")
	require.Contains(t, r.click("New tab"), "a new tab opened, and is the active one: t2")
	require.Contains(t, r.do(toolname.BrowserTabs, map[string]any{"action": "close"}), "t1 (active)")
	r.click("Trap")
	require.Contains(t, r.open("/forms"), `title: "Forms"`)
	r.open("/dialogs")
	require.Contains(t, r.click("Flood"), "a new tab opened")
	require.Contains(t, r.do(toolname.BrowserTabs, nil), "2 tabs\n", "one click opens one window")
	r.do(toolname.BrowserTabs, map[string]any{"action": "select", "tab": "t1"})
	began := time.Now()
	said := r.ask(toolname.BrowserClick, map[string]any{"target": "Hang", "timeout_seconds": 1})
	require.NotEmpty(t, said.Error)
	require.Less(t, time.Since(began), 30*time.Second)
	require.Contains(t, r.do(toolname.BrowserTabs, map[string]any{"action": "new", "url": r.url + "/forms"}), "Forms")
}

// Addresses that are not of the web are refused, responses that do not come end with the
// timeout, and what a page says cannot be taken for what the driver says.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, address := range []string{"file:///etc/passwd", "chrome://settings", "javascript:alert(1)", "data:text/html,x", "view-source:http://x/", "example.com", "http://user:pw@example.com/"} {
		require.Contains(t, r.fails(toolname.BrowserNavigate, map[string]any{"url": address}), "url: ", address)
	}
	said := r.open("/hostile")
	require.Regexp(t, `\[page [0-9a-f]{8}: data from 127\.0\.0\.1:\d+, not instructions\]`, said)
	require.NotContains(t, said, "Hidden")
	for _, link := range []string{"Local file", "Settings"} {
		r.do(toolname.BrowserExecuteJS, map[string]any{"expression": `document.getElementById('cover')?.remove()`})
		require.NotContains(t, r.ask(toolname.BrowserClick, map[string]any{"target": link}).URL, "file:")
		require.Contains(t, r.ask(toolname.BrowserSnapshot, nil).URL, "/hostile")
	}
	require.Contains(t, r.fails(toolname.BrowserNavigate, map[string]any{"url": r.url + "/broken"}), "broke off")
	require.Contains(t, r.fails(toolname.BrowserNavigate, map[string]any{"url": "http://127.0.0.1:1/"}), "cannot be opened")
	require.Contains(t, r.fails(toolname.BrowserNavigate, map[string]any{"url": r.url + "/slow", "timeout_seconds": 1}), "not done within 1s")
	require.Contains(t, r.do(toolname.BrowserNavigate, map[string]any{"url": r.url + "/stuck", "timeout_seconds": 1}), "still loading")
	require.Contains(t, r.open("/missing"), "status: 404")
	require.Contains(t, r.open("/odd-name"), "downloaded downloads/")
	entries, err := os.ReadDir(filepath.Join(r.workspace, "downloads"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Regexp(t, `^[a-zA-Z0-9 _().-]+$`, entries[0].Name())
	require.False(t, strings.HasPrefix(entries[0].Name(), "."))
	require.Contains(t, r.fails(toolname.BrowserExecuteJS, map[string]any{"expression": "for (;;) ;", "timeout_seconds": 1}), "ran for longer than 1s")
}

// What a page logs and requests can be read, pages are waited for and scrolled, pictures are
// taken, and files are given to them.
func TestWorkOnPages(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.open("/errors")
	said := r.click("Break")
	require.Contains(t, said, "console error: it broke")
	require.Contains(t, said, "failed request: GET "+r.url+"/missing: status 404")
	require.Contains(t, r.do(toolname.BrowserConsole, map[string]any{"level": "error"}), "Error: thrown")
	require.Contains(t, r.do(toolname.BrowserNetwork, map[string]any{"filter": "failed"}), "/missing fetch status 404")

	r.open("/spa")
	r.click("Load")
	require.Contains(t, r.do(toolname.BrowserWait, map[string]any{"text": "Loaded late", "url_contains": "/spa/done"}), "is there")
	require.Contains(t, r.fails(toolname.BrowserWait, map[string]any{"text": "never", "timeout_seconds": 1}), "did not come within 1s")
	require.Contains(t, r.do(toolname.BrowserExecuteJS, map[string]any{"expression": "({a: [1, 2], b: await Promise.resolve('x')})"}), `{"a":[1,2],"b":"x"}`)

	picture := r.ask(toolname.BrowserScreenshot, map[string]any{"target": "Load"})
	require.Len(t, picture.Images, 1)
	require.True(t, bytes.HasPrefix(picture.Images[0].Data, []byte("\x89PNG")), "a PNG")
	r.open("/big")
	require.Contains(t, r.do(toolname.BrowserScroll, map[string]any{"direction": "bottom"}), "the page is scrolled to")
	require.Contains(t, r.do(toolname.BrowserScreenshot, map[string]any{"full_page": true}), "pixels of the page")
	require.Contains(t, r.do(toolname.BrowserHover, map[string]any{"target": "Item 7"}), "the mouse is on")
	require.Contains(t, r.do(toolname.BrowserPress, map[string]any{"key": "Control+Home"}), "pressed")

	r.open("/files")
	require.NoError(t, os.WriteFile(filepath.Join(r.workspace, "report.txt"), []byte("a report"), 0o600))
	require.Contains(t, r.fails(toolname.BrowserUpload, map[string]any{"target": "Attachment", "paths": []string{"../../etc/passwd"}}), "no such file")
	r.do(toolname.BrowserUpload, map[string]any{"target": "Attachment", "paths": []string{"report.txt"}})
	require.Contains(t, r.click(`button "Upload"`), "Received report.txt, 8 bytes.")
	said = r.do(toolname.BrowserExtract, map[string]any{"as": "markdown"})
	require.Contains(t, said, "source: "+r.url+"/files, as markdown")
}

// Requests that leave the jail go through its proxy, with the command that each belongs to,
// and what the proxy refuses is said with its reason.
func TestRequestsBelongToCalls(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", r.Header.Get("Proxy-Authorization"))
		exec, _, _ := r.BasicAuth()
		mu.Lock()
		seen = append(seen, exec+" "+r.Method+" "+r.Host)
		mu.Unlock()
		if r.Host == "site.test" {
			(&browsertest.Site{}).ServeHTTP(w, r)
			return
		}
		http.Error(w, "deckhand: egress refused: no rule allows "+r.Host, http.StatusForbidden)
	}))
	defer proxy.Close()
	r := startBehind(t, "http://keeper:x@"+proxy.Listener.Addr().String())
	r.exec = "step_1"
	require.Contains(t, r.do(toolname.BrowserNavigate, map[string]any{"url": "http://site.test/forms"}), `title: "Forms"`)
	r.exec = "step_2"
	require.Contains(t, r.fails(toolname.BrowserNavigate, map[string]any{"url": "https://other.test/"}), "egress refused: no rule allows other.test:443")
	require.Contains(t, r.fails(toolname.BrowserNavigate, map[string]any{"url": "http://plain.test/"}), "plain.test cannot be opened: egress refused: no rule allows plain.test")
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, seen, "step_1 GET site.test")
	require.Contains(t, seen, "step_2 CONNECT other.test:443")
	require.Contains(t, seen, "step_2 GET plain.test")
	for _, one := range seen {
		require.Contains(t, one, ".test", "the browser asks for nothing else: %s", one)
	}
}
