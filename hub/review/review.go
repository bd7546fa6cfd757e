// Package review handles runs in review mode: all of their work is done in the workspace,
// and nothing leaves it until a person accepts it. Service opens a review when such a run
// is done, and carries out the verdict on it.
//
// When the run is done, its task waits as review_needed, without a slot, and an inbox
// item shows what it did: the files that it changed, the calls that would have left the
// workspace, which are deferred, and the hosts that its commands connected to. What still
// runs in its jail is killed, and the state of the workspace is recorded with the item: a
// verdict is valid for that state.
//
// After an acceptance the hub executes each deferred call once, in the order in which the
// agent made them; then the task has succeeded. Files that the person left out are
// restored before that, and calls that they left out are dropped. After a rejection the workspace is
// restored to its state before the run, and the deferred calls are never executed. The
// verdict is stored in one transaction and carried out after it, by any hub: each
// deferred call has an exec id that its node runs at most once, so nothing is executed
// twice if a hub dies in between.
package review

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Steps executes deferred calls.
type Steps interface {
	// Release executes a deferred call of a task that was accepted, or re-attaches to it.
	// It returns the step when the call has ended.
	Release(ctx context.Context, t db.Task, stepID string) (db.Step, error)
}

// Workspaces undoes what a task changed.
type Workspaces interface {
	Undo(ctx context.Context, req workspace.Request) (workspace.UndoResult, error)
}

// Config holds the dependencies of a Service.
type Config struct {
	Store      *store.Store
	Recorder   *event.Recorder
	Tools      *tool.Registry
	Steps      Steps
	Workspaces Workspaces
	Redact     *redact.Redactor
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (machine.Link, error)
	// Sweep is the interval at which verdicts are looked for that no hub carries out.
	Sweep time.Duration
	Log   hclog.Logger
}

// Service opens reviews and carries out the verdicts on them. It is a lifecycle.Service;
// any number of hubs may run one.
type Service struct {
	lifecycle.Runner

	cfg  Config
	kick chan struct{}
	busy busy
}

// New creates a Service.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, kick: make(chan struct{}, 1), busy: busy{items: map[string]bool{}}}
}

// Detail is what a review shows, as it is stored with its item. Secrets in it are masked.
type Detail struct {
	Summary  string     `json:"summary"`
	Files    int        `json:"files"`
	Paths    []string   `json:"paths,omitempty"`
	Deferred []Deferred `json:"deferred,omitempty"`
	Hosts    []Host     `json:"hosts,omitempty"`
	// Completed is the payload of the event that records the run's end once it is
	// accepted.
	Completed map[string]any `json:"completed,omitempty"`
}

// Deferred is a deferred call: it would have left the workspace.
type Deferred struct {
	StepID   string `json:"step_id"`
	Number   int32  `json:"number"`
	Tool     string `json:"tool"`
	Category string `json:"category"`
	Preview  string `json:"preview"`
	// Passkey reports that a rule takes a passkey to let the call be made.
	Passkey bool `json:"passkey,omitempty"`
	// Dangers are the kinds of danger that were recognised in the call; never nil.
	Dangers []string `json:"dangers"`
}

// Host is a host that commands connected to.
type Host struct {
	Host          string `json:"host"`
	Requests      int64  `json:"requests"`
	SentBytes     int64  `json:"sent_bytes"`
	ReceivedBytes int64  `json:"received_bytes"`
}

const (
	shownPaths = 200
	shownHosts = 100
)

// Open opens the review of a run that is done, in the transaction that ends it. summary
// is the agent's, masked; completed is the payload of the event of its end. Others react
// to that event, so it is recorded only after acceptance.
func (s *Service) Open(ctx context.Context, tx *event.Tx, t db.Task, summary string, completed map[string]any) error {
	d, category, err := s.detail(ctx, tx.Queries, t)
	if err != nil {
		return err
	}
	d.Summary, d.Completed = summary, s.cfg.Redact.Org(t.OrgID).Map(completed)
	detail, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode the review of %s: %w", t.ID, err)
	}
	item, err := tx.CreateInboxItem(ctx, db.CreateInboxItemParams{
		ID: ident.New("inbox"), OrgID: t.OrgID, Kind: string(inbox.Review), TaskID: t.ID, AgentID: t.AgentID, Category: category,
		Arguments: json.RawMessage("{}"), Binding: json.RawMessage("{}"), Detail: detail, Preview: d.preview(),
		Why: "the run was in review mode: nothing leaves its workspace until somebody accepts it",
	})
	if err != nil {
		return fmt.Errorf("store the review of %s: %w", t.ID, err)
	}
	tx.AfterCommit(s.Kick)
	return tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.ReviewRequested, Payload: map[string]any{
		"item_id": item.ID, "files": d.Files, "deferred": len(d.Deferred), "hosts": len(d.Hosts), "why": item.Why,
	}})
}

