package trigger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/mapping"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/verify"
	"github.com/deckhand-sh/deckhand/internal/crashpoint"
	"github.com/deckhand-sh/deckhand/internal/fair"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// A webhook's request is read whole, within limits of size and time, and verified before
// anything else reads it.

const (
	// Prefix is where webhooks are, below the hub's URL; the trigger's id follows.
	Prefix = "/webhooks/"
	// bodyTimeout is how long a sender may take to send a body.
	bodyTimeout = 10 * time.Second
	// maxRoom is how many bytes the bodies in progress may have together, and with
	// them the memory that strangers can take; eachRoom how many those of one
	// organisation, and those from one address. What is counted is what has come,
	// never what a sender announces.
	maxRoom  = 256 << 20
	eachRoom = 64 << 20
	// heldRetry is when a sender may try again what a hold keeps away.
	heldRetry = 60
	maxKey    = 200
	maxEvent  = 100
)

var triggerID = regexp.MustCompile(`^trig_[0-9a-hjkmnp-tv-z]{20}$`)

// refusal is an answer to a sender.
type refusal struct {
	status int
	why    string
	retry  int // seconds; 0 for none
}

func (r *refusal) Error() string { return r.why }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, why: fmt.Sprintf(format, args...)}
}

// ServeHTTP handles POST /webhooks/{id}: 202 for a delivery that was stored, 200 for one
// that had been stored before.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	status, answer, err := s.take(w, r)
	var no *refusal
	switch {
	case errors.As(err, &no):
		if no.retry > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(no.retry))
		}
		status, answer = no.status, map[string]string{"error": no.why}
	case err != nil && r.Context().Err() == nil:
		s.cfg.Log.Warn("a webhook was refused", "trigger_id", r.PathValue("id"), "error", err)
		w.Header().Set("Retry-After", "1")
		status, answer = http.StatusServiceUnavailable, map[string]string{"error": "the hub cannot store it now: send it again"}
	case err != nil:
		return // the client is gone
	}
	s.cfg.OnResponse(status, time.Since(started))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// A sender that does not read has what it sent stored all the same.
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Service) take(w http.ResponseWriter, r *http.Request) (int, map[string]string, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return 0, nil, refuse(http.StatusMethodNotAllowed, "send it with POST")
	}
	if _, known := s.known.Get(r.PathValue("id")); !known {
		if err := s.cfg.Failures.MayFail(r.RemoteAddr); err != nil {
			no := refuse(http.StatusTooManyRequests, "%s", err)
			no.retry = 1
			return 0, nil, no
		}
	}
	c, err := s.lookup(r.Context(), r.PathValue("id"), false)
	if err != nil {
		var no *refusal
		if errors.As(err, &no) && no.status == http.StatusNotFound {
			s.cfg.Failures.Failed(r.RemoteAddr)
		}
		return 0, nil, err
	}
	body, left, err := s.read(w, r, c, cmp.Or(c.spec.GetWebhook().GetMaxBytes(), defaultMaxBytes))
	defer left()
	if err != nil {
		return 0, nil, err
	}
	turn := s.cfg.Turns.Turn(c.row.OrgID)
	defer turn.End()
	if err := turn.Begin(r.Context()); fault.As(err) != nil {
		return 0, nil, busy()
	} else if err != nil {
		return 0, nil, err
	}
	// A second time with the database's row, if the cached one is outdated: its secret
	// may have been changed, or the trigger disabled.
	for fresh := false; ; fresh = true {
		status, answer, err := s.accept(r, c, body)
		var no *refusal
		stale := errors.Is(err, errStale) || errors.As(err, &no) && no.status == http.StatusUnauthorized
		if !stale || fresh {
			return status, answer, err
		}
		if c, err = s.lookup(r.Context(), c.row.ID, true); err != nil {
			return 0, nil, err
		}
	}
}

