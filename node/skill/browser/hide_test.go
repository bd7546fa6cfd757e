package browser_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"image"
	_ "image/png"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/skill/browser"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// magenta counts the points of a picture that are magenta: the fields of the page /vault show on it
// what is typed.
func magenta(t *testing.T, picture []byte) (n int) {
	t.Helper()
	decoded, _, err := image.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	for y := range decoded.Bounds().Dy() {
		for x := range decoded.Bounds().Dx() {
			if red, green, blue, _ := decoded.At(x, y).RGBA(); red > 0xc000 && green < 0x6000 && blue > 0xc000 {
				n++
			}
		}
	}
	return n
}

// vault are the fields of the page /vault: in a closed shadow tree, and in a frame of the same and of
// another origin.
var vault = []string{"Inner passphrase", "Near passphrase", "Far passphrase"}

// shows returns all that the rig's calls say and show of the page, and how much of it is magenta.
func (r *rig) shows() (text string, shown int) {
	r.t.Helper()
	for tool, args := range map[string]map[string]any{
		toolname.BrowserSnapshot: {"full": true}, toolname.BrowserExtract: {}, toolname.BrowserConsole: {}, toolname.BrowserNetwork: {}, toolname.BrowserTabs: {},
		toolname.BrowserScreenshot: {"full_page": true},
	} {
		said := r.ask(tool, args)
		require.Empty(r.t, said.Error)
		for _, one := range said.Images {
			shown += magenta(r.t.(*testing.T), one.Data)
		}
		said.Images = nil
		data, err := json.Marshal(said)
		require.NoError(r.t, err)
		text += string(data)
	}
	return text, shown
}

// What an agent types of a credential into fields in closed shadow trees and in frames of the same and
// of another origin is in no result and in no picture.
func TestHiddenCredentials(t *testing.T) {
	t.Parallel()
	for _, field := range vault {
		t.Run(strings.Fields(field)[0], func(t *testing.T) { // a long path would be too long for Chromium's socket
			t.Parallel()
			r, secret := office(t, browserlink.Start{})
			secret.Hosts = append(secret.Hosts, "localhost")
			r.open("/vault")
			r.do(toolname.BrowserType, map[string]any{"target": field, "text": "not secret at all"})
			_, shown := r.shows()
			require.Positive(t, shown, "what is no secret is shown")
			r.open("/vault")
			said := r.typing(secret, field)
			require.Empty(t, said.Error)
			for _, one := range said.Images {
				require.Zero(t, magenta(t, one.Data))
			}
			text, shown := r.shows()
			require.NotContains(t, text+said.Answer, canary)
			require.NotContains(t, text+said.Answer, "corr3ct")
			require.Zero(t, shown)
			// The next action has a picture, too.
			said = r.ask(toolname.BrowserClick, map[string]any{"target": field})
			require.Empty(t, said.Error)
			for _, one := range said.Images {
				require.Zero(t, magenta(t, one.Data))
			}
		})
	}
}

