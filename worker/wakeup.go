package worker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// wakeup is what a message on the bus says: there may be something to claim.
type wakeup struct {
	TaskID  string `json:"task_id"`
	Attempt int32  `json:"attempt"`
}

var (
	errForgotten = errors.New("the hub no longer knows this worker")
	errBusClosed = errors.New("the connection to the bus was closed")
)

const (
	// pullWait is how long one pull waits for wake-ups.
	pullWait = 30 * time.Second
	// claimRetry is how long a wake-up is put back when the hub could not be
	// asked.
	claimRetry = 2 * time.Second
	// pingInterval is how often the connection to the bus is tried; it is given up after
	// two that had no response.
	pingInterval = 5 * time.Second
)

// connect returns a connection to the bus. Each time that it has come back
// after a loss, again holds a signal.
func (w *Worker) connect(bus *deckhandv1.RegisterWorkerResponse_Bus, again chan<- struct{}) (*nats.Conn, error) {
	if bus.GetUrl() == "" && len(w.cfg.NATSOptions) == 0 {
		return nil, errors.New("the hub names no bus: set its NATS URL for workers")
	}
	options := []nats.Option{
		nats.Name(w.cfg.Name), nats.UserInfo(bus.GetUsername(), bus.GetPassword()),
		nats.MaxReconnects(-1), nats.ReconnectJitter(500*time.Millisecond, 2*time.Second), nats.Timeout(5 * time.Second),
		nats.PingInterval(pingInterval),
		nats.ReconnectHandler(func(*nats.Conn) {
			select {
			case again <- struct{}{}:
			default: // one signal is enough
			}
		}),
	}
	if bus.GetInboxPrefix() != "" {
		options = append(options, nats.CustomInboxPrefix(bus.GetInboxPrefix()))
	}
	if bus.GetAuthority() != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(bus.GetAuthority())) {
			return nil, errors.New("the hub's CA for the bus is not a certificate")
		}
		options = append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: bus.GetServerName()}))
	}
	return nats.Connect(bus.GetUrl(), append(options, w.cfg.NATSOptions...)...)
}

// listen pulls wake-ups until the context ends or they cannot be heard.
func (w *Worker) listen(ctx context.Context) error {
	bus := w.registered.Load().GetBus()
	again := make(chan struct{}, 1)
	conn, err := w.connect(bus, again)
	if err != nil {
		return fmt.Errorf("connect to the bus: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("open the bus: %w", err)
	}
	opening, cancel := context.WithTimeout(ctx, callTimeout)
	consumer, err := js.Consumer(opening, bus.GetStream(), bus.GetConsumer())
	cancel()
	if err != nil {
		return fmt.Errorf("find the pool's wake-ups: %w", err)
	}
	w.bus.Store(conn)
	defer w.bus.Store(nil)
	w.cfg.Log.Debug("listening for wake-ups", "stream", bus.GetStream(), "consumer", bus.GetConsumer())
	for {
		free, err := w.waitForSlot(ctx)
		if err != nil {
			return err
		}
		if err := w.pull(ctx, conn, again, consumer, free); err != nil {
			return err
		}
	}
}

// waitForSlot returns how many slots are free, at least one.
func (w *Worker) waitForSlot(ctx context.Context) (int, error) {
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-w.forgotten:
		return 0, errForgotten
	case <-w.door.open():
	}
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-w.forgotten:
		return 0, errForgotten
	case w.slots <- struct{}{}:
		<-w.slots
		return cap(w.slots) - len(w.slots), nil
	}
}

// pull asks for as many wake-ups as there are free slots and takes on what
// comes. The server has forgotten what was asked when the connection was lost:
// then it is over.
func (w *Worker) pull(ctx context.Context, conn *nats.Conn, again <-chan struct{}, consumer jetstream.Consumer, free int) error {
	pulling, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	batch, err := consumer.Fetch(free, jetstream.FetchContext(pulling))
	if err != nil {
		return fmt.Errorf("pull wake-ups: %w", err)
	}
	for {
		select {
		case <-w.forgotten:
			return errForgotten
		case <-again:
			return nil
		case <-w.door.closed():
			return nil // what is on its way comes to another worker
		case msg, ok := <-batch.Messages():
			if ok {
				w.receive(ctx, msg)
				continue
			}
			switch err := batch.Error(); {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case conn.IsClosed():
				return errBusClosed
			case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
				return nil
			default:
				return fmt.Errorf("pull wake-ups: %w", err)
			}
		}
	}
}

// receive takes a slot for a wake-up and looks after it in a goroutine.
func (w *Worker) receive(ctx context.Context, msg jetstream.Msg) {
	var wake wakeup
	if err := json.Unmarshal(msg.Data(), &wake); err != nil || wake.TaskID == "" || wake.Attempt < 1 {
		w.cfg.Log.Error("a wake-up cannot be read", "bytes", len(msg.Data()), "error", err)
		w.settle(msg.Term())
		return
	}
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		w.settle(msg.Nak())
		return
	}
	w.tasks.Go(func() {
		place := &slot{of: w.slots, held: true}
		defer place.free()
		sent := time.Now()
		claim, err := w.claim(ctx, wake)
		switch {
		case err != nil:
			w.cfg.Log.Warn("a task could not be claimed", "task_id", wake.TaskID, "error", err)
			w.settle(msg.NakWithDelay(claimRetry))
			return
		case !claim.GetClaimed():
			// Stale, or another worker was first.
			w.settle(msg.Ack())
			return
		}
		w.settle(msg.Ack())
		w.work(ctx, claim, place, sent)
	})
}

// settle notes an acknowledgement that did not get through: the wake-up comes
// again then, and its claim is refused as stale.
func (w *Worker) settle(err error) {
	if err != nil {
		w.cfg.Log.Debug("a wake-up was not acknowledged", "error", err)
	}
}

func (w *Worker) claim(ctx context.Context, wake wakeup) (*deckhandv1.ClaimTaskResponse, error) {
	// Stopping does not cancel a claim in progress: its response is needed to
	// return the task to the queue.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	res, err := w.client.Workers.ClaimTask(ctx, &deckhandv1.ClaimTaskRequest{
		WorkerId: w.registered.Load().GetWorkerId(), TaskId: wake.TaskID, Attempt: wake.Attempt,
	})
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			w.forget()
		}
		return nil, fmt.Errorf("claim task %s: %w", wake.TaskID, err)
	}
	return res, nil
}
