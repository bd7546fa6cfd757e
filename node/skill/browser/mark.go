package browser

import (
	"context"
	"encoding/base64"
	"math"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/report"
)

const (
	// pictureWait bounds the picture of an action, without which the action is made all the same.
	pictureWait = 2 * time.Second
	// pictureQuality is a JPEG's: people see what was clicked, and text can be read.
	pictureQuality = 50
)

// show takes a picture for people of the page as it is before something is done to an element,
// with where the element is in it. The model does not get it. An element that is not in view has
// none.
func (c *call) show(e element) {
	ctx, cancel := context.WithTimeout(c.ctx, pictureWait)
	defer cancel()
	mark, ok := c.markOf(ctx, e)
	if !ok {
		return
	}
	data, err := c.capture(ctx, pictureQuality)
	if err != nil || len(data) > maxPicture {
		return
	}
	image := report.NewImage("image/jpeg", data)
	image.ForPeople, image.Mark = true, mark
	c.images = append(c.images, image)
}

// markOf returns where an element is in a picture of the page as it is shown: left, top, width
// and height in pixels.
func (p *page) markOf(ctx context.Context, e element) (mark []int32, ok bool) {
	if err := p.act(ctx, "DOM.scrollIntoViewIfNeeded", map[string]any{"backendNodeId": e.backend}, nil); err != nil && ctx.Err() != nil {
		return nil, false
	}
	var shape struct {
		Quads [][]float64 `json:"quads"`
	}
	if err := p.act(ctx, "DOM.getContentQuads", map[string]any{"backendNodeId": e.backend}, &shape); err != nil {
		return nil, false
	}
	left, top, right, bottom := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, q := range shape.Quads {
		if len(q) == 8 {
			left, right = min(left, q[0], q[2], q[4], q[6]), max(right, q[0], q[2], q[4], q[6])
			top, bottom = min(top, q[1], q[3], q[5], q[7]), max(bottom, q[1], q[3], q[5], q[7])
		}
	}
	left, right, top, bottom = max(left, 0), min(right, viewWidth), max(top, 0), min(bottom, viewHeight)
	if right-left < 1 || bottom-top < 1 {
		return nil, false
	}
	return []int32{int32(left), int32(top), int32(math.Ceil(right - left)), int32(math.Ceil(bottom - top))}, true
}

// capture takes a picture of the page as it is shown, without what shows a secret.
func (p *page) capture(ctx context.Context, quality int) ([]byte, error) {
	show, err := p.hideSecrets(ctx)
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
