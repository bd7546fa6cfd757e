package tool

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// view is what a person's console has of the browser of a task.
type view struct {
	t    *testing.T
	conn *websocket.Conn
	// said is what the hub says: it is read all the time, as a page does.
	said   chan *deckhandv1.WatchBrowserResponse
	status *deckhandv1.BrowserStatus
	frame  *deckhandv1.BrowserFrame
	jpeg   []byte
	act    *deckhandv1.BrowserAct
	typed  int // how many of those acts typed something
}

// watch opens a view as the console does.
func watch(t *testing.T, f *harness.Fleet, taskID string) *view {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit(time.Minute))
	defer cancel()
	conn, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(f.URL(), "http")+"/browsers", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + f.Token("admin-token")}},
	})
	require.NoError(t, err)
	if res.Body != nil {
		require.NoError(t, res.Body.Close())
	}
	conn.SetReadLimit(4 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	v := &view{t: t, conn: conn, said: make(chan *deckhandv1.WatchBrowserResponse, 1000), status: &deckhandv1.BrowserStatus{}, frame: &deckhandv1.BrowserFrame{}, act: &deckhandv1.BrowserAct{}}
	go func() {
		defer close(v.said)
		for {
			_, data, err := conn.Read(context.WithoutCancel(t.Context()))
			m := new(deckhandv1.WatchBrowserResponse)
			if err != nil || proto.Unmarshal(data, m) != nil {
				return
			}
			v.said <- m
		}
	}()
	v.say(&deckhandv1.WatchBrowserRequest{Message: &deckhandv1.WatchBrowserRequest_Open_{Open: &deckhandv1.WatchBrowserRequest_Open{TaskId: taskID}}})
	return v
}

func (v *view) say(m *deckhandv1.WatchBrowserRequest) {
	v.t.Helper()
	data, err := proto.Marshal(m)
	require.NoError(v.t, err)
	require.NoError(v.t, v.conn.Write(v.t.Context(), websocket.MessageBinary, data))
}

// until reads what is shown until something holds.
func (v *view) until(what string, holds func() bool) {
	v.t.Helper()
	limit := time.After(waittest.Limit(90 * time.Second))
	for !holds() {
		var m *deckhandv1.WatchBrowserResponse
		select {
		case m = <-v.said:
		case <-limit:
		}
		require.NotNil(v.t, m, "it ended, or waited for too long for %s; status %v, act %v", what, v.status, v.act)
		switch {
		case m.GetStatus() != nil:
			v.status = m.GetStatus()
		case m.GetAct() != nil:
			if v.act = m.GetAct(); v.act.GetWhat() == "typed" {
				v.typed++
			}
		case m.GetFrame() != nil:
			if v.frame = m.GetFrame(); len(v.frame.GetJpeg()) > 0 {
				v.jpeg = v.frame.GetJpeg()
			}
		}
	}
}

func (v *view) take() {
	v.t.Helper()
	v.say(&deckhandv1.WatchBrowserRequest{Message: &deckhandv1.WatchBrowserRequest_TakeOver_{TakeOver: &deckhandv1.WatchBrowserRequest_TakeOver{}}})
	v.until("the browser to be ours", func() bool { return v.status.GetYours() })
}

func (v *view) does(in *deckhandv1.BrowserInput) {
	v.t.Helper()
	v.say(&deckhandv1.WatchBrowserRequest{Message: &deckhandv1.WatchBrowserRequest_Input{Input: in}})
}

func key(name string) *deckhandv1.BrowserInput {
	return &deckhandv1.BrowserInput{Act: &deckhandv1.BrowserInput_Key{Key: name}}
}

func mouse(action deckhandv1.BrowserMouse_Action, x, y int32) *deckhandv1.BrowserInput {
	return &deckhandv1.BrowserInput{Act: &deckhandv1.BrowserInput_Mouse{Mouse: &deckhandv1.BrowserMouse{Action: action, X: float64(x), Y: float64(y), Clicks: 1}}}
}

// A kill ends the browser within two seconds while a person has taken it over, and the take-over with
// it. What was recorded of it is there afterwards.
func TestAKillEndsATakeOver(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	keys, program := harness.Site(t)
	f.Persona("tester", `
turns:
  - text: I open the form.
    calls:
      - {tool: shell_exec, arguments: {command: "`+program+` 8080", background: true}}
      - {tool: shell_exec, arguments: {command: "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/forms"}}
      - {tool: shell_exec, arguments: {command: "sleep 600", timeout_seconds: 600}}
`, "mode: autonomous", "browser: {record: true}", keys)
	id := f.Submit("tester")
	v := watch(t, f, id)
	v.until("the form to be seen", func() bool {
		return v.status.GetRunning() && len(v.jpeg) > 0 && strings.HasSuffix(v.frame.GetUrl(), "/forms")
	})
	v.take()
	require.NotZero(t, chromiumOf(t, id))
	began := time.Now()
	_, err := f.Client().Control.Kill(t.Context(), &deckhandv1.KillRequest{Scope: deckhandv1.KillScope_KILL_SCOPE_TASK, ObjectId: id, Reason: "a test"})
	require.NoError(t, err)
	waittest.Until(t, 2*time.Second, "the browser to be gone", func() bool { return chromiumOf(t, id) == 0 })
	v.until("the end of the take-over", func() bool { return v.status.GetEnded() && !v.status.GetYours() })
	took := time.Since(began)
	t.Logf("%s from the kill to the end of the take-over", took.Round(time.Millisecond))
	require.Less(t, took, waittest.Limit(2*time.Second))

	stream, err := f.Client().Browsers.ReadBrowserRecording(t.Context(), &deckhandv1.ReadBrowserRecordingRequest{TaskId: id})
	require.NoError(t, err)
	defer func() { require.NoError(t, stream.Close()) }()
	var last *deckhandv1.BrowserFrame
	pictures := 0
	for stream.Receive() {
		frame := stream.Msg().GetFrame()
		require.NotContains(t, frame.GetProblem(), "cannot be read")
		if len(frame.GetJpeg()) > 0 {
			last = frame
			pictures++
		}
	}
	require.NoError(t, stream.Err())
	require.Positive(t, pictures)
	require.True(t, strings.HasSuffix(last.GetUrl(), "/forms"), last.GetUrl())
	require.WithinDuration(t, began, last.GetTime().AsTime(), 5*time.Minute)
}

