// Package admission decides which queued tasks may start, in order of priority
// and arrival, and publishes a wake-up for each. It runs in any hub under a
// transaction-scoped lock per organisation, so that no cap is raced, and
// stores why a task is not starting.
//
// A wake-up may be lost with the bus; Republish sends those again that nobody
// has claimed.
package admission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/agent"
	"github.com/deckhand-sh/deckhand/hub/bus"
	"github.com/deckhand-sh/deckhand/hub/event"
	"github.com/deckhand-sh/deckhand/hub/node"
	"github.com/deckhand-sh/deckhand/hub/store/db"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Config says what Admission works with.
type Config struct {
	Recorder *event.Recorder
	Queries  *db.Queries
	Agents   *agent.Service
	// Wake publishes a wake-up to a pool's workers.
	Wake func(ctx context.Context, pool string, w bus.Wakeup) error
	// StaleAfter is how long a node counts as connected after it was heard.
	StaleAfter time.Duration
	// MaxActive caps an organisation's tasks that hold a slot.
	MaxActive int
	// Sweep is how often everything is looked at again, whatever was kicked.
	Sweep time.Duration
	// ClaimTimeout is how long a wake-up may stay unclaimed.
	ClaimTimeout time.Duration
	Log          hclog.Logger
}

// Admission is the service.
type Admission struct {
	lifecycle.Runner

	cfg   Config
	kicks chan string // organisations to look at
}

// New makes an Admission.
func New(cfg Config) *Admission { return &Admission{cfg: cfg, kicks: make(chan string, 4096)} }

// Kick asks for a look at an organisation's queue soon. It never blocks: when
// too many wait already, the sweep will find it.
func (a *Admission) Kick(orgID string) {
	select {
	case a.kicks <- orgID:
	default:
	}
}

// Start begins admitting.
func (a *Admission) Start(ctx context.Context) error { return a.Run(ctx, a.loop) }

func (a *Admission) loop(ctx context.Context) error {
	ticker := time.NewTicker(a.cfg.Sweep)
	defer ticker.Stop()
	for {
		orgs := map[string]bool{}
		select {
		case <-ctx.Done():
			return nil
		case org := <-a.kicks:
			orgs[org] = true
			for more := true; more; {
				select {
				case org := <-a.kicks:
					orgs[org] = true
				default:
					more = false
				}
			}
		case <-ticker.C:
			waiting, err := a.cfg.Queries.OrganisationsWithQueue(ctx)
			if err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("cannot read the queue; will try again", "error", err)
			}
			for _, org := range waiting {
				orgs[org] = true
			}
			if err := a.Republish(ctx); err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("cannot send wake-ups again; will try again", "error", err)
			}
		}
		for org := range orgs {
			if err := a.Admit(ctx, org); err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn("cannot admit tasks; will try again", "org_id", org, "error", err)
			}
		}
	}
}

// lookAt bounds how much of a queue one admission considers.
const lookAt = 500

// Admit lets what may start of an organisation's queue start.
func (a *Admission) Admit(ctx context.Context, orgID string) error {
	return a.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockAdmission(ctx, orgID); err != nil {
			return fmt.Errorf("lock admission of %s: %w", orgID, err)
		}
		queue, err := tx.QueuedTasks(ctx, db.QueuedTasksParams{OrgID: orgID, MaxRows: lookAt})
		if err != nil || len(queue) == 0 {
			return err
		}
		active, err := tx.BusyJails(ctx, orgID)
		if err != nil {
			return fmt.Errorf("read busy jails: %w", err)
		}
		busy := make(map[string]string, len(active))
		for _, b := range active {
			busy[b.JailID] = b.ID
		}
		nodes, err := tx.ListNodes(ctx, db.ListNodesParams{OrgID: orgID, StaleAfter: a.cfg.StaleAfter})
		if err != nil {
			return fmt.Errorf("read nodes: %w", err)
		}
		locks, err := node.HeldLocks(ctx, tx.Queries, orgID)
		if err != nil {
			return err
		}
		slots := a.cfg.MaxActive - len(active)
		for _, q := range queue {
			chosen, wait, err := a.decide(q, slots, busy, nodes, locks)
			if err != nil {
				return err
			}
			if wait != "" {
				if wait != q.Reason {
					if err := tx.SetTaskReason(ctx, db.SetTaskReasonParams{OrgID: orgID, ID: q.ID, Reason: wait}); err != nil {
						return fmt.Errorf("store reason of %s: %w", q.ID, err)
					}
				}
				continue
			}
			if err := tx.AdmitTask(ctx, db.AdmitTaskParams{
				OrgID: orgID, ID: q.ID, NodeID: &chosen, Reason: "admitted; waits for a free worker",
			}); err != nil {
				return fmt.Errorf("admit %s: %w", q.ID, err)
			}
			if q.WorkspaceScope == string(persona.ScopeAgent) && q.HomeNodeID == nil {
				if err := tx.SetAgentHome(ctx, db.SetAgentHomeParams{OrgID: orgID, ID: q.AgentID, NodeID: &chosen}); err != nil {
					return fmt.Errorf("set home of %s: %w", q.AgentID, err)
				}
			}
			slots--
			busy[q.JailID] = q.ID
			tx.AfterCommit(func() {
				// A failure is not lost: the sweep publishes it again.
				if err := a.cfg.Wake(ctx, WakePool(orgID, q.Pool), bus.Wakeup{TaskID: q.ID, Attempt: q.Attempt + 1}); err != nil {
					a.cfg.Log.Warn("cannot publish a wake-up; will try again", "task_id", q.ID, "error", err)
				}
			})
		}
		return nil
	})
}

