package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/skill/browser"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	"github.com/deckhand-sh/deckhand/worker/tokencount"
)

// browserStart measures the first navigation of a task in a warm jail, from the start of the
// browser's keeper to the result with the page, against starting the same Chromium by hand in the
// same jail to print the same page.
func browserStart(ctx context.Context) (_ result, err error) {
	dir, err := os.MkdirTemp("/opt", "deckhand-bench-") // no jail is shown what is below /tmp
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, os.RemoveAll(dir)) }()
	m, err := newMachineWith(ctx, func(c *jail.Config) { c.ShowPaths = []string{dir} })
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the jail's user runs what is in it
		return nil, err
	}
	site := filepath.Join(dir, "site")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", site, "./node/skill/browser/testdata/site").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the site: %w: %s", err, out)
	}
	id := ident.New("jail")
	if _, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: id, Rootfs: nodelink.RootHost, WorkspaceBytes: 1 << 30, ReadOnlyPaths: []string{dir}}); err != nil {
		return nil, err
	}
	if _, err := m.exec.StartExec(ctx, &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
		ExecId: ident.New("step"), JailId: id, Argv: []string{site, "8080"}, Timeout: durationpb.New(time.Hour),
	}}); err != nil {
		return nil, err
	}
	const address = "http://localhost:8080/forms"
	if _, err := m.run(ctx, id, "/bin/bash", "-c", "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"); err != nil {
		return nil, err
	}
	request, err := json.Marshal(browser.Request{Tool: toolname.BrowserNavigate, Arguments: json.RawMessage(`{"url":"` + address + `"}`)}) //nolint:gosec // it has no secret
	if err != nil {
		return nil, err
	}
	const n = 10
	folders := 0
	var keeper string
	ours := func() error {
		folders++
		folder := fmt.Sprintf("/tmp/.browser-%d", folders)
		cfg, err := json.Marshal(browser.Config{Folder: folder, IdleSeconds: 600})
		if err != nil {
			return err
		}
		keeper = ident.New("step")
		if _, err := m.exec.StartExec(ctx, &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
			ExecId: keeper, JailId: id, User: "1001", Dir: "/tmp", Argv: []string{nodelink.SkillPath, "browser", "serve", string(cfg)}, Timeout: durationpb.New(time.Hour),
		}}); err != nil {
			return err
		}
		_, err = m.runSpec(ctx, &nodev1.ExecSpec{
			ExecId: ident.New("step"), JailId: id, Argv: []string{nodelink.SkillPath, "browser", "ask", folder}, Stdin: request, Timeout: durationpb.New(10 * time.Minute),
		})
		return err
	}
	// end ends the browser of ours, which would slow the next one down.
	end := func() error {
		if keeper == "" {
			return nil
		}
		if _, err := m.exec.SignalExec(ctx, &nodev1.SignalExecRequest{ExecId: keeper, Signal: 9, Tree: true}); err != nil {
			return err
		}
		_, err := m.exec.WaitExec(ctx, &nodev1.WaitExecRequest{ExecId: keeper, Timeout: durationpb.New(time.Minute), UntilEnd: true})
		keeper = ""
		return err
	}
	byHand := func() error {
		_, err := m.run(ctx, id, "/bin/bash", "-c", `/usr/lib/chromium/chromium --headless=new --no-sandbox --no-zygote --disable-breakpad --disable-crash-reporter --disable-dev-shm-usage --disable-gpu --user-data-dir=$(mktemp -d) --dump-dom `+address+` | grep -q "<h1>Forms"`)
		return err
	}
	a, b, err := pair(n, ours, byHand, end)
	if err != nil {
		return nil, err
	}
	return compared("ms", percentile(a, 50), percentile(b, 50), "chromium --dump-dom", n), nil
}

// browserRig is a browser that is kept outside of a jail, as playwright-core's is, and a page.
type browserRig struct {
	dir, skill, folder string
	keeper             *exec.Cmd
	site               *httptest.Server
}

