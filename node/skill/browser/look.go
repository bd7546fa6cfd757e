package browser

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

func doLook(c *call) error {
	var below *element
	if c.args.Target != "" {
		e, err := c.target(forLook)
		if err != nil {
			return err
		}
		below = &e
	}
	lines, err := c.snapshot(c.ctx, below)
	if err != nil {
		return err
	}
	c.b.mu.Lock()
	old := c.t.shown
	if below == nil {
		c.t.shown = lines
	}
	at, title := c.t.url, c.t.title
	chooser := c.t.chooser
	c.b.mu.Unlock()
	c.say("url: %s", clean(at, 500))
	c.say("title: %q", title)
	if chooser != 0 {
		c.say("the page asks for files: use %s", toolname.BrowserUpload)
	}
	if below == nil && !c.args.Full && old != nil {
		if changed, ok := diff(old, lines); ok && len(changed)*2 < len(lines) {
			if len(changed) == 0 {
				c.say("the page has not changed since the last snapshot; set full for all of it")
				return nil
			}
			c.say("what has changed since the last snapshot; set full for all of the page")
			lines = changed
		}
	}
	text, left := fit(lines, c.limit(snapshotBytes))
	c.content = text
	if left > 0 {
		c.say("%d more lines: set max_bytes up to %d, or a target to see what is in it", left, mostBytes)
	}
	return nil
}

func doExtract(c *call) error {
	most := c.limit(changesBytes)
	as := cmp.Or(c.args.As, "text")
	var raw json.RawMessage
	var err error
	switch {
	case c.args.Selector != "" && c.args.Target != "":
		return errors.New("give either selector or target")
	case c.args.Selector != "":
		raw, err = c.in(c.ctx, fmt.Sprintf("(%s)(%s, %d)", manyScript, quote(c.args.Selector), most+1))
		if err != nil {
			return fmt.Errorf("selector: %w", err)
		}
		var found struct {
			Count int
			Text  string
		}
		if err := json.Unmarshal(raw, &found); err != nil {
			return err
		}
		c.say("%d elements match %s", found.Count, report.Clean([]byte(c.args.Selector), 200))
		raw, _ = json.Marshal(found.Text) //nolint:errchkjson // a string
	case c.args.Target != "":
		e, terr := c.target(forLook)
		if terr != nil {
			return terr
		}
		c.say("from %s", c.named(e))
		raw, err = c.on(c.ctx, e, "function(as, most) { return ("+extractScript+")(this.nodeType === 1 ? this : this.parentElement, as, most) }", as, most+1)
	default:
		raw, err = c.in(c.ctx, fmt.Sprintf("(%s)(document.body ?? document.documentElement, %s, %d)", extractScript, quote(as), most+1))
	}
	if err != nil {
		return err
	}
	text := unmarshalString(raw)
	c.b.mu.Lock()
	at := c.t.url
	c.b.mu.Unlock()
	c.say("source: %s, as %s", clean(at, 500), as)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
		c.say("there is more: set max_bytes up to %d, or a target or selector for a part", mostBytes)
	}
	if c.content = cleanLines(text); c.content == "" {
		c.say("(nothing)")
	}
	return nil
}

// cleanLines returns text without control characters.
func cleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = report.Clean([]byte(lines[i]), len(lines[i])+8)
	}
	return strings.Join(lines, "\n")
}

// Limits of pictures.
const (
	maxPicture = 1900 << 10
	maxTall    = 8000
)

func doScreenshot(c *call) error {
	params := map[string]any{"format": "png", "optimizeForSpeed": true}
	what := "the page as it is shown"
	switch {
	case c.args.Target != "":
		e, err := c.target(forLook)
		if err != nil {
			return err
		}
		clip, err := c.boxOf(e)
		if err != nil {
			return err
		}
		params["clip"], params["captureBeyondViewport"] = clip, true
		what = c.named(e)
	case c.args.FullPage:
		var size struct {
			Content struct{ Width, Height float64 } `json:"cssContentSize"`
		}
		if err := c.act(c.ctx, "Page.getLayoutMetrics", nil, &size); err != nil {
			return err
		}
		height := min(size.Content.Height, maxTall)
		params["clip"], params["captureBeyondViewport"] = map[string]any{"x": 0, "y": 0, "width": min(size.Content.Width, 4000), "height": height, "scale": 1}, true
		what = "the whole page"
		if height < size.Content.Height {
			what = fmt.Sprintf("the first %g of %g pixels of the page", height, size.Content.Height)
		}
	}
	show, err := hideSecrets(c.ctx, &c.page)
	if err != nil {
		return err
	}
	defer show()
	for _, quality := range []int{0, 80, 50, 20} {
		if quality > 0 {
			params["format"], params["quality"] = "jpeg", quality
		}
		var shot struct{ Data string }
		if err := c.act(c.ctx, "Page.captureScreenshot", params, &shot); err != nil {
			return err
		}
		data, err := base64.StdEncoding.DecodeString(shot.Data)
		if err != nil {
			return err
		}
		if len(data) <= maxPicture {
			c.images = append(c.images, report.NewImage(fmt.Sprint("image/", params["format"]), data))
			c.b.mu.Lock()
			at := c.t.url
			c.b.mu.Unlock()
			c.say("a picture of %s at %s", what, clean(at, 300))
			return nil
		}
	}
	return errors.New("the picture is too large: take one of a target")
}

