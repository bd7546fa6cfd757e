package browser_test

import (
	"bytes"
	"encoding/json"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/browser"
)

// chromium returns the process of the rig's browser.
func (r *rig) chromium() int {
	r.t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(r.t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "--user-data-dir="+r.folder) || strings.Contains(string(data), "--type=") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		require.NoError(r.t, err)
		return pid
	}
	require.Fail(r.t, "no Chromium runs")
	return 0
}

// canary is the password that no result shows.
const canary = "corr3ct&hörse battery"

const remembered = "cart: three apples, draft: dear Ada, cookies: kept=long seen=yes"

// A browser that is killed, and one that is started elsewhere, begin with the session of before:
// tabs, cookies, storages and how far the page was scrolled. A call that acts is not made on a
// page that was loaded again. What is handed over is encrypted.
func TestASessionIsRestored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := browserlink.NewKey()
	end := r.keep(browser.Config{Start: browserlink.Start{Key: key}})
	r.open("/state")
	require.Contains(t, r.click("Remember"), remembered)
	r.do(toolname.BrowserTabs, map[string]any{"action": "new", "url": r.url + "/forms"})
	r.do(toolname.BrowserTabs, map[string]any{"action": "select", "tab": "t1"})
	r.do(toolname.BrowserScroll, map[string]any{"direction": "down", "amount": 1200})

	require.NoError(t, syscall.Kill(r.chromium(), syscall.SIGKILL))
	for r.do(toolname.BrowserTabs, nil) == "" { // the end of it is noticed by a call
	}
	said := r.do(toolname.BrowserExtract, nil)
	require.Contains(t, said, remembered)
	last := r.ask(toolname.BrowserScroll, map[string]any{"direction": "down", "amount": 1})
	require.Contains(t, last.Answer, "is scrolled to 1201 of")

	require.NotContains(t, string(last.Session), "apples")
	encoded, err := key.OpenSession(r.last, last.Session)
	require.NoError(t, err)
	session, err := browserlink.DecodeSession(encoded)
	require.NoError(t, err)
	require.Len(t, session.Tabs, 2)
	require.Equal(t, r.url+"/state", session.Tabs[0].URL)
	require.True(t, session.Tabs[0].Active)
	require.Empty(t, r.ask(toolname.BrowserHover, map[string]any{"target": "Remember"}).Error)

	// Elsewhere: another keeper with a folder of its own.
	end()
	r.keep(browser.Config{Start: browserlink.Start{Key: key, Session: encoded}})
	require.Contains(t, r.fails(toolname.BrowserClick, map[string]any{"target": "Remember"}), "2 of 2 tabs, whose pages were loaded again; the active one is "+r.url+"/state")
	require.Contains(t, r.do(toolname.BrowserExtract, nil), remembered)
	require.Contains(t, r.do(toolname.BrowserTabs, nil), "/forms")
	require.Contains(t, r.do(toolname.BrowserScroll, map[string]any{"direction": "down", "amount": 1}), "is scrolled to 1202 of")
}

// With a key, only calls that the hub signed are made, and each once: commands of the agent
// cannot use its browser.
func TestOnlySignedCallsAreMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := browserlink.NewKey()
	end := r.keep(browser.Config{Start: browserlink.Start{Key: key, Keeper: "keeper_1"}})
	args := json.RawMessage(`{}`)
	minute := time.Now().Add(time.Minute).UnixMilli()
	signed := browser.Request{Tool: toolname.BrowserTabs, Arguments: args, Exec: "step_1", Number: 5, Deadline: minute}
	r.sign(&signed)
	const refused = "the browser is used by the agent's tools only"
	for _, change := range []func(*browser.Request){
		func(c *browser.Request) { c.Signature = nil },
		func(c *browser.Request) { c.Exec = "step_2" },
		func(c *browser.Request) { c.Number = 6 },
		func(c *browser.Request) { c.Deadline++ },
		func(c *browser.Request) { c.Tool = toolname.BrowserConsole },
		func(c *browser.Request) { c.Arguments = json.RawMessage(`{"action":"new"}`) },
		func(c *browser.Request) { c.Secret = []byte("x") },
	} {
		forged := signed
		change(&forged)
		require.Contains(t, r.send(forged).Error, refused)
	}
	require.Empty(t, r.send(signed).Error)
	require.Contains(t, r.send(signed).Error, refused, "it was made")
	// One that was kept from the keeper is not made later.
	late := browser.Request{Tool: toolname.BrowserTabs, Arguments: args, Exec: "step_4", Number: 4, Deadline: minute}
	r.sign(&late)
	require.Contains(t, r.send(late).Error, "the call came after a later one")
	late.Number, late.Deadline = 7, time.Now().Add(-time.Second).UnixMilli()
	r.sign(&late)
	require.Contains(t, r.send(late).Error, "the call came too late")
	kept := browser.Request{Tool: toolname.BrowserTabs, Arguments: args, Exec: "step_8", Number: 8, Deadline: minute}
	r.sign(&kept)

	// Nor is it made by the task's next keeper, which does not know what was made before.
	end()
	r.keep(browser.Config{Start: browserlink.Start{Key: key, Keeper: "keeper_2"}})
	require.Contains(t, r.send(signed).Error, refused)
	require.Contains(t, r.send(kept).Error, refused)
	r.sign(&kept)
	require.Empty(t, r.send(kept).Error)
	require.ErrorContains(t, browser.Serve(t.Context(), browser.Config{Folder: t.TempDir(), IdleSeconds: 1, Signed: true}), "has no key")
}