func newBrowserRig(ctx context.Context, page http.Handler) (_ *browserRig, err error) {
	r := &browserRig{site: httptest.NewServer(page)}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "deckhand-bench-"); err != nil {
		return nil, err
	}
	if r.skill, err = skillProgram(ctx, r.dir); err != nil {
		return nil, err
	}
	r.folder = filepath.Join(r.dir, "browser")
	cfg, err := json.Marshal(browser.Config{Folder: r.folder, IdleSeconds: 600})
	if err != nil {
		return nil, err
	}
	r.keeper = exec.CommandContext(ctx, r.skill, "browser", "serve", string(cfg))
	r.keeper.Stderr = os.Stderr
	if err := r.keeper.Start(); err != nil {
		return nil, err
	}
	_, err = r.ask(ctx, toolname.BrowserNavigate, map[string]any{"url": r.site.URL})
	return r, err
}

func (r *browserRig) close() {
	if r.keeper != nil {
		_ = r.keeper.Process.Signal(os.Interrupt)
		_ = r.keeper.Wait()
	}
	r.site.Close()
	_ = os.RemoveAll(r.dir)
}

// ask makes a call as the node does: with a program for each.
func (r *browserRig) ask(ctx context.Context, tool string, args map[string]any) (browser.Answer, error) {
	var said browser.Answer
	arguments, err := json.Marshal(args)
	if err != nil {
		return said, err
	}
	request, err := json.Marshal(browser.Request{Tool: tool, Arguments: arguments}) //nolint:gosec // it has no secret
	if err != nil {
		return said, err
	}
	cmd := exec.CommandContext(ctx, r.skill, "browser", "ask", r.folder)
	cmd.Dir, cmd.Stdin = r.dir, bytes.NewReader(request)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err == nil && said.Error != "" {
		err = errors.New(said.Error)
	}
	return said, err
}

// browserPeer is playwright-core with the same page; see ui/e2e/browserpeer.mjs.
type browserPeer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (r *browserRig) peer(ctx context.Context, button string) (*browserPeer, error) {
	p := &browserPeer{cmd: exec.CommandContext(ctx, "node", "e2e/browserpeer.mjs", r.site.URL, button)}
	p.cmd.Dir, p.cmd.Stderr = "ui", os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("scripts/build-ui --modules installs playwright-core: %w", err)
	}
	_, err = p.out.ReadString('\n')
	return p, err
}

func (p *browserPeer) do(what string) (string, error) {
	if _, err := io.WriteString(p.in, what+"\n"); err != nil {
		return "", err
	}
	return p.out.ReadString('\n')
}

func (p *browserPeer) close() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// formPage is a page of usual size, whose button changes something.
func formPage() string {
	var rows strings.Builder
	for i := range 20 {
		fmt.Fprintf(&rows, "<tr><td>%d<td>Customer %d<td><button>Edit</button></tr>", i, i)
	}
	return `<!doctype html><html lang=en><title>Bench</title><h1>Bench</h1><form onsubmit="return false"><label>Name <input></label><label>Mail <input></label></form>
		<table>` + rows.String() + `</table><button onclick="out.textContent = 'count ' + ++n">Count</button><p id=out role=status></p><script>let n = 0</script>`
}

// browserAction measures a click with the observation of what it changed, by the program that a
// node runs for each call, against the same by playwright-core outside of any jail.
func browserAction(ctx context.Context) (_ result, err error) {
	r, err := newBrowserRig(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, formPage())
	}))
	if err != nil {
		return nil, err
	}
	defer r.close()
	p, err := r.peer(ctx, "Count")
	if err != nil {
		return nil, err
	}
	defer p.close()
	const n = 100
	clicks := 0
	a, b, err := pair(n, func() error {
		clicks++
		said, err := r.ask(ctx, toolname.BrowserClick, map[string]any{"target": `button "Count"`})
		if err == nil && !strings.Contains(said.Answer, fmt.Sprintf("count %d", clicks)) {
			err = fmt.Errorf("the click %d is not observed: %s", clicks, said.Answer)
		}
		return err
	}, func() error { _, err := p.do("click"); return err })
	if err != nil {
		return nil, err
	}
	out := compared("ms", percentile(a, 50), percentile(b, 50), "playwright-core: click and ariaSnapshot", n)
	out["p95"], out["peer_p95"] = percentile(a, 95), percentile(b, 95)
	return out, nil
}

