package notification

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// pushKeyName names the hub's key among its secrets.
	pushKeyName = "web push key"
	// maxDevices is how many devices a user may have.
	maxDevices = 10
	// pushTTL is for how long a push service keeps a message for a device that is off.
	pushTTL = 24 * time.Hour
	// authSize is the size of a subscription's secret in bytes (RFC 8291, 3.2).
	authSize = 16
	// maxPushText bounds a line of a message, in characters: the whole has to fit into
	// one record of 4096 bytes.
	maxPushText = 120
)

// DeviceEvents are the groups of events that a device can get, and gets by default.
func DeviceEvents() []string {
	return []string{"approvals", "questions", "failures", "budgets", "escalations"}
}

// PushKeys are the hub's own of VAPID (RFC 8292), in base64 for URLs.
type PushKeys struct {
	Public  string `json:"public"`
	Private string `json:"private"`
}

// Secrets keeps secrets of the hub under names.
type Secrets interface {
	LoadSecret(ctx context.Context, name string) ([]byte, error)
	CreateSecret(ctx context.Context, name string, value []byte) ([]byte, error)
}

// OpenPushKeys returns the keys, which are made the first time. All hubs of an
// installation have the same.
func OpenPushKeys(ctx context.Context, s Secrets) (PushKeys, error) {
	var keys PushKeys
	data, err := s.LoadSecret(ctx, pushKeyName)
	if fault.Is(err, fault.NotFound) {
		if keys.Private, keys.Public, err = webpush.GenerateVAPIDKeys(); err != nil {
			return keys, fmt.Errorf("make the key of Web Push: %w", err)
		}
		var made []byte
		if made, err = json.Marshal(keys); err != nil {
			return keys, fmt.Errorf("encode the key of Web Push: %w", err)
		}
		data, err = s.CreateSecret(ctx, pushKeyName, made)
	}
	if err != nil {
		return keys, fmt.Errorf("open the key of Web Push: %w", err)
	}
	if err := json.Unmarshal(data, &keys); err != nil {
		return keys, fmt.Errorf("read the key of Web Push: %w", err)
	}
	return keys, nil
}

// Device is a device as its browser has subscribed it.
type Device struct {
	OrgID, UserID, Name string
	// Events are of DeviceEvents; empty for all of them.
	Events                 []string
	Endpoint, P256dh, Auth string
	By                     event.Actor
}

// subscription is what is sealed of a device.
type subscription struct {
	Endpoint string `json:"endpoint"`
	P256dh   string `json:"p256dh"`
	Auth     string `json:"auth"`
}

func (s *Service) checkDevice(d Device) (host string, err error) {
	if err := checkURL("endpoint", d.Endpoint); err != nil {
		return "", err
	}
	u, err := url.Parse(d.Endpoint)
	if err != nil {
		return "", fmt.Errorf("read an endpoint: %w", err)
	}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := s.guard.Check(address, u.Scheme != "https"); err != nil {
			return "", fault.New(fault.Invalid, "endpoint is refused: %v", err).WithFix("subscribe with a browser whose push service is on the internet")
		}
	}
	if point, err := decodeKey(d.P256dh); err != nil || !onCurve(point) {
		return "", fault.New(fault.Invalid, "p256dh is not a point of P-256").WithFix("send what PushSubscription.toJSON returns")
	}
	if secret, err := decodeKey(d.Auth); err != nil || len(secret) != authSize {
		return "", fault.New(fault.Invalid, "auth is not %d bytes", authSize).WithFix("send what PushSubscription.toJSON returns")
	}
	return u.Hostname(), nil
}

func decodeKey(text string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
}

func onCurve(point []byte) bool {
	_, err := ecdh.P256().NewPublicKey(point)
	return err == nil
}

func deviceSpec(name, host string, events []string) ([]byte, error) {
	if len(events) == 0 {
		events = DeviceEvents()
	}
	spec, err := protojson.Marshal(&deckhandv1.DestinationSpec{
		Events: events, To: &deckhandv1.DestinationSpec_Push{Push: &deckhandv1.PushDestination{Name: name, PushService: host}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode a spec: %w", err)
	}
	return spec, nil
}

// CreateDevice stores a device, instead of one with the same endpoint: a browser belongs
// to the user who subscribed it last.
func (s *Service) CreateDevice(ctx context.Context, d Device) (db.Destination, error) {
	host, err := s.checkDevice(d)
	if err != nil {
		return db.Destination{}, err
	}
	hash := sha256.Sum256([]byte(d.Endpoint))
	id := ident.New("dest")
	p := db.CreateDestinationParams{
		ID: id, OrgID: d.OrgID, Name: id, Kind: kindPush, State: stateEnabled, CreatedBy: d.By.ID, UserID: &d.UserID, EndpointHash: hash[:],
	}
	if p.Spec, err = deviceSpec(d.Name, host, d.Events); err != nil {
		return db.Destination{}, err
	}
	plain, err := json.Marshal(subscription{d.Endpoint, d.P256dh, d.Auth})
	if err != nil {
		return db.Destination{}, fmt.Errorf("encode a subscription: %w", err)
	}
	if p.Sealed, _, err = s.seal(d.OrgID, id, sealed{Now: string(plain)}); err != nil {
		return db.Destination{}, err
	}
	var row db.Destination
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		// Its own endpoint is replaced; a stranger who knows it could only take it over.
		switch before, err := tx.DeviceOfEndpoint(ctx, hash[:]); {
		case store.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("look for a device: %w", err)
		default:
			if err := s.remove(ctx, tx, before, d.By, "the browser was subscribed again"); err != nil {
				return err
			}
		}
		have, err := tx.ListDevices(ctx, db.ListDevicesParams{OrgID: d.OrgID, UserID: d.UserID})
		if err != nil {
			return fmt.Errorf("list devices: %w", err)
		}
		if len(have) >= maxDevices {
			return fault.New(fault.Exhausted, "you have %d devices, and that is the most", len(have)).WithFix("remove one first")
		}
		if row, err = tx.CreateDestination(ctx, p); err != nil {
			return fmt.Errorf("store a device: %w", err)
		}
		return record(tx, row, d.By, "destination.created", nil, map[string]any{"kind": row.Kind, "user_id": d.UserID, "spec": string(row.Spec)})
	})
	return row, err
}

