package notification

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	stateEnabled  = "enabled"
	stateDisabled = "disabled"
	// maxDestinations is how many destinations an organisation may have.
	maxDestinations = 50
	leastKey        = 16
	madeKey         = 32
)

// Draft is a destination as it is asked for.
type Draft struct {
	OrgID, Name string
	Spec        *deckhandv1.DestinationSpec
	// Secret is empty for a webhook, whose secret is created here, and for none.
	Secret   string
	Disabled bool
	By       event.Actor
}

// kindOf returns a spec's kind.
func kindOf(spec *deckhandv1.DestinationSpec) string {
	switch spec.GetTo().(type) {
	case *deckhandv1.DestinationSpec_Webhook:
		return kindWebhook
	case *deckhandv1.DestinationSpec_Slack:
		return kindSlack
	case *deckhandv1.DestinationSpec_Email:
		return kindEmail
	}
	return kindNATS
}

// Create stores a destination, and returns the secret of a webhook.
func (s *Service) Create(ctx context.Context, d Draft) (row db.Destination, secret string, err error) {
	if err := check(d.Spec); err != nil {
		return row, "", err
	}
	kind := kindOf(d.Spec)
	if d.Secret == "" && kind == kindWebhook {
		d.Secret = makeSecret()
	}
	if err := checkSecret(d.Spec, d.Secret); err != nil {
		return row, "", err
	}
	p := db.CreateDestinationParams{ID: ident.New("dest"), OrgID: d.OrgID, Name: d.Name, Kind: kind, State: stateEnabled, CreatedBy: d.By.ID}
	if d.Disabled {
		p.State, p.Reason = stateDisabled, "it was made disabled"
	}
	if p.Spec, err = protojson.Marshal(d.Spec); err != nil {
		return row, "", fmt.Errorf("encode a spec: %w", err)
	}
	if p.Sealed, p.Hint, err = s.seal(d.OrgID, p.ID, sealed{Now: d.Secret}); err != nil {
		return row, "", err
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) (err error) {
		others, err := tx.CountDestinations(ctx, d.OrgID)
		if err != nil {
			return fmt.Errorf("count destinations: %w", err)
		}
		if others >= maxDestinations {
			return fault.New(fault.Exhausted, "there are %d destinations, and that is the most", others).WithFix("delete one first")
		}
		row, err = tx.CreateDestination(ctx, p)
		if store.IsNotFound(err) {
			return fault.New(fault.Exists, "there is a destination %q already", d.Name).
				WithFix("choose another name, or change it with: deckhand destination update %s", d.Name)
		}
		if err != nil {
			return fmt.Errorf("store destination %s: %w", d.Name, err)
		}
		return record(tx, row, d.By, "destination.created", nil, map[string]any{"name": row.Name, "kind": row.Kind, "state": row.State, "spec": string(row.Spec)})
	})
	if err == nil {
		s.learn(d.OrgID, p.ID, d.Secret)
	}
	if kind != kindWebhook {
		d.Secret = ""
	}
	return row, d.Secret, err
}

func record(tx *event.Tx, row db.Destination, by event.Actor, action string, before, after map[string]any) error {
	return audit.Append(tx, audit.Entry{
		OrgID: row.OrgID, By: by, Action: action, ObjectKind: "destination", ObjectID: row.ID, Before: before, After: after,
	})
}

// makeSecret returns a new secret in the format of Standard Webhooks.
func makeSecret() string {
	return "whsec_" + base64.StdEncoding.EncodeToString(ident.Hash(ident.Secret("dhk"))[:madeKey])
}

func (s *Service) seal(orgID, id string, secret sealed) (data []byte, hint string, err error) {
	if secret.Now == "" {
		return nil, "", nil
	}
	plain, err := json.Marshal(secret)
	if err != nil {
		return nil, "", fmt.Errorf("encode a secret: %w", err)
	}
	const shown, least = 4, 12
	if len(secret.Now) >= least {
		hint = secret.Now[len(secret.Now)-shown:]
	}
	data, err = s.cfg.Vault.Seal(plain, object(orgID, id))
	return data, hint, err
}

