package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/internal/execid"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// SweepEvery is how often the leader looks for nodes to compare.
	SweepEvery = 2 * time.Second
	// listTimeout bounds one page of a node's ledger, and pageSize is its size: with the
	// longest arguments it stays below what gRPC takes.
	listTimeout = 30 * time.Second
	pageSize    = 100
	// skew is how far a node's clock may be behind the hub's at the time of the backup.
	// What is older and on record in the backup costs a look only.
	skew = 24 * time.Hour
	// batch bounds what one sweep takes on.
	batch = 50
	// maxWhat bounds the text of an effect, in characters.
	maxWhat = 500
)

// Config holds the dependencies of a Comparer. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Redact   *redact.Redactor
	// Node returns the link to a node, wherever it is.
	Node func(nodeID string) (machine.Link, error)
	Log  hclog.Logger
}

// Comparer compares nodes with a restored database. The leader's hub calls Sweep.
type Comparer struct{ cfg Config }

// New creates a Comparer.
func New(cfg Config) *Comparer { return &Comparer{cfg: cfg} }

// Sweep compares the nodes that have connected since a restore, and gives a verdict on the
// tasks of organisations whose nodes are all compared. Without a restore it is one short
// query.
func (c *Comparer) Sweep(ctx context.Context) error {
	nodes, err := c.cfg.Store.NodesToCompare(ctx, batch)
	if err != nil {
		return fmt.Errorf("find nodes to compare after a restore: %w", err)
	}
	for _, n := range nodes {
		if err := c.compare(ctx, n); err != nil && ctx.Err() == nil {
			// One silent node delays no other.
			c.cfg.Log.Warn("cannot compare a node with the restored database; will try again", "node_id", n.NodeID, "error", err)
		}
	}
	orgs, err := c.cfg.Store.OrganisationsCompared(ctx)
	if err != nil {
		return fmt.Errorf("find organisations to judge after a restore: %w", err)
	}
	for _, o := range orgs {
		if err := c.judge(ctx, o.OrgID, o.RestoreID); err != nil {
			return err
		}
		c.cfg.Recorder.Publish(change.QueueChanged{OrgID: o.OrgID})
	}
	return nil
}

// compare stores what a node has on its ledger and the database has not.
func (c *Comparer) compare(ctx context.Context, n db.NodesToCompareRow) error {
	recovered, problem := 0, "it was revoked before it said what ran on it"
	if !n.Revoked {
		link, err := c.cfg.Node(n.NodeID)
		if fault.Is(err, fault.Unavailable) {
			return nil // when it is connected
		}
		if err != nil {
			return err
		}
		if recovered, problem, err = c.ask(ctx, link, n); err != nil {
			return err
		}
	}
	if err := c.cfg.Store.NodeCompared(ctx, db.NodeComparedParams{OrgID: n.OrgID, NodeID: n.NodeID, Recovered: int32(recovered), Problem: problem}); err != nil {
		return fmt.Errorf("store that node %s is compared: %w", n.NodeID, err)
	}
	c.cfg.Log.Info("compared a node with the restored database", "node_id", n.NodeID, "recovered", recovered, "problem", problem)
	return nil
}

// ask returns how much a node has that the database has not, and why that may not be all.
func (c *Comparer) ask(ctx context.Context, link machine.Link, n db.NodesToCompareRow) (recovered int, problem string, err error) {
	entries, complete, err := list(ctx, link, n.TakenAt)
	// The capability in the database may be older than the link: the node itself says it.
	if errors.Is(err, errTooOld) {
		return 0, "its deckhand-node is too old to say what ran on it", nil
	}
	if err != nil {
		return 0, "", err
	}
	if complete.After(n.TakenAt) {
		problem = "it keeps its records only since " + complete.UTC().Format(time.RFC3339)
	}
	recovered, err = c.store(ctx, n, entries)
	return recovered, problem, err
}

// errTooOld is that a node has no call for its ledger.
var errTooOld = errors.New("the node cannot list its ledger")

// list returns what a node's ledger has since about the time of the backup, and since when it
// is complete.
func list(ctx context.Context, link machine.Link, takenAt time.Time) (out []*nodev1.LedgerEntry, complete time.Time, err error) {
	req := &nodev1.ListLedgerRequest{CreatedAfter: timestamppb.New(takenAt.Add(-skew)), Limit: pageSize}
	for {
		page, err := listPage(ctx, link, req)
		if err != nil {
			return nil, complete, err
		}
		out = append(out, page.GetEntries()...)
		if complete.IsZero() {
			complete = page.GetCompleteSince().AsTime()
		}
		if !page.GetMore() || len(page.GetEntries()) == 0 {
			return out, complete, nil
		}
		req.AfterId = page.GetEntries()[len(page.GetEntries())-1].GetId()
	}
}

func listPage(ctx context.Context, link machine.Link, req *nodev1.ListLedgerRequest) (*nodev1.ListLedgerResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	page, err := link.Node().ListLedger(ctx, req)
	if status.Code(err) == codes.Unimplemented {
		return nil, errTooOld
	}
	if err != nil {
		return nil, fmt.Errorf("list the node's ledger: %w", fault.FromGRPC(err))
	}
	return page, nil
}

