package browser

import (
	"context"
	"encoding/base64"
	"math"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

const (
	// pictureWait bounds the picture of an action, without which the action is made all the same.
	pictureWait = 2 * time.Second
	// pictureQuality is a JPEG's: people see what was clicked, and text can be read.
	pictureQuality = 50
)

// shot is a picture of the page that is being taken.
type shot struct {
	done   chan struct{}
	cancel context.CancelFunc
	data   []byte // nil if there is none; after done
}

// shoot begins to take a picture of the page as it is shown.
func shoot(c *call) *shot {
	ctx, cancel := context.WithTimeout(c.ctx, pictureWait)
	s := &shot{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		defer cancel()
		if data, err := c.capture(ctx, pictureQuality); err == nil && len(data) <= maxPicture {
			s.data = data
		}
	}()
	return s
}

// end waits until nothing of a picture is in progress any more.
func (s *shot) end() {
	if s != nil {
		s.cancel()
		<-s.done
	}
}

// bring scrolls an element into view if that can be done, and begins to take a picture for people of
// the page as it is before something is done to the element, with where that is in it. The model does
// not get it. An element that is not in view has none. Call taken before anything is done to the page:
// it waits for the picture.
//
// A picture is taken since the call began, while the element is looked for; it is the right one unless
// something was scrolled.
func bring(c *call, e element) (taken func(), err error) {
	before, after, err := c.marks(c.ctx, e)
	if err != nil {
		return nil, err
	}
	picture := c.early
	if picture == nil || !slices.Equal(before, after) {
		picture.end()
		c.early = shoot(c)
		picture = c.early
	}
	return func() {
		<-picture.done
		if hasSecrets(&c.page) { // to hide them has changed the page
			_ = c.watch(c.ctx) // if the browser has ended, what follows says so
		}
		if picture.data == nil || after == nil {
			return
		}
		image := report.NewImage("image/jpeg", picture.data)
		image.ForPeople, image.Mark = true, after
		c.images = append(c.images, image)
	}, nil
}

// marks scrolls an element into view, and returns where it was before and is after that; see quads.
func (p *page) marks(ctx context.Context, e element) (before, after []int32, err error) {
	node := map[string]any{"backendNodeId": e.backend}
	var shapes [2]quads
	err = p.unlessDialog(ctx, func(ctx context.Context, c *conn) error {
		var all [3]*begun
		for i, method := range []string{"DOM.getContentQuads", "DOM.scrollIntoViewIfNeeded", "DOM.getContentQuads"} {
			var err error
			if all[i], err = c.begin(p.t.session, method, node); err != nil {
				return err
			}
		}
		// One that cannot be scrolled to, or has no shape, has none.
		_ = all[0].end(ctx, &shapes[0])
		_ = all[1].end(ctx, nil)
		_ = all[2].end(ctx, &shapes[1])
		return ctx.Err()
	})
	return shapes[0].mark(), shapes[1].mark(), err
}

// quads are where the boxes of an element are.
type quads struct {
	Quads [][]float64 `json:"quads"`
}

// mark returns where an element is in a picture of the page as it is shown: left, top, width and
// height in pixels; nil if it is not in view.
func (q quads) mark() []int32 {
	left, top, right, bottom := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, q := range q.Quads {
		if len(q) == 8 {
			left, right = min(left, q[0], q[2], q[4], q[6]), max(right, q[0], q[2], q[4], q[6])
			top, bottom = min(top, q[1], q[3], q[5], q[7]), max(bottom, q[1], q[3], q[5], q[7])
		}
	}
	left, right, top, bottom = max(left, 0), min(right, viewWidth), max(top, 0), min(bottom, viewHeight)
	if right-left < 1 || bottom-top < 1 {
		return nil
	}
	return []int32{int32(left), int32(top), int32(math.Ceil(right - left)), int32(math.Ceil(bottom - top))}
}

// capture takes a picture of the page as it is shown, without what shows a secret.
func (p *page) capture(ctx context.Context, quality int) ([]byte, error) {
	show, err := hideSecrets(ctx, p)
	if err != nil {
		return nil, err
	}
	defer show()
	var shot struct{ Data string }
	if err := p.act(ctx, "Page.captureScreenshot", map[string]any{"format": "jpeg", "quality": quality, "optimizeForSpeed": true}, &shot); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(shot.Data)
}
