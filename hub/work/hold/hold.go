// Package hold stores holds. While a hold is active on an agent, a trigger, a node, a
// lineage or the whole organisation, no task in its scope is admitted or created; those
// that existed were cancelled (package kill), so that no lease is left with which a step
// could be started. A Set holds an organisation's active holds.
//
// Only a person releases a hold. It is a row, so it survives every hub.
package hold

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Scope is the kind of object that a hold is on.
type Scope string

// The scopes.
const (
	Agent        Scope = "agent"
	Trigger      Scope = "trigger"
	Node         Scope = "node"
	Lineage      Scope = "lineage"
	Organisation Scope = "organisation"
)

// Set is an organisation's active holds.
type Set []db.Hold

// Of returns the active holds. Admission reads them under its own lock, which making a
// hold takes too: no task slips through between the two.
func Of(ctx context.Context, q *db.Queries, orgID string) (Set, error) {
	rows, err := q.StandingHolds(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("read holds: %w", err)
	}
	return rows, nil
}

// Task contains the fields of a task that a hold can match.
type Task struct{ AgentID, TriggerID, LineageID string }

// Task returns the hold that keeps a task from starting anywhere, or nil.
func (s Set) Task(t Task) *db.Hold {
	for i, h := range s {
		switch Scope(h.Scope) {
		case Organisation:
			return &s[i]
		case Agent:
			if h.ObjectID == t.AgentID {
				return &s[i]
			}
		case Trigger:
			if h.ObjectID == t.TriggerID {
				return &s[i]
			}
		case Lineage:
			if h.ObjectID == t.LineageID {
				return &s[i]
			}
		case Node:
		}
	}
	return nil
}

// Node returns the hold that keeps tasks off a node, or nil.
func (s Set) Node(id string) *db.Hold {
	for i, h := range s {
		if Scope(h.Scope) == Node && h.ObjectID == id {
			return &s[i]
		}
	}
	return nil
}

// Describe returns who made a hold on what, why, and how it is released.
func Describe(h *db.Hold) string { return what(h) + "; " + release(h) }

func what(h *db.Hold) string {
	object := h.Scope + " " + h.ObjectID
	if Scope(h.Scope) == Organisation {
		object = "the whole organisation"
	}
	text := fmt.Sprintf("%s is held by %s since %s", object, h.HeldBy, h.CreatedAt.UTC().Format("2006-01-02 15:04 UTC"))
	if h.Reason != "" {
		text += " (" + h.Reason + ")"
	}
	return text
}

func release(h *db.Hold) string {
	return fmt.Sprintf("an administrator releases it with: deckhand hold release %s", h.ID)
}

// Refuse is the error of a call that a hold forbids.
func Refuse(h *db.Hold) error {
	return fault.New(fault.Precondition, "%s", what(h)).WithCode(fault.Killed).WithObject(h.ID).WithFix("%s", release(h))
}
