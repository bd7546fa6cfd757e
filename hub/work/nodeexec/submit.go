package nodeexec

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Where a command runs.
const (
	Jail = "jail"
	Host = "host"
)

const defaultTimeout = 10 * time.Minute

// Request is a command that a person wants to run.
type Request struct {
	OrgID string
	Node  db.Node
	// AgentID is whose jail to run in, with Task the one of that task; Host for
	// the machine itself.
	AgentID string
	Task    *db.Task
	Host    bool
	// Jail, if set, is the specification of the jail to run in, in place of the agent's or
	// task's own; Fresh says that its workspace is nobody's, and that changes in it are not
	// recorded.
	Jail  *nodev1.JailSpec
	Fresh bool
	// Stored, if set, is called in the transaction that stores the command.
	Stored func(q *db.Queries, execID string) error
	By     node.User
	// ID, if set, is the command's: it is started once under it. StepID is the step of an
	// agent's task that it is part of; empty for a person's own.
	ID, StepID string
	// Role is the person's; host mode needs auth.Admin.
	Role   string
	Reason string

	Argv []string
	// Shell says that Argv is a shell, -c or -ec and a command line. A jail of an image
	// runs it with the image's shell; without one the command is refused.
	Shell   bool
	Env     []string
	Dir     string
	Timeout time.Duration // 0 for 10 minutes
	Stdin   []byte
	// Pty makes it a terminal.
	Pty *nodev1.Pty
}

// Reasons why a command has ended that ran nowhere.
const (
	// Refused: the node did not take it.
	Refused = "refused"
	// NotStarted: the node never got it, or its jail ended before.
	NotStarted = "not_started"
)

// Submit stores a command, starts it and returns its row.
func (e *Execs) Submit(ctx context.Context, r Request) (db.GetNodeExecRow, error) {
	jail, err := e.resolveJail(ctx, r)
	if err != nil {
		return db.GetNodeExecRow{}, err
	}
	link, err := e.cfg.Node(r.Node.ID)
	if err != nil {
		return db.GetNodeExecRow{}, err
	}
	timeout := r.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	spec := &nodev1.ExecSpec{
		ExecId: cmp.Or(r.ID, ident.New(Kind)), JailId: jail.GetJailId(), Argv: r.Argv, Env: r.Env, Dir: r.Dir,
		Timeout: durationpb.New(timeout), Stdin: r.Stdin, Pty: r.Pty, Snapshot: !r.Host && !r.Fresh, ByPerson: r.StepID == "",
	}
	if r.Shell {
		spec.Shell = &nodev1.Shell{}
	}
	// What was stored is followed to its end, whether the caller waits or not.
	ctx = context.WithoutCancel(ctx)
	follow, err := e.reserve(spec.GetExecId())
	if err != nil {
		return db.GetNodeExecRow{}, err
	}
	row, err := e.storeIntent(ctx, r, spec)
	if err != nil {
		follow(nil)
		return db.GetNodeExecRow{}, err
	}
	err = e.send(ctx, link, jail, spec)
	switch {
	case err == nil:
		if err := e.cfg.Store.StartNodeExec(ctx, db.StartNodeExecParams{OrgID: r.OrgID, ID: row.ID}); err != nil {
			// The follower stores the end, which implies the start.
			e.cfg.Log.Warn("cannot record that a command started", "exec_id", row.ID, "error", err)
		}
		row.State = "running"
		follow(&row)
		return e.Get(ctx, r.OrgID, row.ID)
	case mayHaveStarted(err):
		// It may have started: the follower finds out.
		follow(&row)
		return db.GetNodeExecRow{}, fault.As(err).WithObject(row.ID).WithFix("it may have started all the same, see: deckhand node execs %s", r.Node.Name)
	}
	defer follow(nil)
	if serr := e.recordEnd(store.WithRefusal(ctx), row, Refused, &nodev1.Exec{StartError: shown(err)}); serr != nil {
		return db.GetNodeExecRow{}, serr
	}
	return db.GetNodeExecRow{}, err
}

// mayHaveStarted reports whether an error leaves open whether the node did what was asked.
func mayHaveStarted(err error) bool {
	return fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Deadline) || fault.Is(err, fault.Canceled) || fault.Is(err, fault.Internal)
}

// resolveJail returns the jail for a command, or refuses it.
func (e *Execs) resolveJail(ctx context.Context, r Request) (*nodev1.JailSpec, error) {
	for _, field := range [][]string{r.Argv, r.Env, {r.Dir}} {
		for _, value := range field {
			if strings.ContainsRune(value, 0) {
				return nil, fault.New(fault.Invalid, "the command, its environment or its folder has a NUL byte").
					WithCode(fault.InvalidParameters).WithFix("leave it out: no program can be given one")
			}
		}
	}
	if r.Host {
		if r.Role != auth.Admin {
			return nil, fault.New(fault.Denied, "the machine itself is for administrators, and you have the role %s", r.Role).
				WithCode(fault.PermissionDenied).WithFix("run it in an agent's jail with --agent, or ask an administrator")
		}
		return &nodev1.JailSpec{JailId: nodelink.HostJail, Rootfs: nodelink.RootMachine}, nil
	}
	if r.Jail != nil {
		return r.Jail, nil
	}
	if r.Task != nil {
		switch {
		case r.Task.NodeID == nil:
			return nil, fault.New(fault.Precondition, "task %s has no workspace yet", r.Task.ID).WithObject(r.Task.ID).
				WithFix("it is made when the task starts")
		case *r.Task.NodeID != r.Node.ID:
			return nil, fault.New(fault.Precondition, "the workspace of task %s is on node %s, not on %s", r.Task.ID, *r.Task.NodeID, r.Node.Name).
				WithObject(r.Task.ID).WithFix("name that node")
		}
		return e.cfg.JailOf(ctx, *r.Task)
	}
	row, err := e.cfg.Agents.Get(ctx, r.OrgID, r.AgentID)
	if err != nil {
		return nil, err
	}
	switch home := row.Agent.HomeNodeID; {
	case home == nil:
		return nil, fault.New(fault.Precondition, "agent %s has no workspace yet", row.Agent.Name).WithObject(r.AgentID).
			WithFix("its first run makes one; where each task has its own, name the task with --task")
	case *home != r.Node.ID:
		return nil, fault.New(fault.Precondition, "the workspace of agent %s is on node %s, not on %s", row.Agent.Name, *home, r.Node.Name).
			WithObject(r.AgentID).WithFix("name that node")
	}
	return e.cfg.JailOf(ctx, db.Task{
		OrgID: r.OrgID, AgentID: r.AgentID, AgentVersion: row.Agent.CurrentVersion, JailID: task.AgentJail(r.AgentID),
	})
}

