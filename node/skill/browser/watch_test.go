package browser_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/jpeg"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/browser"
)

// viewer is one who watches the rig's browser.
type viewer struct {
	r     *rig
	in    io.WriteCloser
	out   *bufio.Reader
	ended chan error
	last  browserlink.Frame
	n     int64
}

// watch begins to watch as the program does.
func (r *rig) watch(exec string, sign bool) *viewer {
	r.t.Helper()
	theirs, in := io.Pipe()
	out, shown := io.Pipe()
	v := &viewer{r: r, in: in, out: bufio.NewReader(out), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		err := browser.Watch(ctx, r.folder, theirs, shown)
		_ = shown.CloseWithError(io.EOF)
		v.ended <- err
	}()
	r.t.Cleanup(func() {
		cancel()
		_ = in.Close()
		_ = out.Close()
	})
	call := browser.Request{Tool: browserlink.WatchTool, Exec: exec, Deadline: time.Now().Add(time.Minute).UnixMilli()}
	if sign {
		r.sign(&call)
	}
	v.say(call)
	return v
}

func (v *viewer) say(what any) {
	v.r.t.Helper()
	data, err := json.Marshal(what)
	require.NoError(v.r.t, err)
	_, err = v.in.Write(append(data, '\n'))
	require.NoError(v.r.t, err)
}

// next returns what is shown next, with the picture of a frame.
func (v *viewer) next() (shown browserlink.Shown, picture []byte) {
	v.r.t.Helper()
	line, err := v.out.ReadBytes('\n')
	require.NoError(v.r.t, err)
	require.NoError(v.r.t, json.Unmarshal(line, &shown))
	if shown.Frame != nil {
		v.last = *shown.Frame
		picture = make([]byte, shown.Frame.Bytes)
		_, err = io.ReadFull(v.out, picture)
		require.NoError(v.r.t, err)
	}
	return shown, picture
}

// until returns what is shown once it is what is waited for.
func (v *viewer) until(is func(s browserlink.Shown) bool) (browserlink.Shown, []byte) {
	v.r.t.Helper()
	for {
		if shown, picture := v.next(); is(shown) {
			return shown, picture
		}
	}
}

func (v *viewer) framed() (browserlink.Shown, []byte) {
	v.r.t.Helper()
	return v.until(func(s browserlink.Shown) bool { return s.Frame != nil && s.Frame.Bytes > 0 })
}

// does makes an act and returns what became of it.
func (v *viewer) does(in browserlink.Input) browserlink.Did {
	v.r.t.Helper()
	v.n++
	v.say(browserlink.Said{Number: v.n, Input: &in})
	shown, _ := v.until(func(s browserlink.Shown) bool { return s.Did != nil })
	require.Equal(v.r.t, v.n, shown.Did.Number)
	return *shown.Did
}

func (v *viewer) clicks(mark []int32) browserlink.Did {
	v.r.t.Helper()
	m := browserlink.Mouse{Action: "pressed", X: float64(mark[0] + mark[2]/2), Y: float64(mark[1] + mark[3]/2)}
	did := v.does(browserlink.Input{Mouse: &m})
	m.Action = "released"
	require.Empty(v.r.t, v.does(browserlink.Input{Mouse: &m}).Problem)
	return did
}

// where returns where the element of a selector is in the page: left, top, width and height.
func (r *rig) where(selector string) (box []int32) {
	r.t.Helper()
	said := r.do(toolname.BrowserExecuteJS, map[string]any{
		"expression": fmt.Sprintf("(() => { const r = document.querySelector(%q).getBoundingClientRect(); return 'at ' + JSON.stringify([r.x, r.y, r.width, r.height].map(Math.round)) })()", selector),
	})
	_, text, _ := bytes.Cut([]byte(said), []byte("at "))
	require.NoError(r.t, json.NewDecoder(bytes.NewReader(text)).Decode(&box), said)
	return box
}

