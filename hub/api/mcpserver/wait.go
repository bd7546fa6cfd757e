package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// waitUsually is less than the minute after which many clients give up on a call.
	waitUsually = 45 * time.Second
	waitMost    = 10 * time.Minute
	// progressEvery is the shortest interval between two notifications of progress.
	progressEvery = 500 * time.Millisecond
)

// untilEnd is the value of until that waits although a person has to do something.
const untilEnd = "end"

type waitIn struct {
	taskIn
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" jsonschema:"wait for at most this long, 1 to 600; 45 by default"`
	Until          string `json:"until,omitempty" jsonschema:"attention (the default): also return when the task needs a person; end: only when it has ended"`
}

func (in waitIn) timeout() time.Duration {
	if in.TimeoutSeconds <= 0 {
		return waitUsually
	}
	return min(time.Duration(in.TimeoutSeconds)*time.Second, waitMost)
}

type waitOut struct {
	taskOut
	StillRunning bool `json:"still_running" jsonschema:"the time is over, and the task goes on"`
}

func (o waitOut) text() string {
	if o.StillRunning {
		return lines(o.Task.line(), o.Next)
	}
	return o.taskOut.text()
}

func (t *tools) addWait(server *mcp.Server) {
	addWith(server, "task_wait", "Wait for a task", replies,
		"Waits until a task has ended or needs a person, and reports progress meanwhile. It returns after 45 s in any case: if the task still runs, call it again. If the agent asks a question and your client can show it, your user is asked.",
		t.wait)
}

// wait waits for a task.
func (t *tools) wait(ctx context.Context, req *mcp.CallToolRequest, in waitIn) (waitOut, mcp.InputRequestMap, error) {
	if in.Until != "" && in.Until != untilEnd && in.Until != "attention" {
		return waitOut{}, nil, fault.New(fault.Invalid, "until is %q", in.Until).WithCode(fault.InvalidParameters).WithFix("use attention or end")
	}
	asked, err := t.reply(ctx, in.TaskID, req.Params.InputResponses)
	if err != nil {
		return waitOut{}, nil, err
	}
	timed, cancel := context.WithTimeout(ctx, in.timeout())
	defer cancel()
	found, err := t.follow(timed, in, progressOf(ctx, req))
	if err != nil {
		return waitOut{}, nil, err
	}
	if found.GetState() == deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT && !asked && elicits(req.Session) {
		if ask, err := t.question(ctx, found); err != nil || ask != nil {
			return waitOut{taskOut: outOf(found)}, ask, err
		}
	}
	out := waitOut{taskOut: outOf(found), StillRunning: !ended[found.GetState()] && !personal[found.GetState()]}
	if out.StillRunning {
		out.Next = "It is still running. Call task_wait with the same task_id again, or task_logs to see what it does."
	}
	return out, nil, nil
}

// progress notifies the client of an event, or of the task itself if the event is nil.
type progress func(task *deckhandv1.Task, event *deckhandv1.Event)

// progressOf returns a function that sends notifications of progress, if the client wants
// them. What it sends is counted, since the protocol wants figures that only grow; the
// message has the agent's own estimate.
func progressOf(ctx context.Context, req *mcp.CallToolRequest) progress {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func(*deckhandv1.Task, *deckhandv1.Event) {}
	}
	count, last := 0.0, time.Time{}
	return func(task *deckhandv1.Task, event *deckhandv1.Event) {
		if event != nil && time.Since(last) < progressEvery {
			return
		}
		count, last = count+1, time.Now()
		message := fmt.Sprintf("%s, %.0f %% done", word(task.GetState(), "TASK_STATE_"), task.GetProgress()*100)
		if tool := event.GetPayload().GetFields()["tool"].GetStringValue(); tool != "" {
			message += ": " + tool
		}
		// A client that is gone ends the call by its context.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: count, Message: message})
	}
}

// changes are the kinds of events after which a task may be in another state.
var changes = map[eventkind.Kind]bool{
	eventkind.StateChanged: true, eventkind.ExecutionCompleted: true, eventkind.ExecutionFailed: true, eventkind.ExecutionCancelled: true,
	eventkind.ExecutionPaused: true, eventkind.ExecutionResumed: true, eventkind.ExecutionStarted: true, eventkind.InputRequired: true,
	eventkind.ApprovalRequested: true, eventkind.ReviewRequested: true, eventkind.TaskEscalated: true, eventkind.ProgressUpdate: true,
	eventkind.InboxAnswered: true, eventkind.InboxExpired: true,
}

