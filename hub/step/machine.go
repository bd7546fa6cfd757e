package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// An agent works on a machine itself under the lock of its node (hub/fleet/node), which an
// administrator grants to its task for a time. A command there is a step like any other: it
// has the locked node as its node and "host" as its jail, runs at most once, and is killed
// with its task. It runs no longer than the lock. Commands of other tasks do not start on the
// node meanwhile: the statements that start a step test it.

// machineFor returns the lock that a call on a machine is made under, or why the call cannot be
// made; neither for a call that is on none.
func machineFor(ctx context.Context, q *db.Queries, t db.Task, p *persona.Persona, record *tool.Tool, arguments map[string]any) (*db.NodeLock, *fault.Error, error) {
	if record.Name == toolname.NodeLock {
		name, _ := arguments["node"].(string)
		_, refused, err := hostNode(ctx, q, t.OrgID, p, name)
		return nil, refused, err
	}
	if !record.UnderLock() {
		return nil, nil, nil
	}
	row, err := q.LockOfTask(ctx, db.LockOfTaskParams{OrgID: t.OrgID, TaskID: t.ID})
	if store.IsNotFound(err) {
		return nil, notLocked(), nil
	}
	return &row.NodeLock, nil, err
}

func notLocked() *fault.Error {
	return fault.New(fault.Precondition, "you hold the lock of no node").WithCode(fault.NodeLocked).
		WithFix("lock one with %s, and call this when you have its result", toolname.NodeLock)
}

// hostNode returns a node that an agent may work on, or why it may not.
func hostNode(ctx context.Context, q *db.Queries, orgID string, p *persona.Persona, name string) (db.Node, *fault.Error, error) {
	row, err := q.NodeByName(ctx, db.NodeByNameParams{OrgID: orgID, Name: name})
	if store.IsNotFound(err) {
		return row, fault.New(fault.NotFound, "there is no node %q", name).WithFix("see which there are with %s", toolname.NodeList), nil
	}
	if err != nil {
		return row, nil, fmt.Errorf("find node %q: %w", name, err)
	}
	if !p.Host.Allows(row.Name, node.Labels(row)) {
		return row, fault.New(fault.Denied, "the persona's host.nodes does not have the node %s", name).
			WithCode(fault.PermissionDenied).WithFix("use one of %s", strings.Join(p.Host.Nodes, ", ")), nil
	}
	return row, nil, nil
}

// onMachine adds the node to what a person is shown of a command on a machine.
func onMachine(ctx context.Context, q *db.Queries, step db.Step, preview string) (string, error) {
	if step.NodeID == nil {
		return preview, nil
	}
	n, err := q.NodeByID(ctx, *step.NodeID)
	if err != nil {
		return "", fmt.Errorf("load node %s: %w", *step.NodeID, err)
	}
	return "On node " + n.Name + ". " + preview, nil
}

// lockedOut is the error of a step that cannot start while another agent's task holds the lock
// of its node. It is of kind Unavailable: trying again later is all that there is to do.
func lockedOut(ctx context.Context, q *db.Queries, step db.Step) error {
	held, err := q.HeldNodeLock(ctx, db.HeldNodeLockParams{OrgID: step.OrgID, NodeID: store.Text(step.NodeID)})
	if store.IsNotFound(err) {
		return fault.New(fault.Unavailable, "the lock of the node of step %s has just been released", step.ID).WithObject(step.ID).WithFix("try again")
	}
	if err != nil {
		return fmt.Errorf("read the lock of node %s: %w", store.Text(step.NodeID), err)
	}
	n, err := q.NodeByID(ctx, held.NodeID)
	if err != nil {
		return fmt.Errorf("load node %s: %w", held.NodeID, err)
	}
	return fault.New(fault.Unavailable, "%s", node.LockedBy(n.Name, &held)).WithObject(step.ID).WithFix("wait for it")
}

// waitForLock waits, as long as a call of the worker may, for the release of a lock that keeps a
// granted step from starting, and says in the step why it waits.
func waitForLock(ctx context.Context, s *Steps, t db.Task, step db.Step) error {
	waited := strings.HasPrefix(step.DecisionReason, waits) && !waitsForPerson(step)
	_, err := waitWhile(ctx, s, step, waited, "allowed, after the lock of its node was released", func(ctx context.Context) (string, error) {
		held, err := s.cfg.Store.HeldNodeLock(ctx, db.HeldNodeLockParams{OrgID: t.OrgID, NodeID: *step.NodeID})
		if err != nil && !store.IsNotFound(err) {
			return "", fmt.Errorf("read the lock of node %s: %w", *step.NodeID, err)
		}
		if err != nil || held.TaskID == nil || *held.TaskID == t.ID {
			return "", nil
		}
		n, err := s.cfg.Store.NodeByID(ctx, *step.NodeID)
		if err != nil {
			return "", fmt.Errorf("load node %s: %w", *step.NodeID, err)
		}
		return waits + node.LockedBy(n.Name, &held), nil
	})
	return err
}

