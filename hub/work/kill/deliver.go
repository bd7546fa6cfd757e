package kill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deckhand-sh/deckhand/hub/record/change"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// atOnce is how many orders are given at the same time.
	atOnce = 128
	// silence is how long a node may leave a request unanswered before it counts as cut
	// off: a lost link is detected later than that.
	silence = 5 * time.Second
)

// errSilent cancels the orders to a node that does not respond.
var errSilent = errors.New("the node does not respond")

// errand is what is asked of one node.
type errand struct {
	// ctx is cancelled with errSilent when the node does not respond.
	ctx   context.Context
	heard atomic.Bool
}

// carryOut sends the orders to all nodes at once.
func (s *Switch) carryOut(ctx context.Context, orders []db.KillOrder) []Killed {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errands := map[string]*errand{}
	for _, order := range orders {
		if errands[order.NodeID] == nil {
			errands[order.NodeID] = s.listen(ctx, order)
		}
	}
	out := make([]Killed, len(orders))
	var asking sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i, order := range orders {
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			out[i] = s.do(errands[order.NodeID], order)
		})
	}
	asking.Wait()
	told := map[string]bool{}
	for i, order := range orders {
		if out[i].Outcome == Confirmed && !told[order.NodeID] {
			told[order.NodeID] = true
			s.cfg.Recorder.Publish(change.KillConfirmed{OrgID: order.OrgID, NodeID: order.NodeID})
		}
	}
	return out
}

// listen finds out whether a node responds at all: a link that was just cut looks as
// before, and a kill may legitimately take long.
func (s *Switch) listen(ctx context.Context, order db.KillOrder) *errand {
	e := &errand{}
	ctx, end := context.WithCancelCause(ctx)
	e.ctx = ctx
	go func() {
		asked, cancel := context.WithTimeout(ctx, silence)
		defer cancel()
		node, err := s.cfg.Node(order.NodeID)
		if err != nil {
			return // the orders get the same error
		}
		// No exec has the order's id: even NotFound is a response.
		_, _ = node.Exec().GetExec(asked, &nodev1.GetExecRequest{ExecId: order.ID})
		if asked.Err() != nil && !e.heard.Load() {
			end(errSilent)
		}
	}()
	return e
}

// do makes a node kill what an order names, and returns the result.
func (s *Switch) do(e *errand, order db.KillOrder) Killed {
	k := Killed{TaskID: order.TaskID, NodeID: order.NodeID, Outcome: Confirmed}
	asked, cancel := context.WithTimeout(e.ctx, s.cfg.Timeout)
	defer cancel()
	err := s.ask(asked, order)
	ctx := context.WithoutCancel(e.ctx)
	if err == nil {
		e.heard.Store(true)
		if err := s.cfg.Store.ConfirmKillOrder(ctx, db.ConfirmKillOrderParams{OrgID: order.OrgID, ID: order.ID}); err != nil {
			s.cfg.Log.Warn("cannot record that a kill was confirmed; it will be requested again", "task_id", order.TaskID, "error", err)
		}
		return k
	}
	silent := errors.Is(context.Cause(asked), errSilent)
	k.Outcome, k.Detail = Pending, err.Error()
	if e := fault.As(err); e != nil {
		k.Detail = e.Message
	}
	if silent {
		k.Detail = fmt.Sprintf("node %s has not responded for %s", order.NodeID, silence)
	}
	if silent || fault.Is(err, fault.Unavailable) {
		by, byErr := s.stopsBy(ctx, order, silent)
		if byErr == nil {
			k.Outcome, k.StopsBy = StopsBy, by
		} else {
			s.cfg.Log.Warn("cannot compute when a disconnected node stops a task", "task_id", order.TaskID, "error", byErr)
		}
	}
	if err := s.cfg.Store.SetKillProblem(ctx, db.SetKillProblemParams{OrgID: order.OrgID, ID: order.ID, Problem: k.Detail}); err != nil {
		s.cfg.Log.Warn("cannot record why a kill is not confirmed", "task_id", order.TaskID, "error", err)
	}
	s.cfg.Log.Info("a kill is not confirmed yet", "task_id", order.TaskID, "node_id", order.NodeID, "reason", k.Detail)
	return k
}

// stopsBy returns when a node that is cut off will have stopped an order's commands. A
// node that has just become silent may have heard from the hub until now.
func (s *Switch) stopsBy(ctx context.Context, order db.KillOrder, silent bool) (time.Time, error) {
	grace, err := s.offlineGrace(ctx, order.OrgID, order.TaskID)
	if err != nil {
		return time.Time{}, err
	}
	if silent {
		return time.Now().Add(grace), nil
	}
	seen, err := s.cfg.Store.LastContact(ctx, db.LastContactParams{OrgID: order.OrgID, ID: order.NodeID})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the last heartbeat of node %s: %w", order.NodeID, err)
	}
	return seen.Add(grace), nil
}

// ask kills the order's commands, which then never start either, and whatever
// else is in its jail.
func (s *Switch) ask(ctx context.Context, order db.KillOrder) error {
	node, err := s.cfg.Node(order.NodeID)
	if err != nil {
		return err
	}
	by := "kill switch: " + order.OrderedBy
	for _, id := range order.StepIds {
		if _, err := node.Exec().KillExec(ctx, &nodev1.KillExecRequest{ExecId: id, By: by}); err != nil {
			return fault.FromGRPC(err)
		}
	}
	if order.JailID == "" {
		return nil // it has only commands there
	}
	used, err := s.inUse(ctx, s.cfg.Store.Queries, order.OrgID, order.JailID, order.TaskID)
	if err != nil || used {
		return err
	}
	res, err := node.Jails().KillJail(ctx, &nodev1.KillJailRequest{JailId: order.JailID, By: by})
	if err != nil {
		return fault.FromGRPC(err)
	}
	if left := res.GetMembersLeft(); left > 0 {
		return fault.New(fault.Aborted, "%d processes of task %s have not ended on node %s", left, order.TaskID, order.NodeID)
	}
	return nil
}

// defaultOfflineGrace is how long a command continues while its node is disconnected if
// the persona does not say: the default of the node itself.
const defaultOfflineGrace = 10 * time.Minute

// offlineGrace returns how long a task's commands continue while their node is
// disconnected.
func (s *Switch) offlineGrace(ctx context.Context, orgID, taskID string) (time.Duration, error) {
	row, err := s.cfg.Store.GetTask(ctx, db.GetTaskParams{OrgID: orgID, ID: taskID})
	if err != nil {
		return 0, fmt.Errorf("load task %s: %w", taskID, err)
	}
	p, err := s.cfg.Agents.PersonaOf(ctx, s.cfg.Store.Queries, orgID, row.Task.AgentID, row.Task.AgentVersion)
	if err != nil {
		return 0, fmt.Errorf("load the persona of task %s: %w", taskID, err)
	}
	return cmp.Or(p.OfflineGrace, defaultOfflineGrace), nil
}