// lookup returns an enabled webhook; with fresh, as the database has it.
func (s *Service) lookup(ctx context.Context, id string, fresh bool) (*compiled, error) {
	unknown := refuse(http.StatusNotFound, "there is no such webhook")
	if !triggerID.MatchString(id) {
		return nil, unknown
	}
	if c, ok := s.known.Get(id); ok && !fresh && c.row.State == stateEnabled && Kind(c.row.Kind) == Webhook {
		return c, nil
	}
	row, err := s.cfg.Store.TriggerByID(ctx, id)
	switch {
	case store.IsNotFound(err):
		s.known.Remove(id)
		return nil, unknown
	case err != nil:
		return nil, fmt.Errorf("load trigger %s: %w", id, err)
	case Kind(row.Kind) != Webhook:
		return nil, unknown
	case row.State != stateEnabled:
		return nil, refuse(http.StatusGone, "this webhook is not enabled")
	}
	return s.compile(row)
}

// key returns what distinguishes a delivery. If an expression computes it, those of one
// organisation run one after another.
func (s *Service) key(r *http.Request, c *compiled, headers map[string]string, name string, body []byte, now time.Time) (string, error) {
	if c.spec.GetWebhook().GetDedupeKey() != "" {
		done, err := s.lanes.Take(r.Context(), c.row.OrgID)
		if e := fault.As(err); e != nil {
			return "", busy()
		}
		if err != nil {
			return "", err
		}
		defer done()
	}
	return c.key(r.Context(), r.Header, headers, name, body, now), nil
}

func busy() *refusal {
	no := refuse(http.StatusServiceUnavailable, "the hub is busy")
	no.retry = 1
	return no
}

// read reads a body within its limits, and returns a function that releases its memory.
func (s *Service) read(w http.ResponseWriter, r *http.Request, c *compiled, most int64) (body []byte, left func(), err error) {
	bounded := fair.NewBody(w, r, fair.Bounds{Begin: bodyTimeout, Room: s.room},
		"organisation "+c.row.OrgID, "address "+auth.RateKey(r.RemoteAddr))
	left = bounded.Leave
	tooLarge := refuse(http.StatusRequestEntityTooLarge, "the body is over the limit of %d bytes", most)
	if r.ContentLength > most {
		w.Header().Set("Connection", "close")
		return nil, left, tooLarge
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, left, refuse(http.StatusUnsupportedMediaType, "the body is compressed: send it as it is")
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, bounded, most))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return body, left, nil
	case errors.As(err, &large):
		return nil, left, tooLarge
	case errors.Is(err, fair.ErrFull):
		w.Header().Set("Connection", "close")
		return nil, left, busy()
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, left, refuse(http.StatusRequestTimeout, "the body took longer than %s", bodyTimeout)
	}
	return nil, left, refuse(http.StatusBadRequest, "the body cannot be read")
}

// errStale reports that a trigger differs from the cached one.
var errStale = errors.New("the trigger has changed")

// accept verifies and stores what was sent.
func (s *Service) accept(r *http.Request, c *compiled, body []byte) (int, map[string]string, error) {
	rule, now := c.rule(), time.Now()
	if err := rule.Check(verify.Request{Query: r.URL.Query(), Header: r.Header, Body: body}, now, c.current(now)...); err != nil {
		return 0, nil, refuse(http.StatusUnauthorized, "%s", err)
	}
	from := proof(c.spec.GetWebhook())
	if from.Challenge != nil {
		if challenge, ok := from.Challenge(body); ok {
			return http.StatusOK, map[string]string{"challenge": short(challenge, maxKey)}, nil
		}
	}
	if err := s.limit(c); err != nil {
		return 0, nil, err
	}
	headers := rule.Keep(r.Header)
	data, err := json.Marshal(headers)
	if err != nil {
		return 0, nil, fmt.Errorf("encode headers: %w", err)
	}
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	name := short(from.EventOf(r.Header), maxEvent)
	key, err := s.key(r, c, headers, name, body, now)
	if err != nil {
		return 0, nil, err
	}
	params := db.TakeDeliveryParams{
		ID: ident.New("dlv"), Key: key, Address: address, Event: name, Headers: data, Body: body, TriggerID: c.row.ID, Revision: c.row.Revision,
	}
	id, err := s.cfg.Store.TakeDelivery(r.Context(), params)
	if store.IsNotFound(err) {
		return s.notTaken(r.Context(), c, params)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("store a delivery of %s: %w", c.row.ID, err)
	}
	crashpoint.At(crashpoint.AfterDelivery, id, "") // there is no task yet
	s.Kick()
	return http.StatusAccepted, map[string]string{"delivery_id": id}, nil
}