// boxOf returns where an element is on the page.
func (c *call) boxOf(e element) (map[string]any, error) {
	raw, err := c.on(c.ctx, e, `function() { const r = (this.nodeType === 1 ? this : this.parentElement).getBoundingClientRect(); return {x: r.x + scrollX, y: r.y + scrollY, w: r.width, h: r.height} }`)
	if err != nil {
		return nil, err
	}
	var at struct{ X, Y, W, H float64 }
	if err := json.Unmarshal(raw, &at); err != nil {
		return nil, err
	}
	if at.W < 1 || at.H < 1 {
		return nil, fmt.Errorf("%s is not shown: it has no size", c.named(e))
	}
	return map[string]any{"x": max(0, at.X), "y": max(0, at.Y), "width": min(at.W, 4000), "height": min(at.H, maxTall), "scale": 1}, nil
}

// closeWait is how long a tab may take to close before its loading is stopped.
const closeWait = 3 * time.Second

// closeTab closes a tab. One that loads itself again and again closes only once that is stopped.
func (c *call) closeTab(t *tab) error {
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithTimeout(c.ctx, closeWait)
		go c.b.later("", "Target.closeTarget", map[string]any{"targetId": t.target})
		err := c.b.until(ctx, "the tab to close", func() bool { return !slices.Contains(c.b.tabs, t) || t.dialog != nil })
		cancel()
		if err == nil || errors.Is(err, errEnded) || c.ctx.Err() != nil || attempt == 3 {
			return err
		}
		c.b.later(t.session, "Page.stopLoading", nil)
	}
}

func doListTabs(c *call) error {
	action := cmp.Or(c.args.Action, "list")
	number, _ := strconv.Atoi(strings.TrimPrefix(c.args.Tab, "t"))
	c.b.mu.Lock()
	var at *tab
	for _, t := range c.b.tabs {
		if t.number == number || c.args.Tab == "" && t == c.t {
			at = t
		}
	}
	c.b.mu.Unlock()
	if at == nil && action != "list" && action != "new" {
		return fmt.Errorf("tab: there is no %q; list them without an action", c.args.Tab)
	}
	switch action {
	case "list":
	case "new":
		address := cmp.Or(c.args.URL, "about:blank")
		if _, err := checkURL(address); err != nil {
			return err
		}
		c.b.mu.Lock()
		full := len(c.b.tabs) >= maxTabs
		c.b.mu.Unlock()
		if full {
			return fmt.Errorf("action: %d tabs are open, which is the most: close one with the action close and its tab, such as t2", maxTabs)
		}
		var made struct{ TargetID string }
		if err := c.b.proc.conn.call(c.ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &made); err != nil {
			return err
		}
		if err := c.b.until(c.ctx, "the tab", func() bool {
			for _, t := range c.b.tabs {
				if t.target == made.TargetID && t.ready {
					c.b.active, c.t = t, t
					return true
				}
			}
			return false
		}); err != nil {
			return err
		}
		if address != "about:blank" {
			c.was = c.state()
			if err := c.open(address); err != nil && !errors.Is(err, errDialog) {
				return err
			}
			if _, err := c.settle(c.ctx, c.began, c.timeout()); err != nil {
				return err
			}
			if err := c.readTitle(); err != nil {
				return err
			}
		}
	case "select":
		c.b.mu.Lock()
		c.b.active, c.t = at, at
		c.b.mu.Unlock()
		go c.b.later(at.session, "Page.bringToFront", nil)
	case "close":
		if err := c.closeTab(at); err != nil {
			return err
		}
	default:
		return errors.New("action: use list, new, select or close")
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	var lines []string
	for _, t := range c.b.tabs {
		mark := ""
		if t == c.b.active {
			mark = " (active)"
		}
		if t.dialog != nil {
			mark += " (shows a dialog)"
		}
		lines = append(lines, fmt.Sprintf("%s%s %s %q", t.name(), mark, clean(t.url, 200), t.title))
	}
	c.say("%d tabs", len(lines))
	c.content, _ = fit(lines, c.limit(changesBytes))
	return nil
}

func doListConsole(c *call) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	var lines []string
	for i := len(c.t.console) - 1; i >= 0; i-- {
		e := c.t.console[i]
		if c.args.Level != "" && e.level != c.args.Level && !(c.args.Level == "warning" && e.level == "error") {
			continue
		}
		if c.args.Filter != "" && !strings.Contains(strings.ToLower(e.text), strings.ToLower(c.args.Filter)) {
			continue
		}
		line := fmt.Sprintf("%s %s: %s", e.at.UTC().Format("15:04:05"), e.level, e.text)
		if e.from != "" {
			line += " (" + e.from + ")"
		}
		lines = append(lines, line)
	}
	return c.list(lines, "messages on the console, the newest first")
}

func doListNetwork(c *call) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	var lines []string
	for i := len(c.t.requests) - 1; i >= 0; i-- {
		r := c.t.requests[i]
		failed := r.failed != "" || r.status >= 400
		if c.args.Filter == "failed" && !failed || c.args.Filter != "" && c.args.Filter != "failed" && !strings.Contains(r.url, c.args.Filter) {
			continue
		}
		line := fmt.Sprintf("%s %s %s ", r.method, r.url, strings.ToLower(r.kind))
		switch {
		case r.open():
			line += "in progress"
		default:
			line += fmt.Sprintf("%s, %d ms, %d bytes", r.outcome(), r.ended.Sub(r.began).Milliseconds(), r.bytes)
		}
		lines = append(lines, line)
	}
	return c.list(lines, "requests of the page, the newest first")
}

func (c *call) list(lines []string, what string) error {
	c.say("%d %s", len(lines), what)
	var left int
	if c.content, left = fit(lines, c.limit(changesBytes)); left > 0 {
		c.say("%d more: set a filter, or max_bytes up to %d", left, mostBytes)
	}
	return nil
}