// office returns a rig whose site is one of a credential.
func office(t *testing.T, start browserlink.Start) (*rig, browserlink.Secret) {
	t.Helper()
	r := newRig(t)
	u, err := url.Parse(r.url)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	start.Key, start.Keeper = browserlink.NewKey(), "keeper_1"
	r.keep(browser.Config{Start: start})
	return r, browserlink.Secret{Credential: "shop", Value: canary, Hosts: []string{"127.0.0.1"}, Ports: []int{port}}
}

// typing has the rig type the credential.
func (r *rig) typing(s browserlink.Secret, target string) browser.Answer {
	r.t.Helper()
	r.secret = &s
	defer func() { r.secret = nil }()
	return r.ask(toolname.BrowserType, map[string]any{"target": target, "credential": "shop"})
}

func (r *rig) script(expression string) browser.Answer {
	r.t.Helper()
	return r.ask(toolname.BrowserExecuteJS, map[string]any{"expression": expression})
}

// What JavaScript of the agent leaves behind reads no password that is typed later: not from a
// listener, the name of the window, or another window. Where one was typed, none runs.
func TestScriptsReadNoCredential(t *testing.T) {
	t.Parallel()
	r, secret := office(t, browserlink.Start{})
	other := strings.Replace(r.url, "127.0.0.1", "localhost", 1)
	secret.Hosts = append(secret.Hosts, "localhost")
	r.open("/echo")
	require.Empty(t, r.script("document.addEventListener('input', (e) => { window.name = e.target.value }); window.made = open('/echo', 'other'); 'ready'").Error)
	const apart = "no password is typed there while this browser lives"
	require.Contains(t, r.typing(secret, "Passphrase").Error, apart, "the window that was opened")
	r.do(toolname.BrowserTabs, map[string]any{"action": "select", "tab": "t1"})
	require.Contains(t, r.typing(secret, "Passphrase").Error, apart)
	r.open("/echo")
	require.Contains(t, r.typing(secret, "Passphrase").Error, apart, "the origin was loaded anew")
	r.do(toolname.BrowserNavigate, map[string]any{"url": other + "/echo"})
	require.Contains(t, r.typing(secret, "Passphrase").Error, "has run in this tab", "another origin")
	r.do(toolname.BrowserTabs, map[string]any{"action": "select", "tab": "t2"})
	r.do(toolname.BrowserNavigate, map[string]any{"url": other + "/echo"})
	require.Contains(t, r.typing(secret, "Passphrase").Error, "has run in this tab, or in one that opened it")

	r.do(toolname.BrowserTabs, map[string]any{"action": "new", "url": other + "/echo"})
	said := r.typing(secret, "Passphrase")
	require.Empty(t, said.Error)
	require.True(t, said.Typed)
	require.Contains(t, r.script("1").Error, "a credential was typed into a page of "+other)
	r.open("/forms")
	require.Contains(t, r.script("1").Error, "a credential was typed into this tab")
	r.do(toolname.BrowserTabs, map[string]any{"action": "new", "url": other + "/forms"})
	require.Contains(t, r.script("1").Error, "a credential was typed into a page of "+other)
	left := r.ask(toolname.BrowserNavigate, map[string]any{"url": r.url + "/forms"})
	encoded, err := r.key.OpenSession(r.last, left.Session)
	require.NoError(t, err)
	require.Empty(t, r.script("1").Error, "another tab, and another origin")
	session, err := browserlink.DecodeSession(encoded)
	require.NoError(t, err)
	require.Equal(t, []string{r.url}, session.Ran)
	require.Equal(t, []string{other}, session.Typed)
}