// notTaken finds out why a delivery was not stored.
func (s *Service) notTaken(ctx context.Context, c *compiled, p db.TakeDeliveryParams) (int, map[string]string, error) {
	row, err := s.cfg.Store.TriggerByID(ctx, c.row.ID)
	if err != nil && !store.IsNotFound(err) {
		return 0, nil, fmt.Errorf("load trigger %s: %w", c.row.ID, err)
	}
	if err != nil || row.Revision != c.row.Revision {
		return 0, nil, errStale
	}
	first, err := s.cfg.Store.DeliveryByKey(ctx, db.DeliveryByKeyParams{OrgID: c.row.OrgID, TriggerID: c.row.ID, Key: p.Key})
	if err == nil {
		// The answer holds whether or not this can be noted.
		if err := s.cfg.Store.CreateDuplicate(ctx, db.CreateDuplicateParams{
			ID: p.ID, OrgID: c.row.OrgID, TriggerID: c.row.ID, Key: p.Key, Reason: "the sender had sent it before, as " + first.ID,
			Address: p.Address, Event: p.Event, Headers: p.Headers, DuplicateOf: first.ID,
		}); err != nil {
			s.cfg.Log.Warn("cannot record a duplicate", "trigger_id", c.row.ID, "delivery_id", first.ID, "error", err)
		}
		return http.StatusOK, map[string]string{"delivery_id": first.ID, "duplicate": "true"}, nil
	}
	if !store.IsNotFound(err) {
		return 0, nil, fmt.Errorf("find the delivery of that key: %w", err)
	}
	held, err := s.cfg.Store.TriggerStanding(ctx, c.row.ID)
	if err != nil {
		return 0, nil, fmt.Errorf("find holds on trigger %s: %w", c.row.ID, err)
	}
	if held {
		no := refuse(http.StatusServiceUnavailable, "this webhook is held: send it again later")
		no.retry = heldRetry
		return 0, nil, no
	}
	return 0, nil, errStale
}

// limit takes one of what a webhook may take a minute.
func (s *Service) limit(c *compiled) error {
	perMinute := cmp.Or(c.spec.GetWebhook().GetRatePerMinute(), defaultRate)
	limiter, ok := s.rates.Get(c.row.ID)
	every := rate.Limit(float64(perMinute) / 60)
	if !ok || limiter.Burst() != int(perMinute) {
		fresh := rate.NewLimiter(every, int(perMinute))
		if other, there, _ := s.rates.PeekOrAdd(c.row.ID, fresh); there && other.Burst() == int(perMinute) {
			fresh = other
		} else if there {
			s.rates.Add(c.row.ID, fresh)
		}
		limiter = fresh
	}
	if limiter.Allow() {
		return nil
	}
	no := refuse(http.StatusTooManyRequests, "over %d deliveries a minute", perMinute)
	no.retry = max(1, int(math.Ceil(60/float64(perMinute))))
	return no
}

// key returns what distinguishes a delivery from others.
func (c *compiled) key(ctx context.Context, h http.Header, kept map[string]string, name string, body []byte, now time.Time) string {
	w := c.spec.GetWebhook()
	header := w.GetDedupeHeader()
	if header == "" && w.GetDedupeKey() == "" {
		header = proof(w).ID
	}
	if header != "" {
		if values := h.Values(header); len(values) == 1 && strings.TrimSpace(values[0]) != "" {
			return "id:" + short(values[0], maxKey)
		}
	}
	if p, err := c.mapper(); err == nil && p.HasKey() {
		payload, err := mapping.Payload(h.Get("Content-Type"), body)
		if err == nil {
			if key, err := p.Key(ctx, mapping.Input{Payload: payload, Headers: kept, Event: name}); err == nil && key != "" {
				return "key:" + short(key, maxKey)
			}
		}
	}
	window := int64(defaultDedupeWindow / time.Second)
	if d := w.GetDedupeWindow(); d != nil {
		window = d.GetSeconds()
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%d\n%s\n", c.row.ID, now.Unix()/window, name)
	_, _ = sum.Write(body)
	return "hash:" + hex.EncodeToString(sum.Sum(nil))
}

// short returns a sender's text in a form that can be stored: a long one as its digest.
func short(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(strings.TrimSpace(text), "�"))
	if len(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