// check returns what is wrong with a spec.
func check(spec *deckhandv1.DestinationSpec) error {
	if _, err := selected(spec); err != nil {
		return err
	}
	if err := checkAccess(spec); err != nil {
		return err
	}
	switch to := spec.GetTo().(type) {
	case *deckhandv1.DestinationSpec_Webhook:
		return checkURL("spec.webhook.url", to.Webhook.GetUrl())
	case *deckhandv1.DestinationSpec_Email:
		return checkEmail(to.Email)
	case *deckhandv1.DestinationSpec_Push:
		return fault.New(fault.Invalid, "spec.push is a device of a user").WithFix("add it on the device itself, in the console: Settings, Notifications on this device")
	}
	return nil
}

func checkURL(field, text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return fault.New(fault.Invalid, "%s is not the URL of a web server", field).WithFix("give one such as https://hooks.example.com/deckhand")
	case u.User != nil:
		return fault.New(fault.Invalid, "%s has a user", field).WithFix("leave it out: what is sent is signed")
	case u.Fragment != "":
		return fault.New(fault.Invalid, "%s has a fragment, which no server sees", field).WithFix("leave out the # and what comes after it")
	}
	return nil
}

func checkEmail(m *deckhandv1.EmailDestination) error {
	if strings.ContainsFunc(m.GetHost(), func(r rune) bool {
		return r != '.' && r != '-' && r != ':' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) || strings.Contains(m.GetHost(), ":") && net.ParseIP(m.GetHost()) == nil {
		return fault.New(fault.Invalid, "spec.email.host is %q, which is no name of a server", m.GetHost()).WithFix("give a name or an address, without a port")
	}
	for _, address := range append([]string{m.GetFrom()}, m.GetTo()...) {
		if _, err := mail.ParseAddress(address); err != nil || oneLine(address, len(address)+1) != address {
			return fault.New(fault.Invalid, "spec.email has the address %q, which is not valid", oneLine(address, maxSummary)).WithFix("give addresses such as ops@example.com")
		}
	}
	if m.GetSecurity() == securityNone && m.GetUsername() != "" {
		return fault.New(fault.Invalid, "spec.email.security is none, and the password would not be encrypted").WithFix("use starttls or tls, or leave out the user")
	}
	return nil
}

// checkSecret returns what is wrong with a secret.
func checkSecret(spec *deckhandv1.DestinationSpec, secret string) error {
	if strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fault.New(fault.Invalid, "secret holds line ends or characters that none has").WithFix("copy it again, whole and alone")
	}
	switch kindOf(spec) {
	case kindWebhook:
		text, ok := strings.CutPrefix(secret, "whsec_")
		if key, err := base64.StdEncoding.DecodeString(text); !ok || err != nil || len(key) < leastKey {
			return fault.New(fault.Invalid, "secret is not one of Standard Webhooks").WithFix("give whsec_ and base64 of at least %d bytes, or leave it out", leastKey)
		}
	case kindSlack:
		if err := checkURL("secret", secret); err != nil {
			return fault.New(fault.Invalid, "secret is not the URL of an incoming webhook").WithFix("copy it from Slack: https://hooks.slack.com/services/…")
		}
	case kindEmail:
		if named := spec.GetEmail().GetUsername() != ""; named != (secret != "") {
			return fault.New(fault.Invalid, "spec.email.username and secret go together").WithFix("give both or neither")
		}
	case kindNATS:
		if secret != "" {
			return fault.New(fault.Invalid, "nats has no secret").WithFix("leave it out")
		}
	}
	return nil
}

// locked runs fn on a destination's locked row.
func (s *Service) locked(ctx context.Context, orgID, id string, fn func(tx *event.Tx, row db.Destination) error) error {
	return s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		row, err := tx.LockDestination(ctx, db.LockDestinationParams{OrgID: orgID, ID: id})
		if store.IsNotFound(err) {
			return unknown(id)
		}
		if err != nil {
			return fmt.Errorf("lock destination %s: %w", id, err)
		}
		return fn(tx, row)
	})
}