// WakePool names the consumer of an organisation's pool of workers.
func WakePool(orgID, pool string) string { return orgID + "-" + pool }

// decide answers the node for a task, or why it must wait.
func (a *Admission) decide(q db.QueuedTasksRow, slots int, busy map[string]string, nodes []db.ListNodesRow,
	locks map[string]*db.NodeLock,
) (chosen, wait string, err error) {
	switch q.AgentStatus {
	case "paused", "error_suspended", "disabled":
		return "", fmt.Sprintf("agent %s is %s; resume it to go on", q.AgentName, q.AgentStatus), nil
	}
	if slots <= 0 {
		return "", fmt.Sprintf("all %d task slots of the organisation are taken; waits for one to end", a.cfg.MaxActive), nil
	}
	if holder := busy[q.JailID]; holder != "" {
		return "", fmt.Sprintf("task %s is using the agent's workspace; waits for it to end", holder), nil
	}
	p, err := a.cfg.Agents.Persona(q.Digest, q.Markdown)
	if err != nil {
		return "", "", fmt.Errorf("task %s: %w", q.ID, err)
	}
	// The workspace lives on one node: a task goes where its agent's or its
	// own earlier attempts have been.
	home := q.NodeID
	if q.WorkspaceScope == string(persona.ScopeAgent) {
		home = q.HomeNodeID
	}
	if home != nil {
		for _, n := range nodes {
			if n.Node.ID == *home && n.Node.RevokedAt == nil {
				if n.Connected {
					return n.Node.ID, node.Blocked(n.Node, locks[n.Node.ID]), nil
				}
				return "", fmt.Sprintf("node %s, which holds the workspace, is not connected; start deckhand-node there", n.Node.Name), nil
			}
		}
		return "", fmt.Sprintf("node %s, which holds the workspace, was revoked", *home), nil
	}
	match, blocked := false, ""
	for _, n := range nodes {
		if n.Node.RevokedAt != nil || !matches(p.Nodes, n.Node) {
			continue
		}
		match = true
		if !n.Connected {
			continue
		}
		if blocked = node.Blocked(n.Node, locks[n.Node.ID]); blocked == "" {
			return n.Node.ID, "", nil
		}
	}
	if blocked != "" {
		return "", blocked, nil
	}
	if match {
		return "", "no node that the persona may use is connected; start deckhand-node on one", nil
	}
	return "", "no node matches the persona's nodes; enrol one (deckhand node token) or change the persona", nil
}

func matches(want persona.Nodes, n db.Node) bool {
	if len(want.Names) > 0 && !slices.Contains(want.Names, n.Name) {
		return false
	}
	labels := node.Labels(n)
	for k, v := range want.Labels {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// Republish sends the wake-ups again that nobody has claimed in time.
func (a *Admission) Republish(ctx context.Context) error {
	tasks, err := a.cfg.Queries.UnclaimedTasks(ctx, db.UnclaimedTasksParams{OlderThan: a.cfg.ClaimTimeout, MaxRows: lookAt})
	if err != nil {
		return fmt.Errorf("find unclaimed tasks: %w", err)
	}
	for _, t := range tasks {
		if err := a.cfg.Wake(ctx, WakePool(t.OrgID, t.Pool), bus.Wakeup{TaskID: t.ID, Attempt: t.Attempt + 1}); err != nil {
			return err
		}
	}
	return nil
}