// machines is how the calls of a task work with machines. It implements tool.Machines.
type machines struct {
	s    *Steps
	t    db.Task
	p    *persona.Persona
	step db.Step
	by   node.User
}

func machinesOf(ctx context.Context, s *Steps, t db.Task, p *persona.Persona, step db.Step) (*machines, error) {
	name, err := s.cfg.Agents.NameOf(ctx, s.cfg.Store.Queries, t.OrgID, t.AgentID)
	if err != nil {
		return nil, err
	}
	return &machines{s, t, p, step, node.User{ID: t.AgentID, Name: "agent " + name, TaskID: t.ID}}, nil
}

// machineCall completes the data of a call that works with machines.
func machineCall(ctx context.Context, s *Steps, t db.Task, step db.Step, record *tool.Tool, call *tool.Call) error {
	p, err := s.persona(ctx, t)
	if err != nil {
		return err
	}
	m, err := machinesOf(ctx, s, t, p, step)
	if err != nil {
		return err
	}
	call.Machines = m
	if record.Inspects() {
		if call.Approved, err = approvedState(step); err != nil {
			return err
		}
	}
	if !record.UnderLock() || step.StartedAt == nil {
		return nil
	}
	// The lock that it began under, so that each request for it is the same.
	row, err := s.cfg.Store.LockOfTaskAt(ctx, db.LockOfTaskAtParams{OrgID: t.OrgID, TaskID: t.ID, At: *step.StartedAt})
	if store.IsNotFound(err) || err == nil && row.NodeLock.NodeID != store.Text(step.NodeID) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the lock of task %s: %w", t.ID, err)
	}
	lock := m.lockOf(row.NodeLock, row.NodeName)
	call.Lock = &lock
	wanted := call.Live
	call.Live = func(ctx context.Context) bool {
		if !wanted(ctx) {
			return false
		}
		now, err := s.cfg.Store.LockOfTask(ctx, db.LockOfTaskParams{OrgID: t.OrgID, TaskID: t.ID})
		if err != nil {
			return !store.IsNotFound(err)
		}
		return now.NodeLock.ID == lock.ID
	}
	return nil
}

func (m *machines) lockOf(l db.NodeLock, nodeName string) tool.MachineLock {
	return tool.MachineLock{ID: l.ID, Holder: l.UserName, Node: nodeName, Until: *l.ExpiresAt, Folders: m.p.Host.Paths}
}

// machineLook bounds what List asks of one node.
const machineLook = 3 * time.Second

// List returns the nodes of the organisation, with what those say that can be asked.
func (m *machines) List(ctx context.Context) ([]tool.Machine, error) {
	rows, err := m.s.cfg.Nodes.Machines(ctx, m.t.OrgID)
	if err != nil {
		return nil, err
	}
	mask := m.s.cfg.Redact.Org(m.t.OrgID).String
	out := make([]tool.Machine, len(rows))
	var asking errgroup.Group
	asking.SetLimit(16)
	for i, row := range rows {
		out[i] = tool.Machine{
			Name: row.Node.Name, Labels: node.Labels(row.Node), Status: "disconnected", Runtimes: row.Node.Runtimes, Blocked: node.Blocked(row.Node, row.Lock),
			Own: m.t.NodeID != nil && *m.t.NodeID == row.Node.ID, Host: m.p.Host.Allows(row.Node.Name, node.Labels(row.Node)),
		}
		if !row.Connected {
			continue
		}
		out[i].Status = "connected"
		asking.Go(func() error {
			link, err := m.s.cfg.Node(row.Node.ID)
			if err != nil {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, machineLook)
			defer cancel()
			if res, err := link.Telemetry().GetTelemetry(ctx, &nodev1.GetTelemetryRequest{Limit: 1}); err == nil && len(res.GetSamples()) > 0 {
				out[i].Usage = res.GetSamples()[0].GetHost()
			}
			if res, err := link.Node().GetMachine(ctx, &nodev1.GetMachineRequest{}); err == nil {
				info := res.GetMachine()
				info.Os, info.Kernel, info.Systemd = mask(info.GetOs()), mask(info.GetKernel()), mask(info.GetSystemd())
				out[i].Info = info
			}
			return nil
		})
	}
	return out, asking.Wait()
}

