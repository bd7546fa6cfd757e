package bus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Stream is the work-queue stream of all wake-ups.
const Stream = "WAKEUPS"

// DefaultPool is the pool of tasks and workers that name none.
const DefaultPool = "default"

// The two accounts, the hub's user in each, and the user of other systems in the
// second.
const (
	workAccount   = "WORK"
	eventsAccount = "EVENTS"
	hubUser       = "hub"
	eventsUser    = "hub-events"
	listenerUser  = "lifecycle"
	workerPrefix  = "worker."
)

// Access is what a worker needs to receive its pool's wake-ups.
type Access struct {
	// URL is empty if the server is only reachable in-process: pass the worker the Server
	// itself then (nats.InProcessServer).
	URL      string
	Username string
	// Password is a secret.
	Password    string
	InboxPrefix string
	Stream      string
	Consumer    string
	// Authority is the authority of the server's certificate, as PEM; empty for the
	// system's. ServerName is the name in the certificate; empty for the host.
	Authority, ServerName string
}

func wakeSubject(pool string) string   { return "wake." + pool }
func consumerName(pool string) string  { return "pool-" + pool }
func inboxPrefix(worker string) string { return "_INBOX.worker." + worker }

// lifecyclePrefix begins the subjects that other systems may listen to.
const lifecyclePrefix = "lifecycle."

func eventSubject(org, task string) string    { return "events." + org + "." + task }
func thinkingSubject(org, task string) string { return "thinking." + org + "." + task }

// token checks that a name can be one token of a subject: one with a dot or a
// wildcard would reach beyond its own subject.
func token(what, name string) error {
	if name == "" || len(name) > 128 || strings.ContainsAny(name, ".*> \t\r\n\x00") {
		return fault.New(fault.Invalid, "%s %q cannot be used on the bus", what, name).
			WithFix("use letters, digits, dashes and underscores")
	}
	return nil
}

// poolSubjects are all subjects that a worker may publish to: to read its pool's
// consumer, to pull from it, and to acknowledge.
func poolSubjects(pool string) [3]string {
	consumer := Stream + "." + consumerName(pool)
	return [3]string{
		"$JS.API.CONSUMER.INFO." + consumer,
		"$JS.API.CONSUMER.MSG.NEXT." + consumer,
		"$JS.ACK." + consumer + ".>",
	}
}

// workerPassword follows from the server's secret and the user's name, so that
// nothing needs to be stored for a worker and none can guess another's.
func workerPassword(secret, username string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(username))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func workerUsername(pool, worker string) string { return workerPrefix + pool + "." + worker }

// splitWorker undoes workerUsername.
func splitWorker(username string) (pool, worker string, ok bool) {
	rest, ok := strings.CutPrefix(username, workerPrefix)
	if !ok {
		return "", "", false
	}
	pool, worker, ok = strings.Cut(rest, ".")
	return pool, worker, ok && token("pool", pool) == nil && token("worker", worker) == nil
}
