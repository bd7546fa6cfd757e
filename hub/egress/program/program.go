// Package program knows for which task a program in a jail calls the hub.
//
// Programs is its service. A program has no token: its request comes over the channel of its
// jail's node, and the jail has live tasks, all of whose personas have hub_access. The request
// is that of the task whose command it names, or of the only one in the jail. What a command
// says of itself is no boundary within a jail, so all tasks of the jail must be of one user,
// who could do by themselves whatever a program does for the wrong one. For the same reason no
// other user may have a command or a terminal in the jail meanwhile.
//
// While a task of the jail is in review mode and its work is not accepted, programs may only read.
//
// Identify is asked again for each call: access ends when the task ends, is killed, or moves to
// another node. If the database does not respond, nobody is identified.
package program

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Programs identifies programs.
type Programs struct {
	Store *store.Store
	// Persona returns the persona of a task with the task's overrides.
	Persona func(ctx context.Context, t db.Task) (*persona.Persona, error)
}

// Caller is where a request comes from. ExecID is what the request says; it may be anything.
type Caller struct{ OrgID, NodeID, JailID, ExecID string }

// Identify returns the identity of the task that a program is of.
func (p *Programs) Identify(ctx context.Context, c Caller) (auth.Identity, error) {
	tasks, err := p.Store.TasksInJail(ctx, db.TasksInJailParams{OrgID: c.OrgID, JailID: c.JailID})
	if err != nil {
		return auth.Identity{}, fault.New(fault.Unavailable, "the hub's database does not respond").WithFix("try again in a moment").WithCause(err)
	}
	if !slices.ContainsFunc(tasks, func(t db.Task) bool { return t.NodeID != nil && *t.NodeID == c.NodeID }) {
		return auth.Identity{}, fault.New(fault.Unauthenticated, "no task is running in jail %s on this node", c.JailID).
			WithFix("only programs of a running task may call the hub")
	}
	readOnly := false
	for _, t := range tasks {
		own, err := p.Persona(ctx, t)
		if err != nil {
			return auth.Identity{}, err
		}
		if !own.HubAccess {
			return auth.Identity{}, refused("the persona of task %s in this jail does not have hub_access", t.ID).WithFix("write hub_access: true in the persona, and apply it")
		}
		if t.CreatedBy != tasks[0].CreatedBy {
			return auth.Identity{}, refused("tasks of %s and of %s share this jail, so no program in it may call the hub", tasks[0].CreatedBy, t.CreatedBy).
				WithFix("try again when one of them has ended, or give each task a workspace of its own: workspace.scope: task")
		}
		readOnly = readOnly || own.Mode == persona.Review && task.State(t.State) != task.ReviewNeeded
	}
	if err := p.alone(ctx, c, tasks[0].CreatedBy); err != nil {
		return auth.Identity{}, err
	}
	t, err := p.one(ctx, c, tasks)
	if err != nil {
		return auth.Identity{}, err
	}
	return auth.Identity{
		Kind: auth.Program, OrgID: t.OrgID, TokenID: "program of " + t.ID, TaskID: t.ID, ParentID: store.Text(t.ParentID), UserName: t.CreatedBy, Role: "viewer",
		Scope: auth.Scope{ReadOnly: readOnly},
	}, nil
}

// alone refuses programs while another user than that of the tasks is in the jail: a request may
// be from their command or terminal, whatever command it names.
func (p *Programs) alone(ctx context.Context, c Caller, user string) error {
	other, err := p.Store.OtherUserInJail(ctx, db.OtherUserInJailParams{OrgID: c.OrgID, NodeID: c.NodeID, JailID: c.JailID, UserName: user})
	switch {
	case store.IsNotFound(err):
		return nil
	case err != nil:
		return fault.New(fault.Unavailable, "the hub's database does not respond").WithFix("try again in a moment").WithCause(err)
	}
	return refused("%s has a command or a terminal in this jail, whose tasks are of %s, so no program in it may call the hub", other, user).
		WithFix("try again when it has ended: deckhand node execs --live")
}

// one returns the task of a command among those of its jail.
func (p *Programs) one(ctx context.Context, c Caller, tasks []db.Task) (db.Task, error) {
	if len(tasks) == 1 {
		return tasks[0], nil
	}
	if c.ExecID != "" && len(c.ExecID) <= maxExec {
		// The second run of a step has its id and a number.
		steps := []string{c.ExecID}
		if at := strings.LastIndexByte(c.ExecID, '_'); at > len("step") {
			steps = append(steps, c.ExecID[:at])
		}
		ran, err := p.Store.StepsOfExecs(ctx, db.StepsOfExecsParams{OrgID: c.OrgID, NodeID: c.NodeID, Steps: steps, Execs: []string{c.ExecID}})
		if err != nil {
			return db.Task{}, fmt.Errorf("look for command %s: %w", c.ExecID, err)
		}
		for _, step := range ran {
			at := slices.IndexFunc(tasks, func(t db.Task) bool { return t.ID == step.TaskID })
			if at >= 0 && step.JailID == c.JailID {
				return tasks[at], nil
			}
		}
	}
	return db.Task{}, refused("%d tasks share this jail, and the request does not say of which it is", len(tasks)).
		WithFix("send it through the proxy as the variable https_proxy has it, with its user name")
}

// maxExec bounds the id of a command, in bytes.
const maxExec = 128

func refused(format string, args ...any) *fault.Error {
	return fault.New(fault.Denied, format, args...).WithCode(fault.PermissionDenied)
}