func unknown(id string) error {
	return fault.New(fault.NotFound, "there is no destination %q", id).WithObject(id)
}

// Change gives a destination the spec that change returns for its present one, which is locked
// meanwhile, and another secret unless that is empty.
func (s *Service) Change(ctx context.Context, orgID, id string, change func(now *deckhandv1.DestinationSpec) (*deckhandv1.DestinationSpec, error), secret string, by event.Actor) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Destination) error {
		before, err := Spec(row)
		if err != nil {
			return err
		}
		spec, err := change(proto.CloneOf(before))
		if err != nil {
			return err
		}
		if err := check(spec); err != nil {
			return err
		}
		if kind := kindOf(spec); kind != row.Kind {
			return fault.New(fault.Invalid, "destination %s is of kind %s, and cannot become one of %s", row.Name, row.Kind, kind).WithFix("make another one")
		}
		kept, err := s.secret(row)
		if err != nil {
			return err
		}
		if row.Kind == kindEmail && secret == "" {
			// A password is not sent to another server.
			if was, is := before.GetEmail(), spec.GetEmail(); kept.Now != "" && is.GetUsername() != "" &&
				(was.GetHost() != is.GetHost() || was.GetPort() != is.GetPort() || was.GetUsername() != is.GetUsername()) {
				return fault.New(fault.Invalid, "spec.email names another server or user, and secret is empty").WithFix("give the password again")
			}
			if spec.GetEmail().GetUsername() == "" {
				kept = sealed{}
			}
		}
		if secret != "" {
			kept = sealed{Now: secret}
		}
		if err := checkSecret(spec, kept.Now); err != nil {
			return err
		}
		p := db.UpdateDestinationParams{OrgID: orgID, ID: id}
		if p.Spec, err = protojson.Marshal(spec); err != nil {
			return fmt.Errorf("encode a spec: %w", err)
		}
		if p.Sealed, p.Hint, err = s.seal(orgID, id, kept); err != nil {
			return err
		}
		if _, err := tx.UpdateDestination(ctx, p); err != nil {
			return fmt.Errorf("store destination %s: %w", id, err)
		}
		tx.AfterCommit(func() { s.learn(orgID, id, kept.Now) })
		return record(tx, row, by, "destination.updated", map[string]any{"spec": string(row.Spec)},
			map[string]any{"spec": string(p.Spec), "secret_changed": secret != ""})
	})
}

// Rotate replaces a webhook's secret, and returns the new one. For keep, messages are
// signed with the previous one too.
func (s *Service) Rotate(ctx context.Context, orgID, id string, keep time.Duration, by event.Actor) (secret string, err error) {
	err = s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Destination) error {
		if row.Kind != kindWebhook {
			return fault.New(fault.Precondition, "destination %s is of kind %s, whose secret is not made here", row.Name, row.Kind).
				WithFix("deckhand destination update %s --secret-file FILE", row.Name).WithObject(id)
		}
		before, err := s.secret(row)
		if err != nil {
			return err
		}
		secret = makeSecret()
		p := db.UpdateDestinationParams{OrgID: orgID, ID: id, Spec: row.Spec}
		if p.Sealed, p.Hint, err = s.seal(orgID, id, sealed{Now: secret, Before: before.Now, Until: time.Now().Add(keep).UTC()}); err != nil {
			return err
		}
		if _, err := tx.UpdateDestination(ctx, p); err != nil {
			return fmt.Errorf("store the secret of destination %s: %w", id, err)
		}
		tx.AfterCommit(func() { s.learn(orgID, id, secret) })
		return record(tx, row, by, "destination.secret_rotated", map[string]any{"secret_ends_in": row.Hint},
			map[string]any{"secret_ends_in": p.Hint, "both_for": keep.String()})
	})
	return secret, err
}