// Devices returns a user's devices, oldest first.
func (s *Service) Devices(ctx context.Context, orgID, userID string) ([]db.Destination, error) {
	rows, err := s.cfg.Store.ListDevices(ctx, db.ListDevicesParams{OrgID: orgID, UserID: userID})
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	return rows, nil
}

// device runs fn on the locked row of a user's own device.
func (s *Service) device(ctx context.Context, orgID, userID, id string, fn func(tx *event.Tx, row db.Destination) error) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Destination) error {
		if row.UserID == nil || *row.UserID != userID {
			return unknownDevice(id)
		}
		return fn(tx, row)
	})
}

func unknownDevice(id string) error {
	return fault.New(fault.NotFound, "you have no device %q", id).WithObject(id)
}

// ChangeDevice changes a device's name and events to what change returns for its row, which is
// locked meanwhile.
func (s *Service) ChangeDevice(ctx context.Context, orgID, userID, id string, change func(now db.Destination) (name string, events []string, err error), by event.Actor) (db.Destination, error) {
	err := s.device(ctx, orgID, userID, id, func(tx *event.Tx, row db.Destination) error {
		before, err := Spec(row)
		if err != nil {
			return err
		}
		name, events, err := change(row)
		if err != nil {
			return err
		}
		spec, err := deviceSpec(name, before.GetPush().GetPushService(), events)
		if err != nil {
			return err
		}
		if _, err := tx.UpdateDestination(ctx, db.UpdateDestinationParams{OrgID: orgID, ID: id, Spec: spec, Sealed: row.Sealed}); err != nil {
			return fmt.Errorf("store device %s: %w", id, err)
		}
		return record(tx, row, by, "destination.updated", map[string]any{"spec": string(row.Spec)}, map[string]any{"spec": string(spec)})
	})
	if err != nil {
		return db.Destination{}, err
	}
	return s.Get(ctx, orgID, id)
}

// DeleteDevice removes a device.
func (s *Service) DeleteDevice(ctx context.Context, orgID, userID, id string, by event.Actor) error {
	return s.device(ctx, orgID, userID, id, func(tx *event.Tx, row db.Destination) error {
		return s.remove(ctx, tx, row, by, "its device was removed")
	})
}

// TestDevice sends a notification to a user's own device, and returns why it was not
// accepted.
func (s *Service) TestDevice(ctx context.Context, orgID, userID, id string, by event.Actor) (refused string, err error) {
	if err := s.device(ctx, orgID, userID, id, func(*event.Tx, db.Destination) error { return nil }); err != nil {
		return "", err
	}
	notification, err := s.Test(ctx, orgID, id, by)
	if err != nil {
		return "", err
	}
	row, err := s.cfg.Store.DeviceNotification(ctx, db.DeviceNotificationParams{OrgID: orgID, ID: notification})
	if err != nil {
		return "", fmt.Errorf("load notification %s: %w", notification, err)
	}
	return row, nil
}

// addressee is whose a device is; nil if they may not log in any more.
type addressee struct {
	name  string
	admin bool
	// notifications is their preference of that name; empty for none.
	notifications string
}

// needed are the groups of events in which somebody waits for the user.
var needed = []string{"approvals", "questions", "escalations"}

// wanted returns those of a device's groups of events that its user wants: see
// memory.Notifications. Messages of agents to the user come in any case.
func (a *addressee) wanted(groups []string) []string {
	switch {
	case a != nil && a.notifications == "none":
		return []string{noEvents}
	case a != nil && a.notifications == "needed":
		groups = slices.DeleteFunc(slices.Clone(groups), func(group string) bool { return !slices.Contains(needed, group) })
		if len(groups) == 0 {
			return []string{noEvents}
		}
	}
	return groups
}