// An action has a picture for people of the page before it, with where the element is that it
// was made on. The model gets none.
func TestActionsShowWhatTheyActOn(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.open("/forms")
	for _, one := range []struct {
		tool, selector string
		args           map[string]any
	}{
		{toolname.BrowserType, "input[name=name]", map[string]any{"text": "Ada"}},
		{toolname.BrowserSelect, "select", map[string]any{"values": []string{"France"}}},
		{toolname.BrowserClick, "input[name=terms]", nil},
	} {
		args := map[string]any{"target": "css=" + one.selector}
		for k, v := range one.args {
			args[k] = v
		}
		said := r.ask(one.tool, args)
		require.Empty(t, said.Error)
		require.Len(t, said.Images, 1)
		image := said.Images[0]
		require.True(t, image.ForPeople)
		require.NotContains(t, said.Answer, "picture")
		size, err := jpeg.DecodeConfig(bytes.NewReader(image.Data))
		require.NoError(t, err)
		box := r.where(one.selector)
		require.Len(t, image.Mark, 4)
		for i, at := range image.Mark {
			require.InDelta(t, box[i], at, 8, "%s: %v is not %v", one.selector, image.Mark, box) // a box of content has no border
		}
		require.LessOrEqual(t, int(image.Mark[0]+image.Mark[2]), size.Width)
		require.LessOrEqual(t, int(image.Mark[1]+image.Mark[3]), size.Height)
	}
	require.Empty(t, r.ask(toolname.BrowserWait, map[string]any{}).Images)
}

// A person sees what the browser shows while it works, takes it over, and gives it back; the
// agent's call waits meanwhile, is not made on the page that has changed, and says who did what.
func TestAPersonWatchesAndTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keep(browser.Config{Start: browserlink.Start{Key: browserlink.NewKey()}})
	refused, _ := r.watch("watch_0", false).next()
	require.Contains(t, refused.Frame.Problem, "through the hub only")

	r.open("/forms")
	v := r.watch("watch_1", true)
	shown, picture := v.framed()
	require.Equal(t, r.url+"/forms", shown.Frame.URL)
	size, err := jpeg.DecodeConfig(bytes.NewReader(picture))
	require.NoError(t, err)
	require.Equal(t, []int{shown.Frame.Width, shown.Frame.Height}, []int{size.Width, size.Height}, "a point of the picture is one of the page")
	field := r.ask(toolname.BrowserType, map[string]any{"target": "css=input[name=name]", "text": "x"}).Images[0].Mark
	_, next := v.framed()
	require.NotEqual(t, picture, next, "what the agent does is seen")
	require.Equal(t, "the browser is not taken over", v.does(browserlink.Input{Key: "a"}).Problem)

	again, _ := r.watch("watch_1", true).next()
	require.Contains(t, again.Frame.Problem, "through the hub only", "a request is of use once")

	v.say(browserlink.Said{Take: "ada"})
	v.until(func(s browserlink.Shown) bool { return s.Taken })
	answer := make(chan browser.Answer, 1)
	go func() { answer <- r.ask(toolname.BrowserClick, map[string]any{"target": "accept the terms checkbox"}) }()
	did := v.clicks(field)
	require.True(t, did.Made)
	require.Contains(t, did.On, "<input>")
	require.Equal(t, r.url+"/forms", did.URL)
	for _, key := range []string{"Control+a", "A", "d", "a"} {
		did = v.does(browserlink.Input{Key: key})
		require.Empty(t, did.Problem)
		require.False(t, did.Hidden)
	}
	require.True(t, v.does(browserlink.Input{Text: "Lovelace"}).Made)
	v.say(browserlink.Said{Give: true})
	v.until(func(s browserlink.Shown) bool { return s.Given })
	said := <-answer
	require.Contains(t, said.Error, "ada took over the browser since your last call: 1 click, 12 keys. Nothing was done by this call")
	require.Contains(t, said.Error, `value="AdaLovelace"`)
	require.NotContains(t, said.Error, "[checked]")
	require.Contains(t, r.click("accept the terms checkbox"), "[checked]")

	// What is typed into a field for a password is not said, and kept from JavaScript.
	r.open("/login")
	name := r.ask(toolname.BrowserClick, map[string]any{"target": "css=input[name=password]"}).Images[0].Mark
	v.say(browserlink.Said{Take: "ada"})
	v.until(func(s browserlink.Shown) bool { return s.Taken })
	v.clicks(name)
	for _, in := range []browserlink.Input{{Key: "s"}, {Text: "esame"}} {
		did = v.does(in)
		require.Empty(t, did.Problem)
		require.True(t, did.Hidden)
	}
	// The person disconnects without giving the browser back.
	require.NoError(t, v.in.Close())
	require.NoError(t, <-v.ended)
	require.Contains(t, r.do(toolname.BrowserSnapshot, nil), "note: ada took over the browser since your last call: 1 click, 1 field for a secret filled in")
	require.Contains(t, r.fails(toolname.BrowserExecuteJS, map[string]any{"expression": "1"}), "a credential was typed into")
}

