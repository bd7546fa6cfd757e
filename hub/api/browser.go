package api

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/takeover"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/backoff"
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
	// Events tells of those of a task.
	Events *event.Watcher
	// Draining ends when the hub is about to stop: streams end then.
	Draining context.Context
}

const (
	// viewLook is how often a stream looks at the task, for a browser and for its take-over, while
	// the task has events or the stream has taken the browser over; viewLookIdle otherwise.
	viewLook     = time.Second
	viewLookIdle = 5 * time.Second
	// inputIdle ends a take-over without input, and mostActs one with too many acts.
	inputIdle = 3 * time.Minute
	mostActs  = 2000
	// soughtAgain is how often a browser is looked for.
	soughtAgain = 2 * time.Second
	// steady is how long a browser is watched before the next failure counts as the first.
	steady = time.Minute
	// stillThere is how often the browser is told that somebody watches.
	stillThere = browserlink.ViewerPatience * time.Second / 3
	// giveTime bounds the end of a take-over.
	giveTime = 15 * time.Second
	// settleTime bounds how long acts that are in flight at that end are waited for.
	settleTime = 6 * time.Second
	// frameEvery and frameBurst bound what is shown, whatever the jail says.
	frameEvery = 400 * time.Millisecond
	frameBurst = 5
)

// watchedAgain is how soon a browser is watched again whose watching ended.
var watchedAgain = backoff.Policy{Base: 5 * time.Second, Max: 5 * time.Minute}

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
	v := &view{
		h: h, stream: stream, who: auth.From(ctx), taskID: taskID,
		showing: make(chan showing), heard: make(chan *deckhandv1.WatchBrowserRequest), left: make(chan struct{}), ended: make(chan struct{}),
		rate: rate.NewLimiter(rate.Every(frameEvery), frameBurst),
	}
	defer close(v.ended)
	defer v.end(ctx)
	// It is not waited for: Receive returns when the handler has returned, and then it ends. What
	// is asked of the node meanwhile ends when the person has gone.
	go func() {
		defer cancel()
		v.receive(ctx)
	}()
	return v.run(ctx)
}

// view is one stream. Its fields belong to run.
type view struct {
	h       *Browsers
	stream  viewStream
	who     auth.Identity
	taskID  string
	heard   chan *deckhandv1.WatchBrowserRequest
	left    chan struct{} // closed when the viewer has disconnected
	showing chan showing

	ended chan struct{} // closed with the view

	watch  *tool.BrowserWatch
	began  time.Time // when the watching began
	failed int       // how often in a row it did not last
	said   *deckhandv1.BrowserStatus
	// task and by are the task and who has its browser, as they were read last; fresh is when that
	// was, and is zero once they may have changed.
	task  db.Task
	by    *db.BrowserTakeover
	fresh time.Time
	// unhint ends what tells of events of the task; nil while nothing does.
	unhint func()
	taken  *takeover.Takeover
	yours  bool      // the browser has said so, too
	acted  time.Time // when the person did something last
	kept   time.Time // when the take-over was last prolonged
	again  time.Time // when a browser is looked for again
	told   time.Time // when the browser was last told that somebody watches
	acts   acts
	rate   *rate.Limiter
	late   *showing // the newest frame that came too soon
	// problem is what went wrong last, for the person, and refused what the browser shows in place
	// of its first picture.
	problem, refused string
}

// showing is what a browser showed, or the end of the watching.
type showing struct {
	by      *tool.BrowserWatch
	what    browserlink.Shown
	picture []byte
	err     error
}

