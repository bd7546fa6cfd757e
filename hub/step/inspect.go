package step

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
)

// What some calls would do is not in their arguments: git_push pushes what is committed. Before
// a person is asked, the hub inspects it on the node. The person sees it, the grant is bound to
// it (see binding), and the call is made with exactly that (tool.Call.Approved). A tool that is
// Exact does that or fails, so that one inspection is enough. Before a call of any other one is
// made, the hub inspects again: if something else would be done by now, the person is asked
// again. If the node cannot be asked, the grant is bound to nothing that will ever be the case.

// inspectionTimeout bounds one inspection.
const inspectionTimeout = 25 * time.Second

// inspectedPart is the part of a binding that holds the inspected state.
const inspectedPart = "inspected"

// inspected is an inspection as decisions use it. Its state is never empty.
type inspected struct{ tool.Inspection }

// notInspected and notPossible begin the states of what could not be inspected, and of what
// cannot be done.
const (
	notInspected = "not inspected: "
	notPossible  = "refused: "
)

// inspectedState returns the state that a step is bound to: of a granted one whose tool is Exact,
// the one that it was granted for.
func (s *Steps) inspectedState(ctx context.Context, l *looks, t db.Task, record *tool.Tool, step db.Step, raw []byte) (string, error) {
	if record.Exact && State(step.State) == Granted {
		state, err := approvedState(step)
		if err != nil || state != "" && !strings.HasPrefix(state, notInspected) && !strings.HasPrefix(state, notPossible) {
			return state, err
		}
	}
	i, err := s.inspect(ctx, l, t, record, raw)
	return i.State, err
}

// inspectedCall identifies what was inspected.
type inspectedCall struct{ jail, tool, arguments string }

// inspect returns what a call of a tool that inspects would do. Within a transaction it returns
// an event.Outside if the node must be asked first.
func (s *Steps) inspect(ctx context.Context, l *looks, t db.Task, record *tool.Tool, raw []byte) (inspected, error) {
	of := inspectedCall{t.JailID, record.Name, digest(raw)}
	look := func(ctx context.Context) {
		if l.inspected == nil {
			l.inspected = map[inspectedCall]inspected{}
		}
		l.inspected[of] = s.inspectNow(ctx, t, record, raw)
	}
	if _, ok := l.inspected[of]; !ok && l.ask {
		look(ctx)
	} else if !ok {
		if err := l.later(look); err != nil {
			return inspected{}, err
		}
	}
	if i, ok := l.inspected[of]; ok {
		return i, nil
	}
	return uninspected("it was not asked"), nil
}

// uninspected is bound to a state that is never the case.
func uninspected(problem string) inspected {
	return inspected{tool.Inspection{
		State:   notInspected + ident.New("look"),
		Preview: "What this would do could not be found out: " + problem + "\nIf you approve it, you are asked again when it can be.",
	}}
}

// inspectNow asks the node.
func (s *Steps) inspectNow(ctx context.Context, t db.Task, record *tool.Tool, raw []byte) inspected {
	ctx, cancel := context.WithTimeout(ctx, inspectionTimeout)
	defer cancel()
	i, err := s.askForInspection(ctx, t, record, raw)
	if err == nil && i.Refused != nil {
		// No approval is for it.
		i.State, i.Preview = notPossible+ident.New("look"), "This cannot be done: "+i.Refused.Explanation()
	}
	if err == nil {
		return inspected{i}
	}
	s.cfg.Log.Info("what a call would do cannot be inspected", "task_id", t.ID, "tool", record.Name, "error", err)
	problem := "the node did not respond"
	if e := fault.As(fault.FromGRPC(err)); e != nil && e.Kind != fault.Internal {
		problem = e.Message
	}
	return uninspected(problem)
}

func (s *Steps) askForInspection(ctx context.Context, t db.Task, record *tool.Tool, raw []byte) (tool.Inspection, error) {
	call := tool.Call{ExecID: ident.New("step"), Live: func(ctx context.Context) bool { return ctx.Err() == nil }}
	if err := json.Unmarshal(raw, &call.Arguments); err != nil {
		return tool.Inspection{}, fmt.Errorf("read arguments of %s: %w", record.Name, err)
	}
	var err error
	if record.Machines() {
		p, err := s.persona(ctx, t)
		if err != nil {
			return tool.Inspection{}, err
		}
		if call.Machines, err = machinesOf(ctx, s, t, p, db.Step{}); err != nil {
			return tool.Inspection{}, err
		}
		return record.Inspect(ctx, call)
	}
	if record.Sends() {
		if call.Messages, err = messengerOf(ctx, s, t, call.ExecID, call.ExecID, nil); err != nil {
			return tool.Inspection{}, err
		}
		if t.NodeID == nil {
			return record.Inspect(ctx, call)
		}
	}
	if t.NodeID == nil {
		return tool.Inspection{}, fault.New(fault.Unavailable, "task %s has no node", t.ID)
	}
	if call.Node, err = s.cfg.Node(*t.NodeID); err != nil {
		return tool.Inspection{}, err
	}
	p, err := s.persona(ctx, t)
	if err != nil {
		return tool.Inspection{}, err
	}
	if call.Jail, err = s.jailOf(ctx, t, p); err != nil {
		return tool.Inspection{}, err
	}
	call.OfflineGrace, call.Traceparent = p.OfflineGrace, traceparent.Child(t.Traceparent, call.ExecID)
	// No step has its result: the node may forget it.
	defer s.cfg.AckOutcome(*t.NodeID, call.ExecID)
	return record.Inspect(ctx, call)
}

// approvedState returns the inspected state that a step was approved with; "" if it needed no
// approval.
func approvedState(step db.Step) (string, error) {
	if step.GrantedBinding == nil {
		return "", nil
	}
	var parts map[string]string
	if err := json.Unmarshal(step.GrantedBinding, &parts); err != nil {
		return "", fmt.Errorf("read the binding of step %s: %w", step.ID, err)
	}
	state := parts[inspectedPart]
	if state == "" {
		return "", fault.New(fault.Internal, "step %s was approved, and it is not known for what", step.ID).WithObject(step.ID)
	}
	return state, nil
}

// refusedSince returns why a call that was approved cannot be made any more, or nil.
func (s *Steps) refusedSince(ctx context.Context, tx *event.Tx, t db.Task, step db.Step, raw []byte) (*fault.Error, error) {
	record := s.cfg.Tools.Get(step.Tool)
	if record == nil || !record.Inspects() {
		return nil, nil
	}
	i, err := s.inspect(ctx, looksOf(tx), t, record, raw)
	return i.Refused, err
}
