package api

import (
	"context"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// listed returns an item as a list has it for the caller.
func (h *Inbox) listed(ctx context.Context, row db.GetInboxItemRow) *deckhandv1.InboxItem {
	id, m := auth.From(ctx), inboxMessage(row)
	open := inbox.State(row.InboxItem.State) == inbox.Open
	m.Dangerous = m.GetCategory() == deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS || len(m.GetDecision().GetDangers()) > 0
	m.MayAnswer = open && inbox.MayAnswer(row, id.UserName, id.Role)
	if open {
		m.AlikeKey, m.EffectKey = row.InboxItem.Alike, row.InboxItem.Effect
	}
	return m
}

// whole returns an item with what only its card needs.
func (h *Inbox) whole(ctx context.Context, row db.GetInboxItemRow) (*deckhandv1.InboxItem, error) {
	m := h.listed(ctx, row)
	var err error
	if m.AlikeCount, err = h.Inbox.Alike(ctx, viewer(ctx), row); err != nil || inbox.State(row.InboxItem.State) != inbox.Open || m.GetStop() == nil {
		return m, err
	}
	if m.Stop.WaitingTasks, err = h.Inbox.Waiting(ctx, row.InboxItem); err != nil || inbox.Kind(row.InboxItem.Kind) != inbox.Egress {
		return m, err
	}
	p, err := h.Inbox.Propose(ctx, row.InboxItem)
	if err != nil {
		return nil, err
	}
	m.Stop.Change, m.ShownDigest = &deckhandv1.PersonaChange{Version: p.Version, Diff: p.Diff, Rule: p.Rule, Problem: p.Problem}, p.Digest()
	return m, nil
}

// stopMessage returns what a stop is about; an empty message if it cannot be read.
func stopMessage(i db.InboxItem) *deckhandv1.InboxStop {
	d, err := stop.DetailOf(i)
	if err != nil {
		return &deckhandv1.InboxStop{Title: i.Preview}
	}
	m := &deckhandv1.InboxStop{
		Title: i.Preview, LimitName: d.LimitName, LimitMost: d.LimitMost, Scope: d.Scope, ObjectId: d.ObjectID, Every: d.Every, Period: d.Period,
		LimitMicros: d.LimitMicros, SpentMicros: d.SpentMicros, AmountMicros: d.Amount, Host: d.Host, Port: uint32(d.Port), Method: d.Method, StepId: d.StepID,
		Tool: d.Tool, Provider: d.Provider, Credential: d.Credential, Reason: d.Reason, Login: d.Login, Status: d.Status,
	}
	switch inbox.Kind(i.Kind) {
	case inbox.Limit:
		m.LimitOffer = inbox.LimitOffer(d)
	case inbox.Budget:
		m.OfferMicros = inbox.BudgetOffer(d)
	}
	return m
}
