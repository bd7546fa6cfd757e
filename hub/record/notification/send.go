package notification

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

const (
	// slots is how many notifications a hub sends at once, and each how many of them to
	// the same destination: a destination that hangs delays the others less.
	slots = 64
	each  = 4
	// maxAnswer and maxError limit what is read of a response and stored of it.
	maxAnswer = 4 << 10
	maxError  = 300
	// longestWait bounds what a receiver may ask for.
	longestWait = 6 * time.Hour
)

// The states of a notification.
const (
	pending   = "pending"
	delivered = "delivered"
	dead      = "dead"
)

// The kinds of destinations.
const (
	kindWebhook = "webhook"
	kindSlack   = "slack"
	kindEmail   = "email"
	kindNATS    = "nats"
	kindPush    = "push"
)

// Start begins to send.
func (s *Service) Start(ctx context.Context) error {
	return s.Run(ctx, func(ctx context.Context) error {
		var sending sync.WaitGroup
		defer s.http.CloseIdleConnections()
		defer sending.Wait()
		tick := time.NewTicker(s.cfg.Sweep)
		defer tick.Stop()
		free := make(chan struct{}, slots)
		for {
			for {
				n, err := s.claim(ctx, slots-len(free), func(row db.ClaimNotificationsRow) {
					free <- struct{}{}
					sending.Go(func() {
						defer func() {
							<-free
							s.landed(row.DestinationID)
							s.Kick()
						}()
						if err := s.send(ctx, row); err != nil && ctx.Err() == nil {
							s.cfg.Log.Warn("cannot store the result of a notification; it may be sent again", "notification_id", row.ID, "error", err)
						}
					})
				})
				if err != nil && ctx.Err() == nil {
					s.cfg.Log.Warn("cannot find notifications to send; will try again", "error", err)
				}
				if err != nil || n == 0 {
					break
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-s.kick:
			case <-tick.C:
			}
		}
	})
}

// lease is how long a notification may be claimed without a result.
func (s *Service) lease() time.Duration { return 4 * s.cfg.Timeout }

// claim claims notifications that are due, and returns how many.
func (s *Service) claim(ctx context.Context, most int, take func(db.ClaimNotificationsRow)) (int, error) {
	if most <= 0 {
		return 0, nil
	}
	busy := []string{}
	s.mu.Lock()
	for id, n := range s.flying {
		if n >= each {
			busy = append(busy, id)
		}
	}
	s.mu.Unlock()
	rows, err := s.cfg.Store.ClaimNotifications(ctx, db.ClaimNotificationsParams{
		Busy: busy, Each: each, MaxRows: int32(most), Lease: s.lease(), //nolint:gosec // at most slots
	})
	if err != nil {
		return 0, fmt.Errorf("claim notifications: %w", err)
	}
	for _, row := range rows {
		s.mu.Lock()
		s.flying[row.DestinationID]++
		s.mu.Unlock()
		take(row)
	}
	return len(rows), nil
}

func (s *Service) landed(destinationID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying[destinationID]--; s.flying[destinationID] == 0 {
		delete(s.flying, destinationID)
	}
}

// outcome is how one sending went.
type outcome struct {
	status int
	err    error // nil when the receiver took it
	// after is how long the receiver wants to be left alone.
	after time.Duration
	// gone reports that the receiver wants no more notifications.
	gone bool
	// maybe reports that the receiver may have taken it although there is an error.
	maybe bool
	// said is the beginning of its response.
	said string
}

// try is an outcome as it is kept.
type try struct {
	At     time.Time `json:"at"`
	Status int       `json:"status"`
	Error  string    `json:"error"`
	Millis int64     `json:"ms"`
}

// send sends a notification once, and stores how that went.
func (s *Service) send(ctx context.Context, n db.ClaimNotificationsRow) error {
	row, err := s.cfg.Store.GetDestination(ctx, db.GetDestinationParams{OrgID: n.OrgID, ID: n.DestinationID})
	if store.IsNotFound(err) {
		return nil // it was deleted, and its notifications ended
	}
	if err != nil {
		return fmt.Errorf("load destination %s: %w", n.DestinationID, err)
	}
	begun := time.Now()
	got := s.deliver(ctx, row, n.ID, n.Body)
	if got.err != nil && ctx.Err() != nil {
		return nil // the hub stops; another one sends it when the lease is over
	}
	crashpoint.At(crashpoint.AfterNotification, n.ID, "")
	state, wait := delivered, time.Duration(0)
	left := n.ExpiresAt.Sub(n.Now)
	switch {
	case got.err == nil:
	case got.gone, left <= 0:
		state = dead
	default:
		// The last try is when its time is over.
		state, wait = pending, min(max(s.cfg.Retry.Delay(int(n.Attempts)), min(got.after, longestWait)), left)
	}
	return s.settle(ctx, row, n.ID, n.Attempts, got, state, wait, begun)
}

// deliver sends to a destination.
func (s *Service) deliver(ctx context.Context, row db.Destination, id string, body []byte) outcome {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	d, err := s.ready(ctx, row)
	if err != nil {
		return outcome{err: err}
	}
	secret, err := s.secret(row)
	if err != nil {
		return outcome{err: err}
	}
	var e CloudEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return outcome{err: fmt.Errorf("read the event: %w", err)}
	}
	switch row.Kind {
	case kindWebhook:
		return s.webhook(ctx, d.spec.GetWebhook(), secret, id, e)
	case kindSlack:
		return s.slack(ctx, secret.Now, e)
	case kindEmail:
		return s.mail(ctx, d.spec.GetEmail(), secret.Now, id, e)
	case kindNATS:
		data, err := e.encode()
		if err == nil {
			err = s.cfg.Bus.PublishLifecycle(row.OrgID, e.Type, data)
		}
		if err == nil {
			err = s.cfg.Bus.FlushEvents(ctx)
		}
		return outcome{err: err}
	}
	if row.Kind == kindPush {
		return s.push(ctx, d, secret.Now, e)
	}
	return outcome{err: fmt.Errorf("destination %s is of kind %q", row.ID, row.Kind)}
}

