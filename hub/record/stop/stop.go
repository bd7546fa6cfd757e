// Package stop records what keeps work from going on and is no call of an agent: a task
// stands at a limit, a budget is used up, an agent is suspended, a host was refused, the
// key of a provider or a credential ended. Each is an inbox item of its own kind, about a
// subject, and at most one is open for a subject.
//
// Open adds an item in the transaction in which the work stops, and Withdraw closes it in
// the one in which the cause goes. Tasks that pause because of a budget or a provider are
// kept with Hold; LockWaiting returns them, so that the code that removes the cause lets them go
// on. The database itself withdraws the stop of a task that leaves the paused state.
//
// A stop that a person has dismissed is not opened again for the same cause. What the
// items say is masked.
package stop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Kind is the kind of a stop.
type Kind string

// The kinds, with their subjects.
const (
	// Limit: a task stands at a limit of its run. The subject is the task's id.
	Limit Kind = "limit"
	// Budget: a budget has too little left for a call. The subject is BudgetSubject.
	Budget Kind = "budget"
	// Suspended: failures in a row have suspended an agent. The subject is its id.
	Suspended Kind = "suspended"
	// Egress: a command of an agent was refused a host. The subject is EgressSubject.
	Egress Kind = "egress"
	// Provider: a provider of models cannot be called. The subject is its name, or
	// OutageSubject if it does not answer.
	Provider Kind = "provider"
	// Credential: a credential of the egress has expired, or its server refuses it. The
	// subject is its name.
	Credential Kind = "credential"
)

// Kinds returns the names of all kinds.
func Kinds() []string {
	return []string{string(Limit), string(Budget), string(Suspended), string(Egress), string(Provider), string(Credential)}
}

// Is reports whether a kind of an inbox item is that of a stop.
func Is(kind string) bool {
	switch Kind(kind) {
	case Limit, Budget, Suspended, Egress, Provider, Credential:
		return true
	}
	return false
}

// Detail is what a stop is about. The fields of its kind are set.
type Detail struct {
	// LimitName is that of the persona's limits: "iterations", "active_time", "tokens",
	// "calls", "cost_usd", "files" or "file_size". LimitMost is what the run may use of it now:
	// seconds, micro-dollars, bytes, or a number.
	LimitName string `json:"limit_name,omitempty"`
	LimitMost int64  `json:"limit_most,omitempty"`

	// Scope, ObjectID and Every name a budget. Amounts are in micro-dollars; Amount is what
	// the call that was refused may cost.
	Scope       string `json:"scope,omitempty"`
	ObjectID    string `json:"object_id,omitempty"`
	Every       string `json:"every,omitempty"`
	Period      string `json:"period,omitempty"`
	LimitMicros int64  `json:"limit_micros,omitempty"`
	SpentMicros int64  `json:"spent_micros,omitempty"`
	Amount      int64  `json:"amount_micros,omitempty"`

	// Host and Port were refused; Step and Tool are of the command.
	Host   string `json:"host,omitempty"`
	Port   uint16 `json:"port,omitempty"`
	Method string `json:"method,omitempty"`
	StepID string `json:"step_id,omitempty"`
	Tool   string `json:"tool,omitempty"`

	// Provider or Credential is the name of what cannot be used, and Reason why: "refused",
	// "expired", "not_connected", "quota" or "outage".
	Provider   string `json:"provider,omitempty"`
	Credential string `json:"credential,omitempty"`
	Reason     string `json:"reason,omitempty"`
	// Login reports that the provider was connected with a login.
	Login bool `json:"login,omitempty"`
	// Status is that of the server's response, 0 for none.
	Status int32 `json:"status,omitempty"`
}

// DetailOf reads the detail of an item.
func DetailOf(item db.InboxItem) (Detail, error) {
	var d Detail
	if err := json.Unmarshal(item.Detail, &d); err != nil {
		return d, fmt.Errorf("read what %s is about: %w", item.ID, err)
	}
	return d, nil
}

// Target returns the host that was refused.
func (d Detail) Target() (allowlist.Target, error) {
	return allowlist.ParseTarget(net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port))), 0)
}

// BudgetSubject names the account of a budget.
func BudgetSubject(scope, objectID, period string) string {
	return scope + "/" + objectID + "/" + period
}

