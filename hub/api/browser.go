package api

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/takeover"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Browsers serves BrowserService.
type Browsers struct {
	Tasks     *task.Service
	Steps     *step.Steps
	Takeovers *takeover.Takeovers
	Redact    *redact.Redactor
	// Draining ends when the hub is about to stop: streams end then.
	Draining context.Context
}

const (
	// viewLook is how often a stream looks at the task, for a browser and for its take-over.
	viewLook = time.Second
	// inputIdle ends a take-over without input, and mostActs one with too many acts.
	inputIdle = 3 * time.Minute
	mostActs  = 2000
	// typingPause ends what is recorded as one text, which has at most typedText characters.
	typingPause = 2 * time.Second
	typedText   = 500
	// soughtAgain is how often a browser is looked for, and watchedAgain how soon one is watched
	// again whose watching ended.
	soughtAgain  = 2 * time.Second
	watchedAgain = 5 * time.Second
	// stillThere is how often the browser is told that somebody watches.
	stillThere = browserlink.ViewerPatience * time.Second / 3
	// giveTime bounds the end of a take-over.
	giveTime = 10 * time.Second
)

// viewStream is the person's end.
type viewStream = duplex[deckhandv1.WatchBrowserRequest, deckhandv1.WatchBrowserResponse]

// WatchBrowser shows the browser of a task.
func (h *Browsers) WatchBrowser(ctx context.Context, stream *connect.BidiStream[deckhandv1.WatchBrowserRequest, deckhandv1.WatchBrowserResponse]) error {
	return h.Serve(ctx, stream)
}

// Serve is a view from its first message to its last.
func (h *Browsers) Serve(ctx context.Context, stream viewStream) error {
	ctx, cancel := until(ctx, h.Draining)
	defer cancel()
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	if first.GetOpen() == nil {
		return fault.New(fault.Invalid, "the first message must be open").WithFix("send open, then the others")
	}
	taskID, err := h.Tasks.Find(ctx, viewer(ctx), first.GetOpen().GetTaskId())
	if err != nil {
		return err
	}
	v := &view{h: h, stream: stream, who: auth.From(ctx), taskID: taskID, showing: make(chan showing), heard: make(chan *deckhandv1.WatchBrowserRequest), left: make(chan error, 1)}
	// It is not waited for: Receive returns when the handler has returned, and then it ends.
	go v.receive(ctx)
	defer v.end(ctx)
	return v.run(ctx)
}

// view is one stream. Its fields belong to run.
type view struct {
	h       *Browsers
	stream  viewStream
	who     auth.Identity
	taskID  string
	heard   chan *deckhandv1.WatchBrowserRequest
	left    chan error
	showing chan showing

	watch  *tool.BrowserWatch
	said   *deckhandv1.BrowserStatus
	taken  *takeover.Takeover
	yours  bool // the browser has said so, too
	number int64
	acted  time.Time // when the person did something last
	kept   time.Time // when the take-over was last prolonged
	again  time.Time // when a browser is looked for again
	told   time.Time // when the browser was last told that somebody watches
	typed  typing
	// problem is what went wrong last, for the person.
	problem string
}

// showing is what a browser showed, or the end of the watching.
type showing struct {
	by      *tool.BrowserWatch
	what    browserlink.Shown
	picture []byte
	err     error
}

// typing is what is recorded as one text.
type typing struct {
	on, text   string
	characters int
	hidden     bool
	at         time.Time
}

func (v *view) receive(ctx context.Context) {
	for {
		message, err := v.stream.Receive()
		if err != nil {
			v.left <- err
			return
		}
		select {
		case v.heard <- message:
		case <-ctx.Done():
			return
		}
	}
}