func (v *view) receive(ctx context.Context) {
	for {
		message, err := v.stream.Receive()
		if err != nil {
			close(v.left)
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
	hint := make(chan struct{}, 1)
	defer func() {
		if v.unhint != nil {
			v.unhint()
		}
	}()
	tick := time.NewTicker(viewLook)
	defer tick.Stop()
	for changed := true; ; {
		if changed {
			v.subscribe(ctx, hint)
			if ended, err := v.look(ctx); err != nil || ended {
				return err
			}
		}
		changed = true
		select {
		case <-ctx.Done():
			select {
			case <-v.left:
				return nil
			default:
				return fault.New(fault.Unavailable, "the hub ends this view").WithFix("open it again in a moment")
			}
		case <-v.left:
			return nil
		case <-tick.C:
		case <-hint:
			v.fresh, changed = time.Time{}, false // with the next tick: a task may have many
		case message := <-v.heard:
			if err := v.hear(ctx, message); err != nil {
				return err
			}
			if changed = message.GetInput() == nil; changed {
				v.fresh = time.Time{}
			}
		case s := <-v.showing:
			var err error
			switch {
			case s.by != v.watch: // of the one before
				changed = false
			case s.err != nil:
				v.lose(ctx)
				err = v.give(ctx, "the browser ended")
				if v.problem == "" {
					v.problem = v.refused
				}
			default:
				if changed = s.what.Taken; changed {
					v.fresh = time.Time{}
				}
				err = v.show(ctx, s)
			}
			if err != nil {
				return err
			}
		}
	}
}

// subscribe has the events of the task send a hint. While that cannot be done, the task is read as if
// each look had one.
func (v *view) subscribe(ctx context.Context, hint chan struct{}) {
	if v.unhint != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, viewLook)
	defer cancel()
	if leave, err := v.h.Events.Hint(ctx, v.who.OrgID, v.taskID, hint); err == nil {
		v.unhint = leave
	}
	v.fresh = time.Time{}
}

// read reads the task and who has its browser, unless that was done and nothing has happened since.
func (v *view) read(ctx context.Context) error {
	if v.taken == nil && time.Since(v.fresh) < viewLookIdle {
		return nil
	}
	now := time.Now()
	row, err := v.h.Tasks.Get(ctx, v.who.OrgID, v.taskID)
	if err != nil {
		return err
	}
	by, err := takeover.Now(ctx, v.h.Takeovers.Store.Queries, v.who.OrgID, v.taskID)
	if err != nil {
		return err
	}
	v.task, v.by, v.fresh = row.Task, by, now
	return nil
}

// look finds out what has become of the task, its browser and the take-over, says what is new,
// and reports whether the task has ended.
func (v *view) look(ctx context.Context) (ended bool, err error) {
	if err := v.read(ctx); err != nil {
		return false, err
	}
	state := task.State(v.task.State)
	now := time.Now()
	if v.taken != nil {
		reason, err := v.over(ctx, v.task)
		if err == nil && reason != "" {
			if err = v.give(ctx, reason); err == nil {
				v.by = nil
			}
		}
		if err != nil {
			return false, err
		}
	}
	if now.Sub(v.acts.gathered.at) > typingPause {
		if err := v.flush(ctx); err != nil {
			return false, err
		}
	}
	switch {
	case v.watch == nil && !state.Final() && !state.Parked() && now.After(v.again):
		v.begin(ctx, v.task)
	case v.watch != nil && state.Parked():
		v.leave(ctx)
	case v.watch != nil && now.Sub(v.told) > stillThere:
		v.told = now
		if v.watch.Say(ctx, browserlink.Said{}) != nil {
			v.lose(ctx)
		}
	}
	if late := v.late; late != nil && late.by == v.watch && v.rate.Allow() {
		v.late = nil
		if err := v.frame(*late); err != nil {
			return false, err
		}
	}
	status := &deckhandv1.BrowserStatus{Running: v.watch != nil, Yours: v.yours, Waiting: v.taken != nil && !v.yours, Problem: v.problem, Ended: state.Final()}
	if status.Problem == "" && state.Parked() {
		status.Problem = frozen
	}
	if v.by != nil {
		status.TakenBy, status.TakenAt = v.by.UserName, timestamppb.New(v.by.BeganAt)
	}
	if !proto.Equal(status, v.said) {
		v.said = status
		err = v.stream.Send(&deckhandv1.WatchBrowserResponse{Message: &deckhandv1.WatchBrowserResponse_Status{Status: status}})
	}
	return state.Final(), err
}

// over returns why the take-over must end; "" if it may go on, which it keeps.
func (v *view) over(ctx context.Context, t db.Task) (reason string, err error) {
	state, now := task.State(t.State), time.Now()
	switch {
	case state.Parked():
		return frozen, nil
	case !mayActIn(state):
		return "the task is " + t.State, nil
	case t.PauseNext != "":
		return "the task is being paused", nil
	case now.Sub(v.acted) > inputIdle:
		return fmt.Sprintf("nothing was done for %s", inputIdle), nil
	case v.taken.Acts >= mostActs:
		return fmt.Sprintf("%d acts are the most of one take-over", mostActs), nil
	case now.Sub(v.kept) <= takeover.KeepEvery:
		return "", nil
	}
	kept, err := v.h.Takeovers.Keep(ctx, v.taken)
	if err != nil {
		return "", err
	}
	if v.kept = now; !kept {
		return "the hub could not keep it", nil
	}
	return "", nil
}

// frozen is why nothing is to be seen of a task that is parked.
const frozen = "the task waits for a person, and meanwhile its workspace is frozen, with its browser"

// mayActIn reports whether a person may act in the browser of a task in a state.
func mayActIn(state task.State) bool { return state == task.Running || state == task.Waiting }

// begin watches the browser, if there is one.
func (v *view) begin(ctx context.Context, t db.Task) {
	watch, err := step.WatchBrowser(ctx, v.h.Steps, t)
	if err != nil {
		v.again = time.Now().Add(soughtAgain)
		if !fault.Is(err, fault.Precondition) { // there may be a command of it
			v.failed++
			v.again = time.Now().Add(watchedAgain.Delay(v.failed))
		}
		return
	}
	v.watch, v.began, v.told = watch, time.Now(), time.Now()
	go func() {
		for {
			what, picture, err := watch.Next()
			select {
			case v.showing <- showing{watch, what, picture, err}:
			case <-v.ended:
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
		v.watch, v.late = nil, nil
	}
}

// lose leaves a browser that does not let itself be watched any more.
func (v *view) lose(ctx context.Context) {
	if time.Since(v.began) > steady {
		v.failed = 0
	}
	v.failed++
	v.again = time.Now().Add(watchedAgain.Delay(v.failed))
	v.leave(ctx)
}

// end ends what the stream has begun.
func (v *view) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveTime)
	defer cancel()
	// If this fails, the take-over ends without being kept.
	_ = v.give(ctx, "the person has disconnected")
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
		if v.taken != nil {
			v.problem = ""
		}
		return err
	case *deckhandv1.WatchBrowserRequest_GiveBack_:
		return v.give(ctx, given)
	case *deckhandv1.WatchBrowserRequest_Input:
		if !v.yours || v.watch == nil {
			return nil // it has just ended, which the status says
		}
		v.acted = time.Now()
		return v.act(ctx, *inputOf(m.Input))
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
	case task.State(row.Task.State).Parked():
		return fault.New(fault.Precondition, frozen).WithObject(v.taskID).WithFix("answer it, and take its browser over once it runs")
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
	if v.watch.Say(ctx, browserlink.Said{Take: v.who.UserName}) != nil {
		v.lose(ctx)
		return v.give(ctx, "the browser ended")
	}
	return nil
}

// given is the reason of an end that the person wanted.
const given = "given back"

// give gives the browser back, if it is taken over, with all in the history that was done.
func (v *view) give(ctx context.Context, reason string) error {
	if v.taken == nil {
		return nil
	}
	if err := v.settle(ctx); err != nil {
		return err
	}
	if err := v.h.Takeovers.Give(ctx, v.taken, reason); err != nil {
		return err
	}
	v.taken, v.yours, v.problem = nil, false, ""
	if reason != given {
		v.problem = reason
	}
	return nil
}

// settle tells the browser that it is the agent's again, waits until it has said what became of the
// acts before that, and records those of which it does not.
func (v *view) settle(ctx context.Context) error {
	if v.watch != nil && v.watch.Say(ctx, browserlink.Said{Give: true}) != nil {
		v.lose(ctx)
	}
	limit := time.NewTimer(settleTime)
	defer limit.Stop()
	for over := !v.yours; !over && v.watch != nil; {
		select {
		case s := <-v.showing:
			switch {
			case s.by != v.watch:
			case s.err != nil:
				v.lose(ctx)
			default:
				over = s.what.Given
				// The person has maybe gone. What cannot be recorded now is below, or an error there.
				_ = v.show(ctx, s)
			}
		case <-limit.C:
			v.lose(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	v.yours = false
	return v.unsure(ctx)
}

// show passes on what the browser shows.
func (v *view) show(ctx context.Context, s showing) error {
	switch {
	case s.what.Taken:
		v.yours, v.acted = v.taken != nil, time.Now()
	case s.what.Did != nil && v.taken != nil:
		return v.did(ctx, s.what.Did)
	case s.what.Frame != nil && v.rate.Allow():
		v.late = nil
		return v.frame(s)
	case s.what.Frame != nil:
		if len(s.picture) == 0 && v.late != nil {
			s.picture = v.late.picture
		}
		v.late = &s
	}
	return nil
}

// text is one of the jail, as it is shown.
func (v *view) text(from string) string { return pageText(v.h.Redact, v.who.OrgID, from) }

func pageText(r *redact.Redactor, orgID, from string) string {
	return literal.Line(r.Org(orgID).String(textcut.Runes(from, 500, "…")))
}

func (v *view) frame(s showing) error {
	f := s.what.Frame
	switch {
	case f.Problem != "":
		v.refused = v.text(f.Problem)
	case len(s.picture) > 0:
		if v.problem == v.refused {
			v.problem = ""
		}
		v.refused = ""
	}
	return v.stream.Send(&deckhandv1.WatchBrowserResponse{Message: &deckhandv1.WatchBrowserResponse_Frame{Frame: frameOf(*f, s.picture, v.text)}})
}

// frameOf returns a frame with its picture as the API has it; text cleans one of the jail.
func frameOf(f browserlink.Frame, picture []byte, text func(string) string) *deckhandv1.BrowserFrame {
	return &deckhandv1.BrowserFrame{
		Time: timestamppb.New(time.UnixMilli(min(max(f.At, 0), time.Now().UnixMilli()))), Jpeg: picture, Width: clampSize(f.Width), Height: clampSize(f.Height),
		Url: text(f.URL), Title: text(f.Title), Dialog: text(f.Dialog), Message: text(f.Message), Problem: text(f.Problem), Ended: f.Ended,
	}
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