// EgressSubject names a host for an agent. It is stored and shown without being masked, and a
// command can ask for a host that has a secret in its name, so it has only a digest of it.
func EgressSubject(agentID, host string) string {
	sum := sha256.Sum256([]byte(host))
	return agentID + "/" + hex.EncodeToString(sum[:16])
}

// Stop is a stop to open.
type Stop struct {
	OrgID   string
	Kind    Kind
	Subject string
	// Cause is what made it, if there may be others: a dismissed stop is opened again for
	// another one only.
	Cause string
	// TaskID is the task that shows it; empty for none. Its row is locked.
	TaskID  string
	AgentID string
	// ToldTo is the task whose history gets the event, for items of no task; empty for
	// none. Its row is locked.
	ToldTo string
	// Title says in one line what stopped, and Why for which reason.
	Title, Why string
	Detail     Detail
}

const (
	// quiet is how long a dismissed stop is not opened again for the same cause.
	quiet = 7 * 24 * time.Hour
	// maxHosts is how many refused hosts of one agent are open at once: a command may try
	// any number of names.
	maxHosts = 20
)

// Open opens a stop and returns the item's id; "" if nothing was opened because one is
// open for the subject, or was dismissed.
func Open(ctx context.Context, tx *event.Tx, s Stop) (string, error) {
	mask := tx.Redact(s.OrgID)
	data, err := json.Marshal(s.Detail)
	if err != nil {
		return "", fmt.Errorf("encode what stops %s: %w", s.Subject, err)
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		return "", fmt.Errorf("encode what stops %s: %w", s.Subject, err)
	}
	if data, err = json.Marshal(mask.Map(plain)); err != nil {
		return "", fmt.Errorf("encode what stops %s: %w", s.Subject, err)
	}
	params := db.CreateStopParams{
		ID: ident.New("inbox"), OrgID: s.OrgID, Kind: string(s.Kind), TaskID: s.TaskID, AgentID: s.AgentID, Preview: mask.String(s.Title), Why: mask.String(s.Why),
		Detail: data, Subject: s.Subject, Cause: s.Cause, Quiet: quiet,
	}
	if s.Kind == Egress {
		params.Most = maxHosts
	}
	id, err := tx.CreateStop(ctx, params)
	if store.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("store that %s %s stops work: %w", s.Kind, s.Subject, err)
	}
	told := cmp.Or(s.TaskID, s.ToldTo)
	if told == "" {
		return id, nil
	}
	return id, tx.Append(s.OrgID, told, event.Hub, event.Draft{Type: eventkind.WorkStopped, Payload: map[string]any{
		"item_id": id, "kind": string(s.Kind), "subject": s.Subject, "title": params.Preview, "why": params.Why,
	}})
}

// Withdraw closes the open stop of a subject, if there is one, because its cause is gone:
// why says so, for the audit.
func Withdraw(ctx context.Context, q *db.Queries, orgID string, kind Kind, subject, why string) error {
	if _, err := q.WithdrawStop(ctx, db.WithdrawStopParams{OrgID: orgID, Kind: string(kind), Subject: subject, Why: why}); err != nil {
		return fmt.Errorf("withdraw the inbox item about %s %s: %w", kind, subject, err)
	}
	return nil
}

// Hold stores that a task, which is paused in the same transaction, waits for a stop of
// kind Budget or Provider.
func Hold(ctx context.Context, tx *event.Tx, t db.Task, kind Kind, subject string) error {
	if err := tx.PutStoppedTask(ctx, db.PutStoppedTaskParams{TaskID: t.ID, OrgID: t.OrgID, Kind: string(kind), Subject: subject}); err != nil {
		return fmt.Errorf("store what task %s waits for: %w", t.ID, err)
	}
	return nil
}

// LockWaiting returns the paused tasks that wait for a stop. Their rows are locked, in
// the order of their ids.
func LockWaiting(ctx context.Context, tx *event.Tx, orgID string, kind Kind, subject string) ([]db.Task, error) {
	tasks, err := tx.LockStoppedTasks(ctx, db.LockStoppedTasksParams{OrgID: orgID, Kind: string(kind), Subject: subject})
	if err != nil {
		return nil, fmt.Errorf("lock the tasks that wait for %s %s: %w", kind, subject, err)
	}
	return tasks, nil
}