// The view follows into a tab that is opened, by the agent or by the person who has the browser: they
// see it, and then they act in it.
func TestTheViewFollowsIntoANewTab(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keep(browser.Config{Start: browserlink.Start{Key: browserlink.NewKey()}})
	r.open("/dialogs")
	v := r.watch("watch_1", true)
	v.framed()
	shows := func(path string) func(s browserlink.Shown) bool {
		return func(s browserlink.Shown) bool {
			return s.Frame != nil && s.Frame.Bytes > 0 && s.Frame.URL == r.url+path
		}
	}
	require.Contains(t, r.click("New tab"), "a new tab opened, and is the active one")
	v.until(shows("/forms"))
	r.do(toolname.BrowserTabs, map[string]any{"action": "select", "tab": "t1"})
	v.until(shows("/dialogs"))

	button := r.where("button:nth-of-type(6)")
	v.say(browserlink.Said{Take: "ada"})
	v.until(func(s browserlink.Shown) bool { return s.Taken })
	// Until they have had a tab before them for a moment, nothing is done in it.
	once := func(act func() browserlink.Did) browserlink.Did {
		for {
			did := act()
			if did.Problem == "" {
				return did
			}
			require.Contains(t, did.Problem, "another tab is shown now")
			require.False(t, did.Made)
		}
	}
	require.Equal(t, r.url+"/dialogs", once(func() browserlink.Did { return v.clicks(button) }).URL)
	v.until(shows("/forms"))
	require.Equal(t, r.url+"/forms", once(func() browserlink.Did { return v.does(browserlink.Input{Key: "Tab"}) }).URL)
	v.say(browserlink.Said{Give: true})
	v.until(func(s browserlink.Shown) bool { return s.Given })
	require.Contains(t, r.do(toolname.BrowserTabs, nil), "t3 (active) "+r.url+"/forms")
}

// A browser whose state is not kept any more says so with its first call.
func TestALostSessionIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keep(browser.Config{Start: browserlink.Start{Key: browserlink.NewKey(), Lost: true}})
	require.Contains(t, r.fails(toolname.BrowserSnapshot, nil), "is not kept any more")
	require.NotContains(t, r.open("/forms"), "not kept", "it is said once")

	r = newRig(t)
	r.keep(browser.Config{Start: browserlink.Start{Key: browserlink.NewKey(), Lost: true}})
	require.Contains(t, r.open("/forms"), "note: the browser was started anew; the state that it had then is not kept any more")
}

// A ninth is told that there is no room.
func TestOnlySoManyWatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keep(browser.Config{Start: browserlink.Start{Key: browserlink.NewKey()}})
	r.open("/forms")
	for n := range 8 {
		r.watch(fmt.Sprintf("watch_%d", n), true).framed()
	}
	shown, _ := r.watch("watch_8", true).next()
	require.Equal(t, "8 people watch this browser already", shown.Frame.Problem)
}