// Lock locks a node for the task.
func (m *machines) Lock(ctx context.Context, name, reason string, most time.Duration) (tool.MachineLock, error) {
	row, refused, err := hostNode(ctx, m.s.cfg.Store.Queries, m.t.OrgID, m.p, name)
	if err != nil {
		return tool.MachineLock{}, err
	}
	if refused != nil {
		return tool.MachineLock{}, refused
	}
	if err := node.Require(row, nodelink.Machines, "run an agent's commands on the machine itself"); err != nil {
		return tool.MachineLock{}, err
	}
	l, err := m.s.cfg.Nodes.LockForTask(ctx, row, m.by, m.step.ID, reason, most)
	if err != nil {
		return tool.MachineLock{}, err
	}
	return m.lockOf(l.NodeLock, l.NodeName), nil
}

// Unlock releases the task's lock.
func (m *machines) Unlock(ctx context.Context) (tool.MachineLock, bool, error) {
	l, held, err := m.s.cfg.Nodes.UnlockForTask(ctx, m.t.OrgID, m.by)
	if err != nil || !held {
		return tool.MachineLock{}, false, err
	}
	return m.lockOf(l.NodeLock, l.NodeName), true, nil
}

// Held returns the lock that the task holds.
func (m *machines) Held(ctx context.Context) (tool.MachineLock, machine.Link, error) {
	row, err := m.s.cfg.Store.LockOfTask(ctx, db.LockOfTaskParams{OrgID: m.t.OrgID, TaskID: m.t.ID})
	if store.IsNotFound(err) {
		return tool.MachineLock{}, nil, notLocked()
	}
	if err != nil {
		return tool.MachineLock{}, nil, fmt.Errorf("find the lock of task %s: %w", m.t.ID, err)
	}
	link, err := m.s.node(ctx, db.Step{ID: m.step.ID, NodeID: &row.NodeLock.NodeID})
	return m.lockOf(row.NodeLock, row.NodeName), link, err
}

// Link returns the link to a node that the agent may work on, or to its own.
func (m *machines) Link(ctx context.Context, name string) (machine.Link, string, error) {
	q := m.s.cfg.Store.Queries
	if m.t.NodeID != nil {
		own, err := q.NodeByID(ctx, *m.t.NodeID)
		if err != nil {
			return nil, "", fmt.Errorf("load node %s: %w", *m.t.NodeID, err)
		}
		if name == "" || name == own.Name {
			link, err := m.s.node(ctx, db.Step{ID: m.step.ID, NodeID: m.t.NodeID})
			return link, own.Name, err
		}
	}
	row, refused, err := hostNode(ctx, q, m.t.OrgID, m.p, name)
	if err != nil {
		return nil, "", err
	}
	if refused != nil {
		return nil, "", refused
	}
	link, err := m.s.node(ctx, db.Step{ID: m.step.ID, NodeID: &row.ID})
	return link, row.Name, err
}

// Select returns the names of the nodes that names, or labels, mean. Those that the persona
// does not let the agent work on are refused, and left out of a selection by labels.
func (m *machines) Select(ctx context.Context, names []string, selector map[string]string) ([]string, error) {
	if len(names) > 0 {
		for _, name := range names {
			_, refused, err := hostNode(ctx, m.s.cfg.Store.Queries, m.t.OrgID, m.p, name)
			if err != nil {
				return nil, err
			}
			if refused != nil {
				return nil, refused
			}
		}
		return names, nil
	}
	rows, err := m.s.cfg.Nodes.Machines(ctx, m.t.OrgID)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		labels := node.Labels(row.Node)
		fits := m.p.Host.Allows(row.Node.Name, labels)
		for key, value := range selector {
			have, ok := labels[key]
			fits = fits && ok && have == value
		}
		if fits {
			names = append(names, row.Node.Name)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return nil, fault.New(fault.Invalid, "no node that the persona's host.nodes has fits the selector").WithCode(fault.InvalidParameters).
			WithFix("see the nodes and their labels with %s", toolname.NodeList)
	case len(names) > maxSelected:
		return nil, fault.New(fault.Invalid, "the selector means %d nodes: at most %d are allowed", len(names), maxSelected).
			WithCode(fault.InvalidParameters).WithFix("select fewer")
	}
	return names, nil
}

// maxSelected is how many nodes one call may run a command on.
const maxSelected = 100

// execID returns the id of a step's command on a node.
func (m *machines) execID(nodeID string) string {
	sum := sha256.Sum256([]byte(m.step.ID + " " + nodeID))
	return nodeexec.Kind + "_" + hex.EncodeToString(sum[:10])
}