// storeIntent writes the command down before anything happens, with the lock that a
// command on the machine needs.
func (e *Execs) storeIntent(ctx context.Context, r Request, spec *nodev1.ExecSpec) (db.NodeExec, error) {
	params := db.CreateNodeExecParams{
		ID: spec.GetExecId(), OrgID: r.OrgID, NodeID: r.Node.ID, Target: Jail, AgentID: &r.AgentID, JailID: spec.GetJailId(),
		Terminal: r.Pty != nil, Argv: e.redactAll(r.OrgID, r.Argv), Dir: e.cfg.Redact.Org(r.OrgID).String(r.Dir),
		Reason: e.cfg.Redact.Org(r.OrgID).String(r.Reason), UserID: r.By.ID, UserName: r.By.Name,
	}
	if r.StepID != "" {
		params.StepID = &r.StepID
	}
	if r.Host {
		params.Target, params.AgentID, params.JailID = Host, nil, ""
	}
	var row db.NodeExec
	err := e.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if r.Host {
			reason := params.Reason
			if reason == "" {
				reason = "runs " + textcut.Runes(strings.Join(params.Argv, " "), maxReason, "…")
			}
			lock, err := node.LockForExec(ctx, tx.Queries, r.Node, r.By, reason, params.ID)
			if err != nil {
				return err
			}
			spec.HostLock = &nodev1.HostLock{LockId: lock.ID, Holder: cmp.Or(r.By.Name, r.By.ID)}
			if lock.ExpiresAt != nil {
				spec.HostLock.ExpiresAt = timestamppb.New(*lock.ExpiresAt)
			}
		} else if r.Jail != nil {
			// It prepares a task.
		} else if err := node.OpenToPeople(ctx, tx.Queries, r.Node); err != nil {
			return err
		}
		var err error
		if params.SpecSealed, err = e.seal(spec); err != nil {
			return err
		}
		row, err = tx.CreateNodeExec(ctx, params)
		if err != nil {
			return fmt.Errorf("store command: %w", err)
		}
		if r.Stored != nil {
			if err := r.Stored(tx.Queries, row.ID); err != nil {
				return err
			}
		}
		return audit.Append(tx, audit.Entry{
			OrgID: r.OrgID, By: r.By.Actor(), Action: "exec.started", ObjectKind: "exec", ObjectID: row.ID, Reason: r.Reason,
			After: map[string]any{"node_id": r.Node.ID, "target": params.Target, "jail_id": params.JailID, "terminal": params.Terminal},
		})
	})
	if err == nil && r.Host {
		e.cfg.Log.Info("a person's command on the machine itself", "exec_id", row.ID, "node_id", r.Node.ID, "user", r.By.Name)
	}
	return row, err
}

// seal returns a whole request as it is stored.
func (e *Execs) seal(spec *nodev1.ExecSpec) ([]byte, error) {
	data, err := proto.Marshal(spec)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the command, its environment or its folder is not valid UTF-8").
			WithCode(fault.InvalidParameters).WithCause(err)
	}
	return e.cfg.Vault.Seal(data, spec.GetExecId())
}

// send asks the node to start a command, creating its jail if it is not running.
func (e *Execs) send(ctx context.Context, link machine.Link, jail *nodev1.JailSpec, spec *nodev1.ExecSpec) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	host := jail.GetRootfs() == nodelink.RootMachine
	if _, err := link.Jails().EnsureJail(ctx, &nodev1.EnsureJailRequest{Spec: jail, HostMode: host}); err != nil {
		return fmt.Errorf("make jail %s: %w", jail.GetJailId(), fault.FromGRPC(err))
	}
	_, err := link.Exec().StartExec(ctx, &nodev1.StartExecRequest{Spec: spec})
	if fault.Is(fault.FromGRPC(err), fault.Exhausted) && spec.GetSnapshot() {
		// The node has no space to keep what a command changes. People must still be able
		// to free some.
		spec.Snapshot = false
		_, err = link.Exec().StartExec(ctx, &nodev1.StartExecRequest{Spec: spec})
	}
	if err != nil {
		return fmt.Errorf("start command: %w", fault.FromGRPC(err))
	}
	return nil
}

func (e *Execs) redactAll(orgID string, values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		// Bytes that are no text cannot be stored as such; the sealed request
		// has them.
		out[i] = strings.ToValidUTF8(e.cfg.Redact.Org(orgID).String(v), "\uFFFD")
	}
	return out
}

const maxReason = 200

// shown returns the part of an error that may be shown.
func shown(err error) string {
	if e := fault.As(err); e != nil && e.Kind != fault.Internal {
		return e.Error()
	}
	return "internal error"
}