func (s *Service) addressee(ctx context.Context, row db.Destination) (*addressee, error) {
	user, err := s.cfg.Store.PushUser(ctx, db.PushUserParams{OrgID: row.OrgID, ID: *row.UserID})
	if store.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nobody
	}
	if err != nil {
		return nil, fmt.Errorf("load the user of device %s: %w", row.ID, err)
	}
	return &addressee{name: user.Name, admin: user.Admin, notifications: user.Notifications}, nil
}

// concerns reports whether a destination gets what is about a task that somebody submitted, or
// about no task if that is empty. A device gets what its user may see.
func (d *destination) concerns(createdBy string) bool {
	if d.Kind != kindPush {
		return true
	}
	return d.user != nil && (d.user.admin || createdBy != "" && createdBy == d.user.name)
}

// pushMessage is what the service worker of the console gets (ui/public/sw.js).
type pushMessage struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	// Tag makes a later message replace an earlier one about the same.
	Tag string `json:"tag"`
	// Path is what it opens, below the console's address.
	Path string `json:"path"`
}

// pushWords say what an agent wants, by type of event.
var pushWords = map[string]string{
	approvalRequested: "asks for approval",
	outcomeUnknown:    "does not know how a call ended",
	inputRequired:     "asks a question",
	reviewRequested:   "is done and asks for a review",
	taskFailed:        "has failed",
	"agent.escalated": "needs a person",
	agentSuspended:    "is suspended",
	budgetWarning:     "is close to its budget",
	limitReached:      "has reached a limit",
	planWarning:       "is close to the quota",
	planReached:       "has reached the quota",
	triggerTripped:    "has a trigger that stopped itself",
	deliveryFailed:    "has a delivery that started nothing",
}

// push returns the message about an event. It has the agent, what it wants, the tool's
// name and the task's title, and nothing of what was asked, run or printed.
func push(e CloudEvent) pushMessage {
	if e.Type == typeTest {
		return pushMessage{Title: "Deckhand", Body: "Notifications reach this device.", Tag: "test", Path: "settings"}
	}
	if e.Type == AgentMessage {
		return pushText(e)
	}
	who := "An agent"
	if e.Data.Agent != nil && e.Data.Agent.Name != "" {
		who = e.Data.Agent.Name
	}
	m := pushMessage{Title: oneLine(who+" "+cmp.Or(pushWords[e.Type], "has news"), maxPushText), Tag: e.Subject, Path: "inbox"}
	tool, _ := e.Data.Details["tool"].(string)
	var parts []string
	if tool != "" && e.Type != taskFailed {
		parts = append(parts, tool)
	}
	if e.Data.Task != nil {
		parts = append(parts, e.Data.Task.Name)
		m.Path = "tasks/" + url.PathEscape(e.Data.Task.ID)
	}
	m.Body = oneLine(strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " · "), maxPushText)
	if item, _ := e.Data.Details["item_id"].(string); item != "" {
		m.Tag, m.Path = item, "inbox?item="+url.QueryEscape(item)
	}
	return m
}

// push sends an event to a device: encrypted for it (RFC 8291), and signed (RFC 8292).
func (s *Service) push(ctx context.Context, d *destination, secret string, e CloudEvent) outcome {
	if d.user == nil {
		return outcome{gone: true, err: errors.New("its user may not log in any more")}
	}
	var to subscription
	if err := json.Unmarshal([]byte(secret), &to); err != nil {
		return outcome{err: errors.New("the subscription cannot be read")}
	}
	body, err := json.Marshal(push(e))
	if err != nil {
		return outcome{err: fmt.Errorf("encode a message: %w", err)}
	}
	topic := sha256.Sum256([]byte(cmp.Or(e.Subject, e.ID) + e.Type))
	var got outcome
	_, err = webpush.SendNotificationWithContext(ctx, body, &webpush.Subscription{Endpoint: to.Endpoint, Keys: webpush.Keys{P256dh: to.P256dh, Auth: to.Auth}}, &webpush.Options{ //nolint:bodyclose // it is the empty one below
		HTTPClient: doer(func(req *http.Request) (*http.Response, error) {
			data, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			header := map[string]string{}
			for name := range req.Header {
				header[name] = req.Header.Get(name)
			}
			got = s.post(ctx, to.Endpoint, "application/octet-stream", data, header)
			return &http.Response{StatusCode: got.status, Body: io.NopCloser(bytes.NewReader(nil))}, nil
		}),
		Subscriber: s.cfg.Contact, TTL: int(pushTTL.Seconds()), Urgency: webpush.UrgencyHigh, Topic: base64.RawURLEncoding.EncodeToString(topic[:24]),
		VAPIDPublicKey: s.cfg.PushKeys.Public, VAPIDPrivateKey: s.cfg.PushKeys.Private,
	})
	switch {
	case err != nil:
		return outcome{err: plainly(err, to.Endpoint)}
	case got.err != nil:
		got.err = plainly(got.err, to.Endpoint)
	}
	// RFC 8030, 7.3: the push service does not know the subscription any more.
	got.gone = got.status == http.StatusNotFound || got.status == http.StatusGone
	return got
}

// doer sends a request as a function.
type doer func(*http.Request) (*http.Response, error)

// Do sends a request.
func (d doer) Do(req *http.Request) (*http.Response, error) { return d(req) }
