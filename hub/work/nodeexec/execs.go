package nodeexec

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Config holds the dependencies of Execs.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Agents   *agent.Service
	Vault    *vault.Vault
	Redact   *redact.Redactor
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (machine.Link, error)
	// JailOf returns the specification of a task's jail. It reads only the organisation,
	// agent, version and jail of the task.
	JailOf func(ctx context.Context, t db.Task) (*nodev1.JailSpec, error)
	// Recorded is called when the end of a command is on record.
	Recorded func(nodeID, execID string)
	Log      hclog.Logger
}

// Execs keeps people's commands. It is a lifecycle.Service.
type Execs struct {
	lifecycle.Runner

	cfg  Config
	wake chan struct{} // that connected is not empty

	mu        sync.Mutex
	connected []string                 // nodes that have connected
	running   context.Context          // of the service; nil before and after
	ended     map[string]chan struct{} // what is followed here; closed at the end

	followers sync.WaitGroup // added to under mu while running is set
}

// New creates Execs.
func New(cfg Config) *Execs {
	return &Execs{cfg: cfg, wake: make(chan struct{}, 1), ended: map[string]chan struct{}{}}
}

// Start begins to follow commands.
func (e *Execs) Start(ctx context.Context) error {
	return e.Run(ctx, func(ctx context.Context) error {
		e.mu.Lock()
		e.running = ctx
		e.mu.Unlock()
		defer e.followers.Wait()
		defer func() {
			e.mu.Lock()
			e.running = nil
			e.mu.Unlock()
		}()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-e.wake:
			}
			// A fleet comes back at once: all that have come by now together.
			e.mu.Lock()
			nodeIDs := e.connected
			e.connected = nil
			e.mu.Unlock()
			if err := e.adopt(ctx, nodeIDs); err != nil && ctx.Err() == nil {
				e.cfg.Log.Warn("cannot find the commands that run on nodes that connected", "nodes", len(nodeIDs), "error", err)
			}
		}
	})
}

// Connected is called when a node's link is up in this hub, which from now on follows the
// node's commands that another hub followed. It never blocks.
func (e *Execs) Connected(nodeID string) {
	e.mu.Lock()
	e.connected = append(e.connected, nodeID)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Get returns a command by its id.
func (e *Execs) Get(ctx context.Context, orgID, id string) (db.GetNodeExecRow, error) {
	row, err := e.cfg.Store.GetNodeExec(ctx, db.GetNodeExecParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no command %q", id).WithObject(id)
	}
	if err != nil {
		return row, fmt.Errorf("load command %s: %w", id, err)
	}
	return row, nil
}

// Find returns the id of the command that ref names: an id or a unique prefix.
func (e *Execs) Find(ctx context.Context, v task.Viewer, ref string) (string, error) {
	rows, err := e.cfg.Store.FindNodeExecs(ctx, db.FindNodeExecsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix(Kind, ref)})
	if err == nil && len(rows) == 0 {
		return "", fault.New(fault.NotFound, "there is no command %q", ref).WithObject(ref).WithFix("list what there is with: deckhand node execs NODE")
	}
	return store.One("command", ref, rows, err)
}

// List returns a page of commands, newest first, and the next page's token; nodeID
// "" for those of every node.
func (e *Execs) List(ctx context.Context, v task.Viewer, nodeID string, live bool, page string, size int32) ([]db.ListNodeExecsRow, string, error) {
	p := db.ListNodeExecsParams{OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, NodeID: nodeID, LiveOnly: live, MaxRows: size + 1}
	e.cfg.Store.CountAll(ctx, func(q *db.Queries, maxRows int32) error {
		all := p
		all.MaxRows = maxRows
		_, err := q.ListNodeExecs(ctx, all)
		return err
	})
	if page != "" {
		at, id, err := store.ParsePageToken(page)
		if err != nil {
			return nil, "", err
		}
		p.BeforeTime, p.BeforeID = &at, id
	}
	rows, err := e.cfg.Store.ListNodeExecs(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list commands: %w", err)
	}
	if len(rows) <= int(size) {
		return rows, "", nil
	}
	rows = rows[:size]
	last := rows[size-1].NodeExec
	return rows, store.PageToken(last.CreatedAt, last.ID), nil
}

// elsewhere is the interval at which a command is read that another hub follows.
const elsewhere = 500 * time.Millisecond

// Wait returns a command when it has ended, or in its current state after d.
func (e *Execs) Wait(ctx context.Context, orgID, id string, d time.Duration) (db.GetNodeExecRow, error) {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	for {
		e.mu.Lock()
		ended := e.ended[id]
		e.mu.Unlock()
		row, err := e.Get(ctx, orgID, id)
		if err != nil || row.NodeExec.State == "ended" || d <= 0 {
			return row, err
		}
		look := time.NewTimer(elsewhere)
		select {
		case <-ended: // nil where another hub follows it
		case <-look.C:
		case <-deadline.C:
			d = 0
		case <-ctx.Done():
			look.Stop()
			return row, ctx.Err()
		}
		look.Stop()
	}
}

// Kill ends a command with its whole process tree, and returns its state afterwards. why
// may be empty.
func (e *Execs) Kill(ctx context.Context, orgID, id string, by node.User, why string) (db.GetNodeExecRow, error) {
	row, err := e.Get(ctx, orgID, id)
	if err != nil || row.NodeExec.State == "ended" {
		return row, err
	}
	link, err := e.cfg.Node(row.NodeExec.NodeID)
	if err != nil {
		return row, err
	}
	if err := e.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		return audit.Append(tx, audit.Entry{OrgID: orgID, By: by.Actor(), Action: "exec.killed", ObjectKind: "exec", ObjectID: id, Reason: why})
	}); err != nil {
		return row, err
	}
	who := by.Name
	if why != "" {
		who += " (" + why + ")"
	}
	if _, err := link.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: id, By: who}); err != nil {
		return row, fmt.Errorf("kill %s: %w", id, fault.FromGRPC(err))
	}
	return e.Wait(ctx, orgID, id, settleTime)
}