// detail returns what a run did, and the highest category of its deferred calls: only a
// user who may call such a tool may accept the run.
func (s *Service) detail(ctx context.Context, q *db.Queries, t db.Task) (d Detail, category string, err error) {
	category = tool.CategoryName(tool.CategoryOf("safe"))
	changed, err := q.ListStepChanges(ctx, db.ListStepChangesParams{OrgID: t.OrgID, TaskID: t.ID, MaxRows: math.MaxInt32})
	if err != nil {
		return d, "", fmt.Errorf("list the changes of %s: %w", t.ID, err)
	}
	var paths []string
	for _, row := range changed {
		if row.StepChange.UndoneAt != nil {
			continue
		}
		var files []workspace.Recorded
		if err := json.Unmarshal(row.StepChange.Changes, &files); err != nil {
			return d, "", fmt.Errorf("read the changes of step %s: %w", row.StepChange.StepID, err)
		}
		for _, f := range files {
			paths = append(paths, f.Path)
		}
	}
	slices.Sort(paths)
	paths = withoutFolders(slices.Compact(paths))
	d.Files, d.Paths = len(paths), paths[:min(len(paths), shownPaths)]
	deferred, err := q.DeferredSteps(ctx, db.DeferredStepsParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return d, "", fmt.Errorf("find the deferred calls of %s: %w", t.ID, err)
	}
	for _, step := range deferred {
		one := Deferred{StepID: step.ID, Number: step.Number, Tool: step.Tool, Category: step.Category}
		var decided policy.Decision
		if err := json.Unmarshal(step.Decision, &decided); err != nil {
			return d, "", fmt.Errorf("read the decision about step %s: %w", step.ID, err)
		}
		one.Passkey = decided.Passkey
		one.Dangers = append([]string{}, decided.Dangers...)
		var arguments map[string]any
		if record := s.cfg.Tools.Get(step.Tool); record != nil && json.Unmarshal(step.Arguments, &arguments) == nil {
			one.Preview = s.cfg.Redact.Org(t.OrgID).String(record.Preview(arguments))
		}
		d.Deferred = append(d.Deferred, one)
		if tool.CategoryOf(step.Category) > tool.CategoryOf(category) {
			category = step.Category
		}
	}
	d.Hosts, err = hosts(ctx, q, t)
	return d, category, err
}

// hosts returns the hosts that a task's commands connected to.
func hosts(ctx context.Context, q *db.Queries, t db.Task) ([]Host, error) {
	rows, err := q.EgressOf(ctx, db.EgressOfParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return nil, fmt.Errorf("find where the commands of %s connected to: %w", t.ID, err)
	}
	var out []Host
	at := map[string]int{}
	for _, row := range rows {
		var some []Host
		if err := json.Unmarshal(row, &some); err != nil {
			return nil, fmt.Errorf("read where the commands of %s connected to: %w", t.ID, err)
		}
		for _, h := range some {
			i, known := at[h.Host]
			if !known {
				if len(out) == shownHosts {
					continue
				}
				i, out = len(out), append(out, Host{Host: h.Host})
				at[h.Host] = i
			}
			out[i].Requests, out[i].SentBytes, out[i].ReceivedBytes = out[i].Requests+h.Requests, out[i].SentBytes+h.SentBytes, out[i].ReceivedBytes+h.ReceivedBytes
		}
	}
	return out, nil
}

// preview describes what there is to review in a few lines.
func (d Detail) preview() string {
	out := fmt.Sprintf("%d files changed, %d calls deferred, %d hosts reached", d.Files, len(d.Deferred), len(d.Hosts))
	for _, h := range d.Deferred {
		out += fmt.Sprintf("\nstep %d, %s:\n%s", h.Number, h.Tool, h.Preview)
	}
	const most = 16 << 10
	if len(out) > most {
		out = out[:most] + " [...]"
	}
	return out
}

// DetailOf returns the Detail that is stored with an item.
func DetailOf(item db.InboxItem) (d Detail, err error) {
	if err := json.Unmarshal(item.Detail, &d); err != nil {
		return d, fmt.Errorf("read the review %s: %w", item.ID, err)
	}
	return d, nil
}

// withoutFolders leaves out the folders of the other paths: a new file in a new folder is
// one file.
func withoutFolders(paths []string) []string {
	folders := map[string]bool{}
	for _, p := range paths {
		for dir := path.Dir(p); dir != "." && dir != "/" && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	return slices.DeleteFunc(paths, func(p string) bool { return folders[p] })
}