// follow returns the task when it has ended, when it needs a person, or when the context's
// time is over. The watch begins before the task is read, so that no change is missed.
func (t *tools) follow(ctx context.Context, in waitIn, notify progress) (*deckhandv1.Task, error) {
	settled := func(found *deckhandv1.Task) bool {
		return ended[found.GetState()] || personal[found.GetState()] && in.Until != untilEnd
	}
	stream, err := t.events.Watch(ctx, &deckhandv1.WatchRequest{TaskIds: []string{in.TaskID}, FromNow: true, Follow: true})
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // nothing is read any more
	if !stream.Receive() && !over(ctx, stream.Err()) {
		return nil, stream.Err()
	}
	// What is read last is read although the time is over.
	kept := context.WithoutCancel(ctx)
	found, err := t.get(kept, in.TaskID)
	if err != nil {
		return nil, err
	}
	notify(found, nil)
	for !settled(found) && stream.Receive() {
		event := stream.Msg().GetEvent()
		if event == nil {
			notify(found, nil)
			continue
		}
		if changes[eventkind.Kind(event.GetType())] {
			if found, err = t.get(kept, in.TaskID); err != nil {
				return nil, err
			}
		}
		notify(found, event)
	}
	if settled(found) || !over(ctx, stream.Err()) && stream.Err() != nil {
		return found, rights(stream.Err())
	}
	return t.get(kept, in.TaskID)
}

// over reports whether a stream ended since its context's time is over.
func over(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded
}

// rights returns the error of a watch whose caller may no longer watch. After any other, as
// when the hub stops, the task is known as it was last, and the caller waits again.
func rights(err error) error {
	if code := connect.CodeOf(err); err != nil && (code == connect.CodeUnauthenticated || code == connect.CodePermissionDenied) {
		return err
	}
	return nil
}

// elicits reports whether the client can show its person a form: it says so with each
// request, from the revision 2026-07-28 on.
func elicits(session *mcp.ServerSession) bool {
	params := session.InitializeParams()
	return params != nil && params.ProtocolVersion >= "2026-07-28" && params.Capabilities != nil && params.Capabilities.Elicitation != nil
}

// questionPrefix begins the name of a request for a reply; the item's id follows.
const questionPrefix = "reply:"

// confirmation is the kind of a question whose reply lets the agent go on with something: to
// reply is to decide.
const confirmation = "confirmation"

// question returns the request to ask the client's person what a task's agent asks; nil if
// there is no such question.
func (t *tools) question(ctx context.Context, found *deckhandv1.Task) (mcp.InputRequestMap, error) {
	res, err := t.inbox.ListInbox(ctx, &deckhandv1.ListInboxRequest{
		TaskId: found.GetId(), Kinds: []deckhandv1.InboxKind{deckhandv1.InboxKind_INBOX_KIND_QUESTION}, PageSize: 1,
	})
	if err != nil || len(res.GetItems()) == 0 {
		return nil, err
	}
	item := res.GetItems()[0]
	if !item.GetMayAnswer() || item.GetQuestion().GetKind() == confirmation && !t.mayDecide(auth.Known(ctx)) {
		return nil, nil //nolint:nilnil // there is nothing to ask
	}
	answer := map[string]any{"type": "string", "title": "Reply", "minLength": 1, "maxLength": 20000}
	choices := item.GetQuestion().GetChoices()
	if item.GetQuestion().GetKind() == confirmation {
		choices = []string{"yes", "no"}
	}
	if len(choices) > 0 {
		answer["enum"] = choices
	}
	return mcp.InputRequestMap{questionPrefix + item.GetId(): &mcp.ElicitParams{
		Mode:    "form",
		Message: fmt.Sprintf("The agent %s asks, in the task %q:\n\n%s", item.GetAgentName(), literal.Line(found.GetTitle()), literal.Block(item.GetQuestion().GetText())),
		RequestedSchema: map[string]any{
			"type": "object", "required": []string{"reply"}, "properties": map[string]any{"reply": answer},
		},
	}}, nil
}

// reply sends the replies of the client's person to questions of a task, and reports
// whether the person was asked: one who declined is not asked again in this call.
func (t *tools) reply(ctx context.Context, taskID string, responses mcp.InputResponseMap) (asked bool, err error) {
	for name, response := range responses {
		id, ok := strings.CutPrefix(name, questionPrefix)
		result, elicited := response.(*mcp.ElicitResult)
		if !ok || !elicited {
			continue
		}
		text, _ := result.Content["reply"].(string)
		if result.Action != "accept" || text == "" {
			asked = true
			continue
		}
		item, err := t.inbox.GetInboxItem(ctx, &deckhandv1.GetInboxItemRequest{ItemId: id})
		if err != nil {
			return false, err
		}
		// A reply never decides on an approval.
		if item.GetItem().GetKind() != deckhandv1.InboxKind_INBOX_KIND_QUESTION || !strings.HasPrefix(item.GetItem().GetTaskId(), taskID) {
			return false, fault.New(fault.Invalid, "%s is no question of task %s", id, taskID).WithCode(fault.InvalidParameters).WithFix("call task_wait again without responses")
		}
		if item.GetItem().GetQuestion().GetKind() == confirmation && !t.mayDecide(auth.Known(ctx)) {
			return false, fault.New(fault.Denied, "%s is a confirmation, and this token has no right to decide", id).WithCode(fault.PermissionDenied).
				WithFix("confirm it in the console, or with deckhand inbox")
		}
		if _, err := t.inbox.AnswerInboxItem(ctx, &deckhandv1.AnswerInboxItemRequest{
			ItemId: id, Answer: &deckhandv1.AnswerInboxItemRequest_Reply_{Reply: &deckhandv1.AnswerInboxItemRequest_Reply{Text: text}},
		}); err != nil {
			return false, err
		}
	}
	return asked, nil
}