func (v *view) run(ctx context.Context) error {
	tick := time.NewTicker(viewLook)
	defer tick.Stop()
	for changed := true; ; {
		if changed {
			if ended, err := v.look(ctx); err != nil || ended {
				return err
			}
		}
		changed = true
		select {
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "the hub ends this view").WithFix("open it again in a moment")
		case <-v.left:
			return nil // whoever watches has gone
		case <-tick.C:
		case message := <-v.heard:
			if err := v.hear(ctx, message); err != nil {
				return err
			}
			changed = message.GetInput() == nil
		case s := <-v.showing:
			err := error(nil)
			switch {
			case s.by != v.watch: // of the one before
				changed = false
			case s.err != nil:
				v.leave(ctx)
				v.again = time.Now().Add(watchedAgain)
				err = v.give(ctx, "the browser ended")
			default:
				changed = s.what.Taken
				err = v.show(ctx, s)
			}
			if err != nil {
				return err
			}
		}
	}
}

// look finds out what has become of the task, its browser and the take-over, says what is new,
// and reports whether the task has ended.
func (v *view) look(ctx context.Context) (ended bool, err error) {
	row, err := v.h.Tasks.Get(ctx, v.who.OrgID, v.taskID)
	if err != nil {
		return false, err
	}
	state := task.State(row.Task.State)
	now := time.Now()
	reason := ""
	switch {
	case v.taken == nil:
	case !mayActIn(state):
		reason = "the task is " + row.Task.State
	case row.Task.PauseNext != "":
		reason = "the task is being paused"
	case now.Sub(v.acted) > inputIdle:
		reason = fmt.Sprintf("nothing was done for %s", inputIdle)
	case v.taken.Acts >= mostActs:
		reason = fmt.Sprintf("%d acts are the most of one take-over", mostActs)
	case now.Sub(v.kept) > takeover.KeepEvery:
		ok, err := v.h.Takeovers.Keep(ctx, v.taken)
		if err != nil {
			return false, err
		}
		if v.kept = now; !ok {
			reason = "the hub could not keep it"
		}
	}
	if reason != "" {
		if err := v.give(ctx, reason); err != nil {
			return false, err
		}
	}
	if now.Sub(v.typed.at) > typingPause {
		if err := v.flush(ctx); err != nil {
			return false, err
		}
	}
	if v.watch == nil && !state.Final() && now.After(v.again) {
		v.begin(ctx, row.Task)
	} else if v.watch != nil && now.Sub(v.told) > stillThere {
		v.told = now
		if v.watch.Say(ctx, browserlink.Said{}) != nil {
			v.leave(ctx)
		}
	}
	by, err := v.h.Takeovers.Now(ctx, v.who.OrgID, v.taskID)
	if err != nil {
		return false, err
	}
	status := &deckhandv1.BrowserStatus{Running: v.watch != nil, Yours: v.yours, Waiting: v.taken != nil && !v.yours, Problem: v.problem, Ended: state.Final()}
	if by != nil {
		status.TakenBy, status.TakenAt = by.UserName, timestamppb.New(by.BeganAt)
	}
	if !proto.Equal(status, v.said) {
		v.said = status
		err = v.stream.Send(&deckhandv1.WatchBrowserResponse{Message: &deckhandv1.WatchBrowserResponse_Status{Status: status}})
	}
	return state.Final(), err
}

// mayActIn reports whether a person may act in the browser of a task in a state.
func mayActIn(state task.State) bool {
	switch state {
	case task.Running, task.Waiting, task.AwaitingApproval, task.NeedsInput:
		return true
	}
	return false
}