// Enable starts to send notifications to a destination, including those that are pending.
func (s *Service) Enable(ctx context.Context, orgID, id string, by event.Actor) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Destination) error {
		if row.State == stateEnabled {
			return nil
		}
		if err := tx.EnableDestination(ctx, db.EnableDestinationParams{OrgID: orgID, ID: id}); err != nil {
			return fmt.Errorf("enable destination %s: %w", id, err)
		}
		tx.AfterCommit(s.Kick)
		return record(tx, row, by, "destination.enabled", map[string]any{"state": row.State, "reason": row.Reason}, map[string]any{"state": stateEnabled})
	})
}

// Disable stops sending notifications to a destination; pending ones are kept.
func (s *Service) Disable(ctx context.Context, orgID, id, reason string, by event.Actor) error {
	why := "disabled by " + by.ID
	if reason = oneLine(s.cfg.Redact.Org(orgID).String(reason), maxSummary); reason != "" {
		why += ": " + reason
	}
	return s.disable(ctx, orgID, id, why, by)
}

func (s *Service) disable(ctx context.Context, orgID, id, why string, by event.Actor) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Destination) error {
		if row.State == stateDisabled {
			return nil
		}
		if err := tx.DisableDestination(ctx, db.DisableDestinationParams{OrgID: orgID, ID: id, Reason: why}); err != nil {
			return fmt.Errorf("disable destination %s: %w", id, err)
		}
		return record(tx, row, by, "destination.disabled", map[string]any{"state": row.State}, map[string]any{"state": stateDisabled, "reason": why})
	})
}

// Delete ends a destination for good, with its secret and what is pending.
func (s *Service) Delete(ctx context.Context, orgID, id string, by event.Actor) error {
	return s.locked(ctx, orgID, id, func(tx *event.Tx, row db.Destination) error {
		return s.remove(ctx, tx, row, by, "its destination was deleted")
	})
}

// remove deletes a destination whose row is locked, and ends what is pending.
func (s *Service) remove(ctx context.Context, tx *event.Tx, row db.Destination, by event.Actor, why string) error {
	if err := tx.DeleteDestination(ctx, db.DeleteDestinationParams{OrgID: row.OrgID, ID: row.ID}); err != nil {
		return fmt.Errorf("delete destination %s: %w", row.ID, err)
	}
	if err := tx.EndNotifications(ctx, db.EndNotificationsParams{OrgID: row.OrgID, DestinationID: row.ID, Error: why}); err != nil {
		return fmt.Errorf("end the notifications of destination %s: %w", row.ID, err)
	}
	return record(tx, row, by, "destination.deleted", map[string]any{"name": row.Name, "kind": row.Kind, "spec": string(row.Spec)}, map[string]any{"why": why})
}

// Find returns the id of the destination that ref names: a name, an id or a
// unique prefix of one.
func (s *Service) Find(ctx context.Context, orgID, ref string) (string, error) {
	rows, err := s.cfg.Store.FindDestinations(ctx, db.FindDestinationsParams{OrgID: orgID, Ref: ref, Prefix: store.Prefix("dest", ref)})
	return store.One("destination", ref, rows, err)
}

// Get returns a destination by its id.
func (s *Service) Get(ctx context.Context, orgID, id string) (db.Destination, error) {
	row, err := s.cfg.Store.GetDestination(ctx, db.GetDestinationParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, unknown(id)
	}
	return row, err
}

// List returns a page of destinations by name, their Counts, and the next page's token.
func (s *Service) List(ctx context.Context, orgID, page string, size int32) ([]db.Destination, map[string]db.CountNotificationsRow, string, error) {
	after, _, err := store.ParseNameToken(page)
	if err != nil {
		return nil, nil, "", err
	}
	rows, err := s.cfg.Store.ListDestinations(ctx, db.ListDestinationsParams{OrgID: orgID, AfterName: after, MaxRows: size + 1})
	if err != nil {
		return nil, nil, "", fmt.Errorf("list destinations: %w", err)
	}
	rows, next := store.Page(rows, size, func(last db.Destination) string { return store.NameToken(last.Name, "") })
	counts, err := s.Counts(ctx, orgID)
	return rows, counts, next, err
}

