package nodetest

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// KillExec ends a command, or keeps it from ever starting.
func (n *Node) KillExec(_ context.Context, req *nodev1.KillExecRequest) (*nodev1.KillExecResponse, error) {
	n.mu.Lock()
	c := n.execs[req.GetExecId()]
	if c == nil {
		end := n.buried[req.GetExecId()]
		if end == nil {
			now := timestamppb.Now()
			end = &nodev1.Exec{
				ExecId: req.GetExecId(), State: nodev1.ExecState_EXEC_STATE_ENDED, EndReason: nodev1.EndReason_END_REASON_KILLED,
				KilledBy: req.GetBy(), StartError: "killed before it started", CreatedAt: now, EndedAt: now,
			}
			n.buried[req.GetExecId()] = end
		}
		n.mu.Unlock()
		return &nodev1.KillExecResponse{Exec: end}, nil
	}
	c.killer = req.GetBy()
	n.mu.Unlock()
	c.cancel()
	<-c.done
	return &nodev1.KillExecResponse{Exec: n.state(c)}, nil
}

// KillJail ends every command of a jail.
func (n *Node) KillJail(_ context.Context, req *nodev1.KillJailRequest) (*nodev1.KillJailResponse, error) {
	n.mu.Lock()
	var killed []*command
	out := &nodev1.KillJailResponse{}
	for id, c := range n.execs {
		if c.exec.GetJailId() == req.GetJailId() && c.exec.GetState() == nodev1.ExecState_EXEC_STATE_RUNNING {
			c.killer = req.GetBy()
			killed, out.ExecIds = append(killed, c), append(out.ExecIds, id)
		}
	}
	n.mu.Unlock()
	for _, c := range killed {
		c.cancel()
		<-c.done
	}
	return out, nil
}

// FreezeJail notes who holds a jail: commands continue, since nothing can stop
// a function, and no new one is started.
func (n *Node) FreezeJail(_ context.Context, req *nodev1.FreezeJailRequest) (*nodev1.FreezeJailResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	have := n.holders[req.GetJailId()]
	if at, found := slices.BinarySearch(have, req.GetHolder()); !found {
		n.holders[req.GetJailId()] = slices.Insert(slices.Clone(have), at, req.GetHolder())
	}
	return &nodev1.FreezeJailResponse{Jail: frozenJail(req.GetJailId(), n.holders[req.GetJailId()])}, nil
}

// ThawJail takes a holder back.
func (n *Node) ThawJail(_ context.Context, req *nodev1.ThawJailRequest) (*nodev1.ThawJailResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holders[req.GetJailId()] = slices.DeleteFunc(slices.Clone(n.holders[req.GetJailId()]), func(have string) bool { return have == req.GetHolder() })
	return &nodev1.ThawJailResponse{Jail: frozenJail(req.GetJailId(), n.holders[req.GetJailId()])}, nil
}

// FrozenBy returns who holds a jail.
func (n *Node) FrozenBy(jailID string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.holders[jailID]
}

// frozenJail describes a jail and who has frozen it.
func frozenJail(id string, holders []string) *nodev1.Jail {
	return &nodev1.Jail{JailId: id, State: nodev1.JailState_JAIL_STATE_RUNNING, Pid: 1, FrozenBy: holders}
}

// SetDrain keeps what the hub says.
func (n *Node) SetDrain(_ context.Context, req *nodev1.SetDrainRequest) (*nodev1.SetDrainResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drain = &nodev1.SetDrainResponse{Draining: req.GetDraining(), Reason: req.GetReason()}
	return n.drain, nil
}

// Recorded returns whose ends the hub has said it has on record.
func (n *Node) Recorded() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.recorded)
}

// Drain returns what the hub said last; nil before it said anything.
func (n *Node) Drain() *nodev1.SetDrainResponse {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drain
}