// A page that moves the focus, and one that changes its field, get no password into what the
// credential is not for.
func TestTheFocusIsNotTrusted(t *testing.T) {
	t.Parallel()
	r, secret := office(t, browserlink.Start{Secrets: []browserlink.Secret{{Credential: "bank", Value: "typed-bef0re"}}})
	r.open("/thief")
	said := r.typing(secret, "Passphrase")
	require.Empty(t, said.Error)
	require.Contains(t, said.Answer, "passphrase 21, stolen 0")
	require.Contains(t, r.do(toolname.BrowserExtract, map[string]any{"selector": "#known"}), "[credential bank]", "of the task's browser before")
	require.NotContains(t, r.do(toolname.BrowserExtract, nil), "typed-bef0re")
}

// A credential is typed into the password fields of its hosts only, and no result shows it: not
// snapshots, results, console, requests, address and title, and pictures.
func TestTypedCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	u, err := url.Parse(r.url)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	r.keep(browser.Config{Start: browserlink.Start{Key: browserlink.NewKey()}})
	r.open("/echo")
	typing := func(target string) browser.Answer {
		return r.ask(toolname.BrowserType, map[string]any{"target": target, "credential": "shop"})
	}
	require.Contains(t, typing("Passphrase").Error, "its value did not come with the call")
	r.secret = &browserlink.Secret{Credential: "shop", Value: canary, Hosts: []string{"shop.example.com"}, Ports: []int{port}}
	require.Contains(t, typing("Passphrase").Error, "credential shop is not for pages of 127.0.0.1")
	r.secret.Hosts, r.secret.Ports = []string{"127.0.0.1"}, nil
	require.Contains(t, typing("Passphrase").Error, "credential shop is not for pages of 127.0.0.1", "another port")
	r.secret.Ports = []int{port}
	require.Contains(t, typing("Plain").Error, "is no password field")

	var all []browser.Answer
	said := typing("Passphrase")
	require.Empty(t, said.Error)
	require.Contains(t, said.Answer, "typed credential shop into textbox \"Passphrase\"")
	require.Contains(t, said.Answer, "You typed [credential shop]")
	all = append(all, said)
	r.secret = nil
	all = append(all, r.ask(toolname.BrowserClick, map[string]any{"target": "Put it into the address"}))
	for tool, args := range map[string]map[string]any{
		toolname.BrowserSnapshot: {"full": true}, toolname.BrowserExtract: {}, toolname.BrowserConsole: {}, toolname.BrowserNetwork: {}, toolname.BrowserTabs: {},
		toolname.BrowserWait: {"text": "never", "timeout_seconds": 1},
	} {
		all = append(all, r.ask(tool, args))
	}
	all = append(all, r.ask(toolname.BrowserExtract, map[string]any{"selector": "textarea, #shown"}))
	js := r.ask(toolname.BrowserExecuteJS, map[string]any{"expression": "document.querySelector('input').value.split('').join(' ')"})
	require.Contains(t, js.Error, "a credential was typed into a page of ")
	shot := r.ask(toolname.BrowserScreenshot, nil)
	require.Len(t, shot.Images, 1)
	picture, err := png.Decode(bytes.NewReader(shot.Images[0].Data))
	require.NoError(t, err)
	shot.Images = nil
	all = append(all, js, shot)
	for _, one := range all {
		text, err := json.Marshal(one)
		require.NoError(t, err)
		for _, form := range []string{canary, url.QueryEscape(canary), url.PathEscape(canary), "corr3ct", "battery"} {
			require.NotContains(t, string(text), form)
		}
	}
	// The line that shows it has no dark text any more.
	dark := 0
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if red, _, _, _ := picture.At(x, y).RGBA(); red < 0x3000 && y > 110 && y < 160 && x < 400 {
				dark++
			}
		}
	}
	require.Zero(t, dark)
	// The page itself is as it was.
	require.NotContains(t, r.do(toolname.BrowserExtract, map[string]any{"selector": "[data-deckhand-hidden]"}), "1 elements")
}
