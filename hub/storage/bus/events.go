package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// flushTimeout bounds the wait for an unreachable server.
const flushTimeout = 2 * time.Second

// PublishEvent notifies every hub that a task of an organisation has new events. It does
// not wait: the events are in the database already.
func (b *Bus) PublishEvent(orgID, taskID string) error {
	if err := tokens(orgID, taskID); err != nil {
		return err
	}
	return wrap("publish an event", b.events.Publish(eventSubject(orgID, taskID), nil))
}

// SubscribeEvents calls fn, from one goroutine, with each task of the
// organisation that has new events, until stop is called. A call that is under
// way then may still end after it.
func (b *Bus) SubscribeEvents(orgID string, fn func(taskID string)) (stop func(), err error) {
	if err := token("organisation", orgID); err != nil {
		return nil, err
	}
	return b.subscribe(eventSubject(orgID, "*"), func(m *nats.Msg) {
		fn(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	})
}

// PublishThinking passes on a piece of a turn that is still being streamed, as
// it is. It is lost for those that do not listen.
func (b *Bus) PublishThinking(orgID, taskID string, piece []byte) error {
	if err := tokens(orgID, taskID); err != nil {
		return err
	}
	return wrap("publish thinking", b.events.Publish(thinkingSubject(orgID, taskID), piece))
}

// SubscribeThinking calls fn, from one goroutine and in order, with each piece
// of the task's turns, until stop is called.
func (b *Bus) SubscribeThinking(orgID, taskID string, fn func(piece []byte)) (stop func(), err error) {
	if err := tokens(orgID, taskID); err != nil {
		return nil, err
	}
	return b.subscribe(thinkingSubject(orgID, taskID), func(m *nats.Msg) { fn(m.Data) })
}

// PublishLifecycle sends an event of an organisation to the subscribers of the events
// account, and does not wait: see FlushEvents. The kind is a path of words with dots
// between them.
func (b *Bus) PublishLifecycle(orgID, kind string, data []byte) error {
	if err := token("organisation", orgID); err != nil {
		return err
	}
	for word := range strings.SplitSeq(kind, ".") {
		if err := token("kind", word); err != nil {
			return err
		}
	}
	return wrap("publish a lifecycle event", b.events.Publish(lifecyclePrefix+orgID+"."+kind, data))
}

// FlushEvents returns when the server has all that was published.
func (b *Bus) FlushEvents(ctx context.Context) error {
	return wrap("publish events", b.events.FlushWithContext(ctx))
}

// subscribe returns once the server has the subscription, so that nothing published
// afterwards is missed. If the server cannot be reached, the subscription begins when it
// can.
func (b *Bus) subscribe(subject string, handler nats.MsgHandler) (func(), error) {
	sub, err := b.events.Subscribe(subject, handler)
	if err != nil {
		return nil, wrap("subscribe to "+subject, err)
	}
	if err := b.events.FlushTimeout(flushTimeout); errors.Is(err, nats.ErrConnectionClosed) {
		return nil, wrap("subscribe to "+subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

func tokens(orgID, taskID string) error {
	return errors.Join(token("organisation", orgID), token("task", taskID))
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