// open are the states of a step that has not run as far as the database knows.
var open = map[step.State]bool{step.Proposed: true, step.Waiting: true, step.Granted: true, step.Deferred: true}

// store stores the entries that the database does not know, and returns how many there are.
func (c *Comparer) store(ctx context.Context, n db.NodesToCompareRow, entries []*nodev1.LedgerEntry) (recovered int, err error) {
	// Servers of MCP are begun again with each run of a task; what they were asked to do are
	// steps.
	entries = slices.DeleteFunc(entries, func(e *nodev1.LedgerEntry) bool { return strings.HasPrefix(e.GetId(), "mcp") })
	var stepIDs, execIDs []string
	for _, e := range entries {
		if isExec(e.GetId()) {
			execIDs = append(execIDs, e.GetId())
		} else {
			stepIDs = append(stepIDs, execid.Step(e.GetId()))
		}
	}
	rows, err := c.cfg.Store.RecoverableSteps(ctx, db.RecoverableStepsParams{OrgID: n.OrgID, Ids: stepIDs})
	if err != nil {
		return 0, fmt.Errorf("look up steps: %w", err)
	}
	steps := make(map[string]db.RecoverableStepsRow, len(rows))
	for _, row := range rows {
		steps[row.ID] = row
	}
	execs, err := c.cfg.Store.KnownNodeExecs(ctx, db.KnownNodeExecsParams{OrgID: n.OrgID, Ids: execIDs})
	if err != nil {
		return 0, fmt.Errorf("look up commands of people: %w", err)
	}
	known := make(map[string]bool, len(execs))
	for _, id := range execs {
		known[id] = true
	}
	for _, e := range entries {
		id := execid.Step(e.GetId())
		row, has := steps[id]
		if known[e.GetId()] || has && !open[step.State(row.State)] && execid.Run(e.GetId()) <= row.Run {
			continue
		}
		recovered++
		effect := db.CreateRecoveredEffectParams{
			NodeID: n.NodeID, EffectID: e.GetId(), OrgID: n.OrgID, RestoreID: n.RestoreID, JailID: e.GetJailId(),
			What: c.what(n.OrgID, e), Outcome: outcome(e), BeganAt: e.GetCreatedAt().AsTime(),
		}
		if has {
			effect.StepID, effect.TaskID = row.ID, row.TaskID
		}
		if err := c.cfg.Store.CreateRecoveredEffect(ctx, effect); err != nil {
			return recovered, fmt.Errorf("store a recovered effect: %w", err)
		}
		if has {
			if err := c.attach(ctx, n.OrgID, row, e); err != nil {
				return recovered, err
			}
		}
	}
	return recovered, nil
}

// attach moves a step that ran since the backup to started: its task re-attaches to it when
// it is resumed, and nobody is asked about it again.
func (c *Comparer) attach(ctx context.Context, orgID string, row db.RecoverableStepsRow, e *nodev1.LedgerEntry) error {
	if step.State(row.State) == step.Deferred || !open[step.State(row.State)] {
		return nil
	}
	return c.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		if _, err := q.GrantRecoveredStep(ctx, db.GrantRecoveredStepParams{OrgID: orgID, ID: row.ID}); err != nil {
			return fmt.Errorf("grant recovered step %s: %w", row.ID, err)
		}
		if _, err := q.StartRecoveredStep(ctx, db.StartRecoveredStepParams{
			OrgID: orgID, ID: row.ID, BeganAt: e.GetCreatedAt().AsTime(), Reason: "it ran before the hub was restored to an earlier state, as its node shows",
		}); err != nil {
			return fmt.Errorf("start recovered step %s: %w", row.ID, err)
		}
		return nil
	})
}

// isExec reports whether an id is that of a person's command, or of one of several of a step.
func isExec(id string) bool { return strings.HasPrefix(id, nodeexec.Kind+"_") }

// what returns the text of an entry, masked.
func (c *Comparer) what(orgID string, e *nodev1.LedgerEntry) string {
	text := e.GetOperation()
	if len(e.GetArgv()) > 0 {
		text = strings.Join(e.GetArgv(), " ")
	}
	if text == "" {
		text = "an operation on a file"
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	return textcut.Runes(c.cfg.Redact.Org(orgID).String(text), maxWhat, "…")
}

// outcome returns how an effect ended, for people.
func outcome(e *nodev1.LedgerEntry) string {
	x := e.GetExec()
	switch {
	case x == nil && e.GetDone():
		return "done"
	case x == nil:
		return "begun; whether it took effect is not known"
	case x.GetState() != nodev1.ExecState_EXEC_STATE_ENDED:
		return "running"
	case x.GetEndReason() == nodev1.EndReason_END_REASON_EXITED:
		return fmt.Sprintf("exit code %d", x.GetExitCode())
	}
	return strings.ToLower(strings.TrimPrefix(x.GetEndReason().String(), "END_REASON_"))
}