// Counts returns how many notifications of each destination wait or were given up.
func (s *Service) Counts(ctx context.Context, orgID string) (map[string]db.CountNotificationsRow, error) {
	counts, err := s.cfg.Store.CountNotifications(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("count notifications: %w", err)
	}
	of := map[string]db.CountNotificationsRow{}
	for _, c := range counts {
		of[c.DestinationID] = c
	}
	return of, nil
}

// FindNotification returns the id of the notification that ref names: an id or a unique
// prefix.
func (s *Service) FindNotification(ctx context.Context, orgID, ref string) (string, error) {
	rows, err := s.cfg.Store.FindNotifications(ctx, db.FindNotificationsParams{OrgID: orgID, Ref: ref, Prefix: store.Prefix("ntc", ref)})
	if err == nil && len(rows) == 0 {
		return "", fault.New(fault.NotFound, "there is no notification %q", ref).WithFix("list what there is with: deckhand destination notifications").WithObject(ref)
	}
	return store.One("notification", ref, rows, err)
}

// Notification returns a notification by its id.
func (s *Service) Notification(ctx context.Context, orgID, id string) (db.GetNotificationRow, error) {
	row, err := s.cfg.Store.GetNotification(ctx, db.GetNotificationParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no notification %q", id).WithObject(id)
	}
	return row, err
}

// Filter picks notifications; empty fields pick all.
type Filter struct {
	DestinationID string
	States        []string
	PageSize      int32
	PageToken     string
}

// Notifications returns a page of notifications, newest first, and the next page's token.
func (s *Service) Notifications(ctx context.Context, orgID string, f Filter) ([]db.ListNotificationsRow, string, error) {
	params := db.ListNotificationsParams{OrgID: orgID, States: f.States, MaxRows: f.PageSize + 1}
	if f.DestinationID != "" {
		params.DestinationID = &f.DestinationID
	}
	s.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := params
		all.MaxRows = maxRows
		_, err := q.ListNotifications(ctx, all)
		return err
	})
	if f.PageToken != "" {
		at, id, err := store.ParsePageToken(f.PageToken)
		if err != nil {
			return nil, "", err
		}
		params.BeforeTime, params.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListNotifications(ctx, params)
	if err != nil {
		return nil, "", fmt.Errorf("list notifications: %w", err)
	}
	if len(rows) <= int(f.PageSize) {
		return rows, "", nil
	}
	rows = rows[:f.PageSize]
	last := rows[len(rows)-1]
	return rows, store.PageToken(last.CreatedAt, last.ID), nil
}

// Redrive sends dead notifications again: one, or, with an empty id, all of a
// destination. It returns how many.
func (s *Service) Redrive(ctx context.Context, orgID, id, destinationID string, by event.Actor) (n int64, err error) {
	if id != "" {
		row, err := s.Notification(ctx, orgID, id)
		if err != nil {
			return 0, err
		}
		if row.Notification.State != dead {
			return 0, fault.New(fault.Precondition, "notification %s is %s", id, row.Notification.State).WithFix("only dead ones are sent again").WithObject(id)
		}
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if n, err = tx.RedriveNotifications(ctx, db.RedriveNotificationsParams{OrgID: orgID, ID: id, DestinationID: destinationID, Keep: s.cfg.GiveUp}); err != nil {
			return fmt.Errorf("send notifications again: %w", err)
		}
		tx.AfterCommit(s.Kick)
		return audit.Append(tx, audit.Entry{
			OrgID: orgID, By: by, Action: "notification.redriven", ObjectKind: "destination", ObjectID: destinationID, After: map[string]any{"notification_id": id, "notifications": n},
		})
	})
	return n, err
}