// A person watches the browser in an agent's jail, takes it over while the agent waits, and gives
// it back; everything that they did is in the history.
func TestAPersonTakesTheBrowserInAJailOver(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	keys, program := harness.Site(t)
	f.Persona("tester", `
turns:
  - text: I open the form.
    calls:
      - {tool: shell_exec, arguments: {command: "`+program+` 8080", background: true}}
      - {tool: shell_exec, arguments: {command: "until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done"}}
      - {tool: browser_navigate, arguments: {url: "http://localhost:8080/forms"}}
      - {tool: browser_click, arguments: {target: "css=input[name=name]"}}
      - {tool: shell_exec, arguments: {command: "until [ -e go ]; do sleep 0.1; done", timeout_seconds: 300}}
  - text: I accept.
    calls:
      - {tool: browser_click, arguments: {target: "accept the terms checkbox"}}
      - {tool: browser_snapshot, arguments: {full: true}}
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: "tested"}}
`, "mode: autonomous", keys)
	id := f.Submit("tester")
	v := watch(t, f, id)
	v.until("the form to be seen", func() bool {
		return v.status.GetRunning() && len(v.jpeg) > 0 && strings.HasSuffix(v.frame.GetUrl(), "/forms")
	})
	steps := func() []*deckhandv1.Step {
		res, err := f.Client().Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: id})
		require.NoError(t, err)
		return res.GetSteps()
	}
	waittest.Until(t, 2*time.Minute, "the agent to wait for the file", func() bool {
		all := steps()
		return len(all) > 4 && all[4].GetState() == deckhandv1.StepState_STEP_STATE_STARTED
	})
	clicked := steps()[3]
	require.EqualValues(t, 1, clicked.GetOutcome().GetFields()["pictures"].GetNumberValue())
	require.Nil(t, clicked.GetOutcome().GetFields()["images"], "the model gets none")
	res, err := f.Client().Tasks.ListSteps(t.Context(), &deckhandv1.ListStepsRequest{TaskId: id, StepId: clicked.GetId(), Images: true})
	require.NoError(t, err)
	image := res.GetSteps()[0].GetImages()[0]
	mark := image.GetMark()
	require.True(t, image.GetForPeople())
	require.Positive(t, mark.GetWidth())

	v.take()
	local := filepath.Join(t.TempDir(), "go")
	require.NoError(t, os.WriteFile(local, nil, 0o600))
	f.CLI(0, "task", "files", "put", id, local, "go")
	waittest.Until(t, time.Minute, "the agent to wait for the person", func() bool {
		all := steps()
		return len(all) > 5 && all[5].GetState() == deckhandv1.StepState_STEP_STATE_GRANTED && strings.HasSuffix(all[5].GetDecisionReason(), " has taken over the browser")
	})
	x, y := mark.GetLeft()+mark.GetWidth()/2, mark.GetTop()+mark.GetHeight()/2
	v.does(mouse(deckhandv1.BrowserMouse_ACTION_PRESSED, x, y))
	v.does(mouse(deckhandv1.BrowserMouse_ACTION_RELEASED, x, y))
	v.does(key("Control+a"))
	for _, one := range []string{"G", "r", "a", "c", "e"} {
		v.does(key(one))
	}
	v.until("what was typed", func() bool { return v.typed == len("Grace") })
	require.Contains(t, v.act.GetOn(), "Name")
	require.Empty(t, v.act.GetProblem())
	v.say(&deckhandv1.WatchBrowserRequest{Message: &deckhandv1.WatchBrowserRequest_GiveBack_{GiveBack: &deckhandv1.WatchBrowserRequest_GiveBack{}}})
	v.until("the browser to be the agent's", func() bool { return !v.status.GetYours() && v.status.GetTakenBy() == "" })
	succeeds(f, id)
	v.until("the end of the task", func() bool { return v.status.GetEnded() })

	all := steps()
	require.Equal(t, deckhandv1.StepState_STEP_STATE_FAILED, all[5].GetState(), all[5].GetObservation())
	require.Contains(t, all[5].GetObservation(), "took over the browser since your last call: 1 click, 6 keys. Nothing was done by this call")
	require.Contains(t, all[6].GetObservation(), `value="Grace"`)
	require.NotContains(t, all[6].GetObservation(), "[checked]")
	var said []string
	events, err := f.Client().Events.ListEvents(t.Context(), &deckhandv1.ListEventsRequest{TaskId: id, PageSize: 500})
	require.NoError(t, err)
	for _, e := range events.GetEvents() {
		if strings.HasPrefix(e.GetType(), "browser_") {
			p := e.GetPayload().GetFields()
			said = append(said, strings.TrimSpace(e.GetType()+" "+p["what"].GetStringValue()+" "+p["text"].GetStringValue()+p["reason"].GetStringValue()))
		}
	}
	require.Equal(t, []string{"browser_taken", "browser_acted clicked", "browser_acted pressed Control+a", "browser_acted typed Grace", "browser_given  given back"}, said)
}