// Start starts a command on a node, once.
func (m *machines) Start(ctx context.Context, name, command string, timeout time.Duration) (tool.MachineExec, error) {
	row, refused, err := hostNode(ctx, m.s.cfg.Store.Queries, m.t.OrgID, m.p, name)
	if err != nil {
		return tool.MachineExec{}, err
	}
	if refused != nil {
		return tool.MachineExec{}, refused
	}
	if err := node.Require(row, nodelink.Machines, "run an agent's commands on the machine itself"); err != nil {
		return tool.MachineExec{}, err
	}
	id := m.execID(row.ID)
	if known, err := m.s.cfg.Execs.Get(ctx, m.t.OrgID, id); err == nil {
		return execOf(known), nil
	} else if !fault.Is(err, fault.NotFound) {
		return tool.MachineExec{}, err
	}
	started, err := m.s.cfg.Execs.Submit(ctx, nodeexec.Request{
		OrgID: m.t.OrgID, Node: row, Host: true, By: m.by, Role: auth.Admin, Reason: "step " + m.step.ID, ID: id, StepID: m.step.ID,
		Argv: []string{"/bin/bash", "-c", command}, Dir: "/root", Timeout: timeout,
	})
	if err != nil {
		// It may be stored all the same: refused by the node, or on its way there.
		if known, kerr := m.s.cfg.Execs.Get(context.WithoutCancel(ctx), m.t.OrgID, id); kerr == nil {
			return execOf(known), nil
		}
		return tool.MachineExec{}, err
	}
	return execOf(started), nil
}

func execOf(row db.GetNodeExecRow) tool.MachineExec {
	e := row.NodeExec
	out := tool.MachineExec{ID: e.ID, Node: row.NodeName, State: e.State, Reason: e.EndReason, Error: e.Error, ExitCode: e.ExitCode, LogBytes: e.LogBytes, Asked: e.CreatedAt}
	if e.StartedAt != nil && e.FinishedAt != nil {
		out.Duration = e.FinishedAt.Sub(*e.StartedAt)
	}
	return out
}

// Look returns how a command stands.
func (m *machines) Look(ctx context.Context, id string, wait time.Duration) (tool.MachineExec, error) {
	row, err := m.s.cfg.Execs.Wait(ctx, m.t.OrgID, id, wait)
	return execOf(row), err
}

// Kill ends a command.
func (m *machines) Kill(ctx context.Context, id string) error {
	_, err := m.s.cfg.Execs.Kill(ctx, m.t.OrgID, id, m.by, "its step has ended")
	return err
}

// Tail returns the end of a command's output.
func (m *machines) Tail(ctx context.Context, e tool.MachineExec, most int64) (string, error) {
	row, err := m.s.cfg.Execs.Get(ctx, m.t.OrgID, e.ID)
	if err != nil {
		return "", err
	}
	link, err := m.s.cfg.Node(row.NodeExec.NodeID)
	if err != nil {
		return "", err
	}
	stream, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: e.ID, Offset: max(0, e.LogBytes-most), Limit: most})
	if err != nil {
		return "", fmt.Errorf("read the output of %s: %w", e.ID, err)
	}
	var b strings.Builder
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return strings.ToValidUTF8(b.String(), "\uFFFD"), nil
		}
		if err != nil {
			return "", fmt.Errorf("read the output of %s: %w", e.ID, err)
		}
		b.Write(piece.GetData())
	}
}

// MachineFolders returns the folders of machines that a task's persona names.
func MachineFolders(ctx context.Context, s *Steps, t db.Task) ([]string, error) {
	p, err := s.persona(ctx, t)
	if err != nil {
		return nil, err
	}
	return p.Host.Paths, nil
}

// MachineChange returns where a step changed files of a machine; false for one that was made on
// none.
func MachineChange(ctx context.Context, s *Steps, t db.Task, step db.Step) (workspace.MachineChange, bool, error) {
	record := s.cfg.Tools.Get(step.Tool)
	if record == nil || !record.UnderLock() || record.ReadOnly || step.StartedAt == nil {
		return workspace.MachineChange{}, false, nil
	}
	row, err := s.cfg.Store.LockOfTaskAt(ctx, db.LockOfTaskAtParams{OrgID: t.OrgID, TaskID: t.ID, At: *step.StartedAt})
	if store.IsNotFound(err) {
		return workspace.MachineChange{}, false, nil
	}
	if err != nil {
		return workspace.MachineChange{}, false, fmt.Errorf("find the lock of task %s: %w", t.ID, err)
	}
	p, err := s.persona(ctx, t)
	if err != nil {
		return workspace.MachineChange{}, false, err
	}
	return workspace.MachineChange{NodeID: row.NodeLock.NodeID, Folders: p.Host.Paths, ChangeID: step.ExecID}, true, nil
}