// settle stores how a sending went.
func (s *Service) settle(ctx context.Context, d db.Destination, id string, attempts int32, got outcome, state string, wait time.Duration, begun time.Time) error {
	t := try{At: begun.UTC(), Status: got.status, Millis: time.Since(begun).Milliseconds()}
	if got.err != nil {
		t.Error = oneLine(s.cfg.Redact.Org(d.OrgID).String(got.err.Error()), maxError)
	}
	data, err := json.Marshal([]try{t})
	if err != nil {
		return fmt.Errorf("encode a try: %w", err)
	}
	settled, err := s.cfg.Store.SettleNotification(ctx, db.SettleNotificationParams{
		OrgID: d.OrgID, ID: id, Attempts: attempts, State: state, Error: t.Error, Try: data, Wait: wait,
	})
	if err != nil {
		return fmt.Errorf("store how notification %s was sent: %w", id, err)
	}
	if settled == 0 {
		return nil // another hub took it for lost
	}
	s.cfg.OnSent(d.Kind, state)
	if state == dead {
		s.cfg.Log.Warn("a notification is dead: deckhand destination redrive sends it again", "notification_id", id, "destination", d.Name, "error", t.Error)
	}
	if got.gone && d.Kind == kindPush {
		return s.locked(ctx, d.OrgID, d.ID, func(tx *event.Tx, row db.Destination) error {
			return s.remove(ctx, tx, row, event.Hub, "the push service does not know the device any more")
		})
	}
	if got.gone {
		return s.disable(ctx, d.OrgID, d.ID, "the receiver answered 410 Gone", event.Hub)
	}
	return nil
}

// Test sends a notification to a destination once, and returns its id.
func (s *Service) Test(ctx context.Context, orgID, id string, by event.Actor) (string, error) {
	row, err := s.Get(ctx, orgID, id)
	if err != nil {
		return "", err
	}
	if row.State != stateEnabled {
		return "", fault.New(fault.Precondition, "destination %s is disabled: %s", row.Name, row.Reason).
			WithFix("deckhand destination enable %s", row.Name).WithObject(id)
	}
	notification := ident.New("ntc")
	e := CloudEvent{
		SpecVersion: "1.0", ID: notification, Source: source(orgID), Type: typeTest, Subject: id, Time: time.Now().UTC(), DataContentType: "application/json",
		Data: Data{Summary: oneLine(by.ID+" tries whether this reaches you", maxSummary), Actor: actor(cmp.Or(by.Kind, event.User), by.ID)},
	}
	body, err := e.encode()
	if err != nil {
		return "", err
	}
	if err := s.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		return q.OweTest(ctx, db.OweTestParams{
			ID: notification, OrgID: orgID, DestinationID: id, Type: typeTest, Body: body, Lease: s.lease(),
		})
	}); err != nil {
		return "", fmt.Errorf("store a notification for %s: %w", id, err)
	}
	begun := time.Now()
	got := s.deliver(ctx, row, notification, body)
	state := delivered
	if got.err != nil {
		state = dead
	}
	// Also if the caller has disconnected.
	return notification, s.settle(context.WithoutCancel(ctx), row, notification, 1, got, state, 0, begun)
}

// answered returns the error for a receiver's response.
func answered(status int, text []byte) error {
	if said := strings.TrimSpace(string(text)); said != "" {
		return fmt.Errorf("it answered %d: %s", status, said)
	}
	return fmt.Errorf("it answered %d", status)
}

// plainly removes URLs from an error: they may be secret.
func plainly(err error, secrets ...string) error {
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return errors.New(text)
}