// What a person types into such fields is hidden once they give the browser back, also if it is too
// short to be looked for; the recording has nothing of it at any time, says so, and goes on once they
// have given it back.
func TestHiddenInput(t *testing.T) {
	t.Parallel()
	for i, field := range append(slices.Clone(vault), "Plain code", "Inner code", "Near code", "Far code") {
		typed, path := "pers0nal", "/vault"
		if strings.HasSuffix(field, "code") {
			typed, path = "942", "/codes"
		}
		t.Run(strconv.Itoa(i), func(t *testing.T) { // a long path would be too long for Chromium's socket
			t.Parallel()
			r := newRig(t)
			tape := &tape{}
			end := r.keep(browser.Config{Start: browserlink.Start{Key: browserlink.NewKey()}, Record: true, Recording: tape})
			r.open(path)
			var pictures []report.Image
			for len(pictures) == 0 { // on a busy machine, an action is made without one
				said := r.ask(toolname.BrowserClick, map[string]any{"target": field})
				require.Empty(t, said.Error)
				pictures = said.Images
			}
			mark := pictures[0].Mark
			v := r.watch("watch_1", true)
			v.framed()
			v.say(browserlink.Said{Take: "ada"})
			v.until(func(s browserlink.Shown) bool { return s.Taken })
			v.clicks(mark)
			for _, one := range typed {
				did := v.does(browserlink.Input{Key: string(one)})
				require.Empty(t, did.Problem)
				require.True(t, did.Hidden)
			}
			tape.until(t, func(frames []frame) bool {
				return frames[len(frames)-1].Problem == "not recorded, because a person types a secret"
			})
			v.say(browserlink.Said{Give: true})
			v.until(func(s browserlink.Shown) bool { return s.Given })
			tape.until(t, func(frames []frame) bool { return len(frames[len(frames)-1].picture) > 0 })
			text, shown := r.shows()
			if path == "/vault" { // the other pages show the field only
				require.NotContains(t, text, typed)
			}
			require.Zero(t, shown)
			said := r.ask(toolname.BrowserClick, map[string]any{"target": "css=h1"})
			require.Empty(t, said.Error)
			for _, one := range said.Images {
				require.Zero(t, magenta(t, one.Data))
			}
			r.open("/forms")
			tape.until(t, func(frames []frame) bool { return strings.HasSuffix(frames[len(frames)-1].URL, "/forms") })
			end()
			n := 0
			for _, one := range tape.frames(t) {
				if len(one.picture) > 0 {
					n++
					require.Zero(t, magenta(t, one.picture))
				}
			}
			require.Positive(t, n)
			if path == "/vault" {
				require.NotContains(t, tape.String(), typed)
			}
		})
	}
}

// frame is one of a recording.
type frame struct {
	browserlink.Frame

	picture []byte
}

// tape is what a browser records to.
type tape struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// Write implements io.Writer.
func (t *tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.data.Write(p)
}

// String returns all that was recorded.
func (t *tape) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.data.String()
}

// frames returns those that are there whole.
func (t *tape) frames(tt *testing.T) (out []frame) {
	tt.Helper()
	in := bufio.NewReader(strings.NewReader(t.String()))
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(tt, err)
		var shown browserlink.Shown
		require.NoError(tt, json.Unmarshal(line, &shown))
		one := frame{*shown.Frame, make([]byte, shown.Frame.Bytes)}
		if _, err := io.ReadFull(in, one.picture); err != nil {
			return out
		}
		out = append(out, one)
	}
}

func (t *tape) until(tt *testing.T, holds func(frames []frame) bool) {
	tt.Helper()
	waittest.Until(tt, 30*time.Second, "the recording", func() bool {
		frames := t.frames(tt)
		return len(frames) > 0 && holds(frames)
	})
}

// A recording has what the page showed, with the time, from the first page to the last; a browser that
// is not recorded writes nothing.
func TestASessionIsRecorded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	recorded, nothing := &tape{}, &tape{}
	end := r.keep(browser.Config{Record: true, Recording: recorded})
	began := time.Now()
	r.open("/forms")
	recorded.until(t, func(frames []frame) bool { return frames[len(frames)-1].Title == "Forms" })
	before := recorded.frames(t)
	r.do(toolname.BrowserType, map[string]any{"target": "About", "text": strings.Repeat("what is typed is seen ", 5)})
	recorded.until(t, func(frames []frame) bool { return len(frames) > len(before) && len(frames[len(frames)-1].picture) > 0 })
	r.click("Small")
	r.open("/dialogs")
	r.click("Delete all")
	recorded.until(t, func(frames []frame) bool { return frames[len(frames)-1].Dialog == "confirm" })
	end()
	last, pictures := int64(0), 0
	for _, one := range recorded.frames(t) {
		require.GreaterOrEqual(t, one.At, last)
		require.WithinDuration(t, time.UnixMilli(one.At), began, 2*time.Minute)
		if last = one.At; len(one.picture) > 0 {
			pictures++
			size, kind, err := image.DecodeConfig(bytes.NewReader(one.picture))
			require.NoError(t, err)
			require.Equal(t, "jpeg", kind)
			require.Equal(t, []int{one.Width, one.Height}, []int{size.Width, size.Height})
		}
	}
	require.GreaterOrEqual(t, pictures, 3)

	r = newRig(t)
	end = r.keep(browser.Config{Recording: nothing})
	r.open("/forms")
	end()
	require.Empty(t, nothing.String())
}
