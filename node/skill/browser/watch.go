package browser

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/node/skill/keeper"
)

// A person watches the browser, and may take it over. Their hub runs `browser watch` in the
// jail, under the browser's own user, which passes lines both ways. While somebody watches,
// Chromium sends what the page looks like when it changes (a screencast), of which one frame is
// passed on in frameEvery at most.

const (
	// frameEvery bounds the rate of frames, and filmQuality their size.
	frameEvery  = 500 * time.Millisecond
	filmQuality = 50
	// sameEvery is how often at least a page that looks the same is looked at.
	sameEvery = 2 * time.Second
	// maxViewers is how many may watch at once.
	maxViewers = 8
	// watchWait bounds what is asked of the browser for a frame.
	watchWait = 2 * time.Second
)

// Watch passes what one who watches says to the keeper of the browser in a folder, and what it
// shows to stdout, until one of them ends.
func Watch(ctx context.Context, folder string, stdin io.Reader, stdout io.Writer) error {
	conn := keeper.Connect(ctx, filepath.Join(folder, socketName), watchWait)
	if conn == nil {
		return errors.New("no browser is kept")
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, stdin) // its end is the end of the watching
		_ = conn.Close()
	}()
	_, err := io.Copy(stdout, conn)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// viewers are those who watch.
type viewers struct {
	mu sync.Mutex
	// all are told of each new frame; guarded by mu.
	all map[chan struct{}]viewer
	// made are the newest commands that have watched, so that a kept request is of no use: one is
	// made within seconds; guarded by mu.
	made []string
	// shown is the newest frame that has a picture, and said the newest of all; guarded by mu.
	shown, said *pictureFrame
	stop        context.CancelFunc
}

// viewer is what gets frames: a person who watches, or the recorder.
type viewer int

const (
	watcher viewer = iota
	recorder
)

// pictureFrame is a frame with its picture.
type pictureFrame struct {
	browserlink.Frame
	data []byte
	// of is the tab that it shows; nil for none.
	of *tab
	// private reports that it was made while a person had typed a secret that is not kept out of
	// pictures yet.
	private bool
}

// shown are the newest frame that one has been shown, and the newest that had a picture.
type shown struct{ last, seen *pictureFrame }

// next returns the newest frame if it was not shown yet, with its picture unless that was.
func (s *shown) next(v *viewers) (now, picture *pictureFrame) {
	v.mu.Lock()
	now, picture = v.said, v.shown
	v.mu.Unlock()
	if now == nil || now == s.last {
		return nil, nil
	}
	s.last = now
	if picture == s.seen { // maybe that of a frame before
		return now, nil
	}
	s.seen = picture
	return now, picture
}

// watch serves one who watches.
func (k *server) watch(ctx context.Context, s *stream, req Request) {
	if !k.admitViewer(req) {
		_ = s.send(browserlink.Shown{Frame: &browserlink.Frame{Problem: "the browser is watched through the hub only"}})
		return
	}
	fresh, ok := k.join(ctx, watcher)
	if !ok {
		_ = s.send(browserlink.Shown{Frame: &browserlink.Frame{Problem: fmt.Sprintf("%d people watch this browser already", maxViewers)}})
		return
	}
	defer k.leave(fresh)
	ctx, cancel := context.WithCancel(ctx)
	p := &person{k: k}
	answers, heard := make(chan browserlink.Shown), make(chan struct{})
	go func() {
		defer close(heard)
		defer cancel()
		p.hear(ctx, s, answers)
	}()
	defer func() {
		cancel()
		_ = s.conn.Close()
		<-heard
		if p.held {
			p.release()
		}
	}()
	var shown shown
	for {
		select {
		case <-ctx.Done():
			return
		case answer := <-answers:
			if s.send(answer) != nil {
				return
			}
		case <-fresh:
			now, picture := shown.next(&k.viewers)
			if now == nil {
				continue
			}
			if writeFrame(s.conn, now, picture) != nil {
				return
			}
			p.seen.show(now.of, picture.tab())
		}
	}
}

// tab returns the tab that a frame shows; nil for none.
func (f *pictureFrame) tab() *tab {
	if f == nil {
		return nil
	}
	return f.of
}

