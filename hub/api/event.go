package api

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Events serves EventService.
type Events struct {
	Tasks   *task.Service
	Agents  *agent.Service
	Watcher *event.Watcher
	// Progress looks at running commands.
	Progress *Progress
	// Draining ends when the hub is about to stop: streams end then, and their callers
	// continue from their cursor at another hub.
	Draining context.Context
}

// Watch streams stored events, then live ones.
func (h *Events) Watch(ctx context.Context, req *deckhandv1.WatchRequest, out *connect.ServerStream[deckhandv1.WatchResponse]) error {
	return h.watch(ctx, req, watchStream{out})
}

// watch sends to a sink what Watch streams.
func (h *Events) watch(ctx context.Context, req *deckhandv1.WatchRequest, to Sink) error {
	ctx, cancel := until(ctx, h.Draining)
	defer cancel()
	watch := event.Watch{
		OrgID: auth.From(ctx).OrgID, Follow: req.GetFollow(), Thinking: req.GetThinking(),
		Cut: cutOf(ctx), Detailed: req.GetDetailedTaskIds(), Flush: to.Flush,
	}
	var err error
	if watch.Selected, err = eventkind.Select("types", req.GetTypes()); err != nil {
		return err
	}
	switch {
	case req.GetFromNow() && req.GetCursor() != "":
		return fault.New(fault.Invalid, "from_now and cursor were both given").WithFix("give one of them")
	case req.GetFromNow():
		watch.After, err = h.Watcher.Now(ctx)
	default:
		watch.After, err = event.ParseCursor(req.GetCursor())
	}
	if err != nil {
		return err
	}
	for _, ref := range req.GetTaskIds() {
		id, err := h.Tasks.Find(ctx, viewer(ctx), ref)
		if err != nil {
			return err
		}
		watch.TaskIDs = append(watch.TaskIDs, id)
	}
	agents := map[string]bool{}
	for _, ref := range req.GetAgentIds() {
		id, err := h.Agents.Find(ctx, viewer(ctx), ref)
		if err != nil {
			return err
		}
		agents[id] = true
	}
	// The caller learns at once that its watch is established.
	if err := to.Send(Watched{Cursor: watch.After}); err != nil {
		return err
	}
	if err := to.Flush(); err != nil {
		return err
	}
	if of := watch.TaskIDs; req.GetProgress() && watch.Follow {
		if len(of) == 0 {
			of = watch.Detailed
		}
		live := make(chan any)
		watch.Live = live
		go h.Progress.Follow(ctx, watch.OrgID, of, live) // ctx ends with this call
	}
	sees := h.seen(ctx, agents)
	err = h.Watcher.Run(ctx, watch, func(item event.Item) error {
		sent, of := Watched{Cursor: item.Cursor, Event: item.Event}, ""
		switch {
		case item.Event != nil:
			of = item.Event.TaskID
		case item.Thinking != nil:
			sent.Thinking = &deckhandv1.Thinking{}
			if err := proto.Unmarshal(item.Thinking, sent.Thinking); err != nil {
				return nil //nolint:nilerr // a piece that cannot be parsed is dropped: the finished turn is an event
			}
			of = sent.Thinking.GetTaskId()
		case item.Live != nil:
			sent.Progress, _ = item.Live.(*deckhandv1.StepProgress)
			of = sent.Progress.GetTaskId()
		default:
			return to.Send(sent)
		}
		if seen, err := sees(of); err != nil || !seen {
			return err
		}
		return to.Send(sent)
	})
	if h.Draining.Err() != nil {
		return fault.New(fault.Unavailable, "the hub is stopping").WithFix("watch again from the last cursor")
	}
	return err
}

// seenFor is how long the result of checking whether a caller sees a task is cached: the
// task may be assigned to another user.
const (
	seenFor  = 10 * time.Second
	mostSeen = 4096
)

// seen returns a function that reports whether the caller sees a task that is of one of the
// agents. Without agents, it may be of any.
func (h *Events) seen(ctx context.Context, agents map[string]bool) func(taskID string) (bool, error) {
	v, known := viewer(ctx), ttlcache.New[string, bool](mostSeen, seenFor)
	return func(taskID string) (bool, error) {
		if yes, ok := known.Get(taskID); ok {
			return yes, nil
		}
		yes, err := h.Tasks.Sees(ctx, v, taskID)
		if err == nil && yes && len(agents) > 0 {
			t, failed := h.Tasks.Get(ctx, v.OrgID, taskID)
			yes, err = agents[t.Task.AgentID], failed
		}
		if err == nil {
			known.Add(taskID, yes)
		}
		return yes, err
	}
}

// defaultEvents is how many events are returned if the request sets no number.
const defaultEvents = 200

// ListEvents returns a part of a task's history.
func (h *Events) ListEvents(ctx context.Context, req *deckhandv1.ListEventsRequest) (*deckhandv1.ListEventsResponse, error) {
	if req.GetBeforeSeq() > 0 && req.GetAfterSeq() > 0 {
		return nil, fault.New(fault.Invalid, "before_seq and after_seq were both given").WithFix("give one of them")
	}
	orgID := auth.From(ctx).OrgID
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	n := req.GetPageSize()
	if n == 0 {
		n = defaultEvents
	}
	rows, err := h.Watcher.List(ctx, orgID, id, req.GetBeforeSeq(), req.GetAfterSeq(), n)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListEventsResponse{Events: make([]*deckhandv1.Event, len(rows))}
	for i := range rows {
		res.Events[i] = eventMessage(&rows[i])
	}
	newest, err := h.Watcher.List(ctx, orgID, id, 0, 0, 1)
	if err != nil {
		return nil, err
	}
	if len(newest) > 0 {
		res.NewestSeq = newest[0].Seq
	}
	return res, nil
}

// until returns a context that ends with ctx or with stop.
func until(ctx, stop context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(stop, cancel)
	return ctx, func() { release(); cancel() }
}
