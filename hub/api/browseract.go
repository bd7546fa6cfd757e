package api

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What a person does in a browser becomes history here. What was done, and how often, is taken from
// what they sent; on which element, and whether that is for a secret, only the jail knows.

const (
	// typingPause ends what is recorded as one text, which has at most typedText characters, or as
	// one scrolling.
	typingPause = 2 * time.Second
	typedText   = 500
	// mostInFlight bounds the inputs of which the browser has not said what became of them.
	mostInFlight = 64
)

// acts are what the person does.
type acts struct {
	number int64
	// inFlight are the inputs by number of which the browser has not said what became of them.
	inFlight map[int64]act
	from     browserlink.Mouse // where the mouse was pressed
	gathered gathered
}

// act is one of a person; what is empty for a movement of the mouse.
type act struct{ what, text string }

// gathered are acts of one kind on one element, which are recorded as one.
type gathered struct {
	what, on, url, text string
	n                   int
	hidden              bool
	at                  time.Time
}

// act passes an input on, unless there are too many.
func (v *view) act(ctx context.Context, in browserlink.Input) error {
	one := act{}
	one.what, one.text = in.Act(v.acts.from)
	if in.Mouse != nil && in.Mouse.Action == "pressed" {
		v.acts.from = *in.Mouse
	}
	pending := 0
	for _, other := range v.acts.inFlight {
		if other.what != "" {
			pending++
		}
	}
	switch {
	case one.what == "" && len(v.acts.inFlight) >= mostInFlight/2: // the next movement follows
		return nil
	case len(v.acts.inFlight) >= mostInFlight, v.taken.Acts+pending >= mostActs:
		return v.tell(one, "", "the browser is busy, and this was not done")
	}
	v.acts.number++
	if v.acts.inFlight == nil {
		v.acts.inFlight = map[int64]act{}
	}
	v.acts.inFlight[v.acts.number] = one
	if v.watch.Say(ctx, browserlink.Said{Input: &in, Number: v.acts.number}) != nil {
		v.lose(ctx)
		return v.give(ctx, "the browser ended")
	}
	return nil
}

// tell says to the person what became of an act.
func (v *view) tell(one act, on, problem string) error {
	if one.what == "" && problem == "" {
		return nil
	}
	return v.stream.Send(&deckhandv1.WatchBrowserResponse{Message: &deckhandv1.WatchBrowserResponse_Act{Act: &deckhandv1.BrowserAct{
		What: one.what, On: v.text(on), Problem: v.text(problem),
	}}})
}

// did takes what the browser says of an input: once for each that was sent.
func (v *view) did(ctx context.Context, did *browserlink.Did) error {
	one, sent := v.acts.inFlight[did.Number]
	if !sent {
		return nil
	}
	if one.what != "" && did.Made {
		if did.Hidden {
			one.text = ""
		}
		if err := v.record(ctx, one, did); err != nil {
			return err
		}
	}
	delete(v.acts.inFlight, did.Number)
	return v.tell(one, did.On, did.Problem)
}

// record adds an act to the task's history. What is typed into one field is one act, and so is one
// scrolling.
func (v *view) record(ctx context.Context, one act, did *browserlink.Did) error {
	now := gathered{
		what: one.what, on: literal.Line(textcut.Runes(did.On, 200, "…")), url: withoutQuery(did.URL), text: textcut.Runes(one.text, typedText, "…"),
		n: max(len([]rune(one.text)), 1), hidden: did.Hidden, at: time.Now(),
	}
	before := &v.acts.gathered
	if did.Problem == "" && (one.what == "typed" || one.what == "scrolled") {
		if before.n > 0 && before.what == now.what && before.on == now.on && before.url == now.url && before.hidden == now.hidden && before.n < typedText {
			before.text, before.n, before.at = before.text+now.text, before.n+now.n, now.at
			return nil
		}
		if err := v.flush(ctx); err != nil {
			return err
		}
		*before = now
		return nil
	}
	if err := v.flush(ctx); err != nil {
		return err
	}
	payload := now.payload()
	if did.Problem != "" { // it was passed on, and may have had an effect
		payload["unsure"], payload["problem"] = true, literal.Line(textcut.Runes(did.Problem, 200, "…"))
	}
	return v.h.Takeovers.Record(ctx, v.taken, payload)
}

func (g gathered) payload() map[string]any {
	out := map[string]any{"what": g.what, "on": g.on, "url": g.url, "text": literal.Line(g.text)}
	if g.hidden {
		out["text"], out["secret"] = "", true // nor how long it is
	}
	return out
}

// flush records what was gathered.
func (v *view) flush(ctx context.Context) error {
	if v.acts.gathered.n == 0 || v.taken == nil {
		return nil
	}
	if err := v.h.Takeovers.Record(ctx, v.taken, v.acts.gathered.payload()); err != nil {
		return err
	}
	v.acts.gathered = gathered{}
	return nil
}

// unsure records the acts of which the browser has not said what became of them. It is not known
// what they typed into, so not what they typed either.
func (v *view) unsure(ctx context.Context) error {
	if err := v.flush(ctx); err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(v.acts.inFlight)) {
		if one := v.acts.inFlight[number]; one.what != "" {
			if err := v.h.Takeovers.Record(ctx, v.taken, map[string]any{"what": one.what, "on": "", "text": "", "unsure": true}); err != nil {
				return err
			}
		}
		delete(v.acts.inFlight, number)
	}
	return nil
}

// withoutQuery returns an address without what may be secret in it.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return literal.Line(textcut.Runes(u.Scheme+"://"+u.Host+u.EscapedPath(), 300, "…"))
}