// writeFrame writes a frame in a line, and the bytes of its picture unless that is nil.
func writeFrame(to io.Writer, now, picture *pictureFrame) error {
	header, data := now.Frame, []byte(nil)
	if picture != nil {
		data = picture.data
	}
	header.Bytes = len(data)
	line, err := json.Marshal(browserlink.Shown{Frame: &header})
	if err == nil {
		_, err = to.Write(append(append(line, '\n'), data...))
	}
	return err
}

// admitViewer reports whether the hub has signed a request to watch, and it is new.
func (k *server) admitViewer(req Request) bool {
	k.viewers.mu.Lock()
	defer k.viewers.mu.Unlock()
	call := browserlink.Call{Keeper: k.keeper, Exec: req.Exec, Number: req.Number, Deadline: req.Deadline, Tool: req.Tool, Arguments: req.Arguments}
	if len(k.key) == 0 || req.Exec == "" || slices.Contains(k.viewers.made, req.Exec) || !k.key.Signed(req.Signature, call) || k.now() > req.Deadline {
		return false
	}
	if len(k.viewers.made) >= maxMade {
		k.viewers.made = k.viewers.made[1:]
	}
	k.viewers.made = append(k.viewers.made, req.Exec)
	return true
}

// join counts one more who watches; with the first, filming begins.
func (k *server) join(ctx context.Context, who viewer) (fresh chan struct{}, ok bool) {
	k.viewers.mu.Lock()
	defer k.viewers.mu.Unlock()
	people := 0
	for _, one := range k.viewers.all {
		if one == watcher {
			people++
		}
	}
	if who == watcher && people >= maxViewers {
		return nil, false
	}
	fresh = make(chan struct{}, 1)
	k.viewers.all[fresh] = who
	fresh <- struct{}{}
	if k.viewers.stop == nil {
		ctx, k.viewers.stop = context.WithCancel(context.WithoutCancel(ctx))
		k.asking.Go(func() { k.takeFrames(ctx) })
	}
	return fresh, true
}

// leave ends filming with the last who watches.
func (k *server) leave(fresh chan struct{}) {
	k.viewers.mu.Lock()
	defer k.viewers.mu.Unlock()
	delete(k.viewers.all, fresh)
	if len(k.viewers.all) == 0 {
		k.viewers.stop()
		k.viewers.stop, k.viewers.shown, k.viewers.said = nil, nil, nil
	}
}

