package node

import (
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Require returns an error if a node's daemon is too old for what the hub is about to ask
// for: its capability (see package nodelink) is less than needed. todo completes "node X
// cannot …".
func Require(row db.Node, needed int32, todo string) error {
	if row.Capability >= needed {
		return nil
	}
	return fault.New(fault.Precondition, "node %s cannot %s: its deckhand-node %s is too old", row.Name, todo, row.Version).
		WithCode(fault.NodeUnavailable).WithObject(row.ID).WithFix("update deckhand-node on %s", row.Name)
}