// largePage is a page with 2,000 elements, and the names of those that something can be done with.
func largePage() (page string, names []string) {
	var body strings.Builder
	elements := 3 // html, head and body
	add := func(count int, format string, args ...any) {
		elements += count
		fmt.Fprintf(&body, format, args...)
	}
	named := func(name string) string {
		names = append(names, name)
		return html.EscapeString(name)
	}
	add(3, `<title>Orders</title><h1>Orders</h1><nav aria-label="Sections">`)
	for i := range 20 {
		add(1, `<a href="/section/%d">%s</a>`, i, named(fmt.Sprintf("Section %d", i)))
	}
	add(1, `</nav><form>`)
	for i := range 20 {
		add(2, `<label>%[1]s <input name="f%[2]d"></label>`, named(fmt.Sprintf("Filter %d", i)), i)
	}
	add(2, `</form><table><tbody>`)
	for i := 0; elements+10 <= 2000; i++ {
		add(10, `<tr><td><input type="checkbox" aria-label="%s"><td><a href="/orders/%d">%s</a><td>Customer %d<td>%d.00 EUR<td><button>%s</button></tr>`,
			named(fmt.Sprintf("Select order %d", i)), i, named(fmt.Sprintf("Order %d", i)), i, 10+i, named(fmt.Sprintf("Cancel order %d", i)))
	}
	add(0, `</table>`)
	for elements < 2000 {
		add(1, `<button>%s</button>`, named(fmt.Sprintf("Action %d", elements)))
	}
	return `<!doctype html><html lang="en"><head></head><body>` + body.String(), names
}

// browserSnapshot measures the tokens of the snapshot of a page with 2,000 elements against those
// of the snapshot of Playwright's MCP server. Each element that something can be done with must be
// in ours, with a reference.
func browserSnapshot(ctx context.Context) (_ result, err error) {
	page, names := largePage()
	r, err := newBrowserRig(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, page)
	}))
	if err != nil {
		return nil, err
	}
	defer r.close()
	begin := time.Now()
	said, err := r.ask(ctx, toolname.BrowserSnapshot, map[string]any{"full": true, "max_bytes": 64 << 10})
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	missing := 0
	for _, name := range names {
		if !regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `"[^"\n]*\[e\d+\]`).MatchString(said.Answer) {
			missing++
		}
	}
	if missing > 0 {
		return nil, fmt.Errorf("%d of %d elements are not in the snapshot, which has %d bytes", missing, len(names), len(said.Answer))
	}
	p, err := r.peer(ctx, "")
	if err != nil {
		return nil, err
	}
	defer p.close()
	line, err := p.do("snapshot")
	if err != nil {
		return nil, err
	}
	var theirs string
	if err := json.Unmarshal([]byte(line), &theirs); err != nil {
		return nil, err
	}
	out := compared("tokens", float64(tokensOf(said.Answer)), float64(tokensOf(theirs)), "Playwright MCP's snapshot", 1)
	out["elements"], out["interactive"], out["bytes"], out["peer_bytes"], out["took_ms"] = 2000, len(names), len(said.Answer), len(theirs), took.Milliseconds()
	return out, nil
}

// tokensOf counts the tokens of a text whole: in pieces that are counted, not estimated.
func tokensOf(text string) (n int) {
	var piece strings.Builder
	for line := range strings.Lines(text) {
		if piece.Len()+len(line) > 4<<10 {
			n += tokencount.Count(piece.String())
			piece.Reset()
		}
		piece.WriteString(line)
	}
	return n + tokencount.Count(piece.String())
}