// takeFrames makes frames until nobody watches any more.
func (k *server) takeFrames(ctx context.Context) {
	c := &camera{b: k.browser, now: k.now}
	defer c.turn(context.WithoutCancel(ctx), nil)
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	for {
		if frame := c.frame(ctx); frame != nil {
			k.viewers.mu.Lock()
			if ctx.Err() == nil {
				k.viewers.said = frame
				switch {
				case len(frame.data) > 0:
					k.viewers.shown = frame
				case frame.Problem != "":
					k.viewers.shown = nil
				}
				for one := range k.viewers.all {
					select {
					case one <- struct{}{}:
					default: // it has not seen the one before
					}
				}
			}
			k.viewers.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// screencast is what Chromium has sent of a tab's screencast and nobody has looked at.
type screencast struct {
	data string
	// ids are those of the frames that are not acknowledged: without that, no more come.
	ids []int64
}

// onFilm keeps the newest frame of a tab.
func (t *tab) onFilm(e event) {
	var p struct {
		Data      string
		SessionID int64
	}
	if json.Unmarshal(e.Params, &p) == nil {
		t.cast.data, t.cast.ids = p.Data, append(t.cast.ids, p.SessionID)
	}
}

// camera films the active tab.
type camera struct {
	b   *browser
	now func() int64
	// at is the tab that is filmed, and by which process it is shown.
	at   *tab
	proc *process
	last browserlink.Frame
	// pictured reports that there was a picture since another tab is filmed, and since a person gave
	// the browser back for the released'th time.
	pictured bool
	released int
	private  bool
	// size is that of the newest picture: the page's, in pixels.
	size image.Config
	// sum is that of the newest picture that was taken beside the screencast, when that was, and
	// how many were the same since the last that differed.
	sum   [sha256.Size]byte
	taken time.Time
	same  int
}

// frame returns what the browser shows if that has changed, and nil otherwise.
func (c *camera) frame(ctx context.Context) *pictureFrame {
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	b := c.b
	b.mu.Lock()
	proc, t := b.proc, b.active
	private, released := b.private, b.released
	if released != c.released { // a recording has nothing of what was shown until then
		c.released, c.pictured, c.last = released, false, browserlink.Frame{}
	}
	if private != c.private { // a recording says so, also if nothing is drawn
		c.private, c.last = private, browserlink.Frame{}
	}
	now := browserlink.Frame{}
	switch {
	case proc == nil || t == nil || !t.ready:
		t, now.Problem = nil, "no page is open"
	case t.crashed:
		now.Problem = "the page crashed"
	}
	if t != nil {
		now.URL, now.Title = clean(t.url, 500), t.title
		if t.dialog != nil {
			now.Dialog, now.Message = t.dialog.kind, t.dialog.message
		}
	}
	b.mu.Unlock()
	now.URL, now.Title, now.Message = b.secrets.mask(now.URL), b.secrets.mask(now.Title), b.secrets.mask(now.Message)
	var data []byte
	switch {
	case now.Problem != "":
		c.turn(ctx, nil)
	case t != c.at || proc != c.proc:
		c.proc, c.same, c.sum, c.pictured = proc, 0, [sha256.Size]byte{}, false
		c.turn(ctx, t)
		fallthrough
	case !c.pictured: // a page that does not change is maybe not sent by itself
		data, _ = (&page{b: b, t: t}).capture(ctx, filmQuality) // it is tried again
	default:
		data = c.take(ctx, t)
	}
	if len(data) > browserlink.MaxFrame {
		data = nil
	}
	if size, err := jpeg.DecodeConfig(bytes.NewReader(data)); err == nil {
		c.size = size
	} else {
		data = nil
	}
	c.pictured = c.pictured || len(data) > 0
	now.Width, now.Height = c.size.Width, c.size.Height
	if len(data) == 0 && now == c.last {
		return nil
	}
	c.last = now
	now.At, now.Bytes = c.now(), len(data)
	b.mu.Lock()
	private = private || b.private || b.released != released
	b.mu.Unlock()
	return &pictureFrame{now, data, t, private}
}

// turn films another tab from now on; none if t is nil.
func (c *camera) turn(ctx context.Context, t *tab) {
	if c.at != nil {
		go c.b.later(c.at.session, "Page.stopScreencast", nil) //nolint:gosec // nobody waits for it
	}
	c.at = t
	if t == nil {
		return
	}
	c.b.mu.Lock()
	t.cast = screencast{}
	c.b.mu.Unlock()
	_ = (&page{b: c.b, t: t}).act(ctx, "Page.startScreencast", map[string]any{"format": "jpeg", "quality": filmQuality, "maxWidth": viewWidth, "maxHeight": viewHeight}, nil)
}

// take returns the newest frame of the screencast, if there is one. What Chromium has sent was
// maybe drawn with a secret in it, so that another picture is taken once there are secrets. To hide
// them changes the page, of which Chromium sends a frame: one that is as before makes the next one
// be taken later.
func (c *camera) take(ctx context.Context, t *tab) []byte {
	secret := hasSecrets(&page{b: c.b, t: t})
	if secret && time.Since(c.taken) < min(frameEvery<<c.same, sameEvery) {
		return nil
	}
	cast := c.caught(t)
	if len(cast.ids) == 0 {
		return nil
	}
	defer c.acknowledge(t, cast)
	if secret {
		data, _ := (&page{b: c.b, t: t}).capture(ctx, filmQuality) // none while it cannot be hidden
		c.taken = time.Now()
		if sum := sha256.Sum256(data); sum == c.sum {
			c.same = min(c.same+1, 8)
			return nil
		} else {
			c.sum, c.same = sum, 0
		}
		return data
	}
	data, err := base64.StdEncoding.DecodeString(cast.data)
	if err != nil {
		return nil
	}
	return data
}

// caught takes what Chromium has sent of a tab.
func (c *camera) caught(t *tab) screencast {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	cast := t.cast
	t.cast = screencast{}
	return cast
}

// acknowledge has Chromium send more.
func (c *camera) acknowledge(t *tab, cast screencast) {
	for _, id := range cast.ids {
		go c.b.later(t.session, "Page.screencastFrameAck", map[string]any{"sessionId": id})
	}
}