// begin watches the browser, if there is one.
func (v *view) begin(ctx context.Context, t db.Task) {
	watch, err := step.WatchBrowser(ctx, v.h.Steps, t)
	if err != nil {
		v.again = time.Now().Add(soughtAgain)
		return
	}
	v.watch = watch
	go func() {
		for {
			what, picture, err := watch.Next()
			select {
			case v.showing <- showing{watch, what, picture, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
}

func (v *view) leave(ctx context.Context) {
	if v.watch != nil {
		v.watch.Close(ctx)
		v.watch = nil
	}
}

// end ends what the stream has begun.
func (v *view) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveTime)
	defer cancel()
	// If this fails, the take-over ends without being kept.
	_ = v.give(ctx, "whoever had it has left")
	v.leave(ctx)
}

// hear does what the person says. What they cannot have is a problem, and no error.
func (v *view) hear(ctx context.Context, message *deckhandv1.WatchBrowserRequest) error {
	switch m := message.GetMessage().(type) {
	case *deckhandv1.WatchBrowserRequest_TakeOver_:
		if v.taken != nil {
			return nil
		}
		err := v.take(ctx)
		if refused := fault.As(err); refused != nil {
			v.problem = v.h.Redact.Org(v.who.OrgID).String(refused.Error())
			return nil
		}
		v.problem = ""
		return err
	case *deckhandv1.WatchBrowserRequest_GiveBack_:
		return v.give(ctx, given)
	case *deckhandv1.WatchBrowserRequest_Input:
		if !v.yours || v.watch == nil {
			return nil // it has just ended, which the status says
		}
		v.acted = time.Now()
		v.number++
		if v.watch.Say(ctx, browserlink.Said{Input: inputOf(m.Input), Number: v.number}) != nil {
			v.leave(ctx)
			return v.give(ctx, "the browser ended")
		}
		return nil
	}
	return fault.New(fault.Invalid, "a view is opened once").WithFix("send take_over, give_back and input after open")
}

// take takes the browser over.
func (v *view) take(ctx context.Context) error {
	row, err := v.h.Tasks.Get(ctx, v.who.OrgID, v.taskID)
	if err != nil {
		return err
	}
	if err := own(v.who, row.Task); err != nil {
		return err
	}
	switch {
	case v.who.Kind != auth.User || !auth.AtLeast(v.who.Role, "basic") || v.who.Scope.ReadOnly:
		return fault.New(fault.Denied, "you may only look").WithCode(fault.PermissionDenied).WithFix("ask an administrator for the role basic")
	case !mayActIn(task.State(row.Task.State)) || row.Task.PauseNext != "":
		return fault.New(fault.Precondition, "task %s is %s", v.taskID, row.Task.State).WithObject(v.taskID).WithFix("take its browser over while it runs")
	}
	if err := step.MayTakeOver(ctx, v.h.Steps, row.Task); err != nil {
		return err
	}
	if v.watch == nil {
		return fault.New(fault.Precondition, "the task has no browser that runs").WithObject(v.taskID).WithFix("wait until it opens a page")
	}
	if v.taken, err = v.h.Takeovers.Take(ctx, row.Task, actor(v.who), v.who.UserID); err != nil {
		v.taken = nil
		return err
	}
	v.acted, v.kept = time.Now(), time.Now()
	return v.watch.Say(ctx, browserlink.Said{Take: v.who.UserName})
}

// given is the reason of an end that the person wanted.
const given = "given back"

// give gives the browser back, if it is taken over.
func (v *view) give(ctx context.Context, reason string) error {
	if v.taken == nil {
		return nil
	}
	if err := v.flush(ctx); err != nil {
		return err
	}
	if v.watch != nil && v.watch.Say(ctx, browserlink.Said{Give: true}) != nil {
		v.leave(ctx)
	}
	err := v.h.Takeovers.Give(ctx, v.taken, reason)
	v.taken, v.yours, v.problem = nil, false, ""
	if reason != given {
		v.problem = reason
	}
	return err
}

// show passes on what the browser shows.
func (v *view) show(ctx context.Context, s showing) error {
	mask := v.h.Redact.Org(v.who.OrgID)
	text := func(from string) string { return literal.Line(mask.String(textcut.Runes(from, 500, "…"))) }
	switch {
	case s.what.Taken:
		v.yours, v.acted = v.taken != nil, time.Now()
	case s.what.Frame != nil:
		f := s.what.Frame
		return v.stream.Send(&deckhandv1.WatchBrowserResponse{Message: &deckhandv1.WatchBrowserResponse_Frame{Frame: &deckhandv1.BrowserFrame{
			Time: timestamppb.New(time.UnixMilli(f.At)), Jpeg: s.picture, Width: clampSize(f.Width), Height: clampSize(f.Height),
			Url: text(f.URL), Title: text(f.Title), Dialog: text(f.Dialog), Message: text(f.Message), Problem: text(f.Problem),
		}}})
	case s.what.Did != nil && v.taken != nil:
		did := s.what.Did
		if did.Problem != "" || did.What != "" {
			if err := v.stream.Send(&deckhandv1.WatchBrowserResponse{Message: &deckhandv1.WatchBrowserResponse_Act{Act: &deckhandv1.BrowserAct{
				What: text(did.What), On: text(did.On), Problem: text(did.Problem),
			}}}); err != nil {
				return err
			}
		}
		return v.record(ctx, did)
	}
	return nil
}

// record adds an act to the task's history. What is typed into one field is one act.
func (v *view) record(ctx context.Context, did *browserlink.Did) error {
	if did.What == "" || did.Problem != "" {
		return nil
	}
	on, typed := literal.Line(textcut.Runes(did.On, 200, "…")), textcut.Runes(did.Text, typedText, "…")
	if did.What != "typed" {
		if err := v.flush(ctx); err != nil {
			return err
		}
		return v.h.Takeovers.Record(ctx, v.taken, map[string]any{"what": literal.Line(textcut.Runes(did.What, 40, "…")), "on": on, "text": literal.Line(typed)})
	}
	if v.typed.characters > 0 && (v.typed.on != on || v.typed.hidden != did.Hidden || v.typed.characters >= typedText) {
		if err := v.flush(ctx); err != nil {
			return err
		}
	}
	v.typed.on, v.typed.hidden, v.typed.at = on, did.Hidden, time.Now()
	v.typed.characters += max(len([]rune(did.Text)), 1)
	if !did.Hidden {
		v.typed.text += typed
	}
	return nil
}

// flush records what was typed.
func (v *view) flush(ctx context.Context) error {
	t := v.typed
	if t.characters == 0 || v.taken == nil {
		return nil
	}
	v.typed = typing{}
	payload := map[string]any{"what": "typed", "on": t.on, "text": literal.Line(t.text)}
	if t.hidden {
		payload["text"], payload["secret"] = "", true // nor how long it is
	}
	return v.h.Takeovers.Record(ctx, v.taken, payload)
}

func clampSize(n int) int32 { return int32(min(max(n, 0), 10000)) } //nolint:gosec // bounded

func inputOf(in *deckhandv1.BrowserInput) *browserlink.Input {
	switch a := in.GetAct().(type) {
	case *deckhandv1.BrowserInput_Mouse:
		m := a.Mouse
		return &browserlink.Input{Mouse: &browserlink.Mouse{
			Action: map[deckhandv1.BrowserMouse_Action]string{
				deckhandv1.BrowserMouse_ACTION_MOVED: "moved", deckhandv1.BrowserMouse_ACTION_PRESSED: "pressed",
				deckhandv1.BrowserMouse_ACTION_RELEASED: "released", deckhandv1.BrowserMouse_ACTION_WHEEL: "wheel",
			}[m.GetAction()],
			X: m.GetX(), Y: m.GetY(), Button: m.GetButton(), Clicks: int(m.GetClicks()), Held: int(m.GetHeld()), DeltaX: m.GetDeltaX(), DeltaY: m.GetDeltaY(),
		}}
	case *deckhandv1.BrowserInput_Key:
		return &browserlink.Input{Key: a.Key}
	case *deckhandv1.BrowserInput_Text:
		return &browserlink.Input{Text: a.Text}
	case *deckhandv1.BrowserInput_Dialog:
		return &browserlink.Input{Dialog: &browserlink.Answer{Accept: a.Dialog.GetAccept(), Text: a.Dialog.GetText()}}
	}
	return &browserlink.Input{}
}
