package api

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/record/stop"
	"github.com/deckhand-sh/deckhand/hub/review"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/plan"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Inbox serves InboxService.
type Inbox struct {
	Inbox  *inbox.Service
	Tasks  *task.Service
	Agents *agent.Service
	// Override reads the settings that an escalated task continues with.
	Override func(ctx context.Context, id auth.Identity, m *deckhandv1.TaskOverride) (task.Override, error)
}

const inboxPage = 20

// ListInbox returns what waits.
func (h *Inbox) ListInbox(ctx context.Context, req *deckhandv1.ListInboxRequest) (*deckhandv1.ListInboxResponse, error) {
	ctx, total := withTotal(ctx, req)
	who, m := auth.From(ctx), req
	org := who.OrgID
	filter := inbox.Filter{
		UserID: who.UserID, Snoozed: snoozedOf[m.GetSnoozed()],
		PageSize: m.GetPageSize(), PageToken: m.GetPageToken(), Dangerous: m.GetDangerous(), Mine: m.GetMine(), Text: m.GetText(),
		TimeLeft: m.GetOrder() == deckhandv1.InboxOrder_INBOX_ORDER_TIME_LEFT,
	}
	if filter.PageSize == 0 {
		filter.PageSize = inboxPage
	}
	var err error
	if m.GetTaskId() != "" {
		if filter.TaskID, err = h.Tasks.Find(ctx, viewer(ctx), m.GetTaskId()); err != nil {
			return nil, err
		}
	}
	if m.GetAgentId() != "" {
		if filter.AgentID, err = h.Agents.Find(ctx, viewer(ctx), m.GetAgentId()); err != nil {
			return nil, err
		}
	}
	for _, k := range m.GetKinds() {
		filter.Kinds = append(filter.Kinds, inbox.Kind(enumWord(k, "INBOX_KIND_")))
	}
	for _, st := range m.GetStates() {
		filter.States = append(filter.States, inbox.State(enumWord(st, "INBOX_STATE_")))
	}
	if len(filter.States) == 0 {
		filter.States = []inbox.State{inbox.Open}
	}
	page, err := h.Inbox.List(ctx, viewer(ctx), filter)
	if err != nil {
		return nil, err
	}
	rule, err := h.Inbox.PasskeyRule(ctx, org)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListInboxResponse{NextPageToken: page.Next, NextSnoozeEndsAt: timestamp(page.NextSnooze)}
	for _, row := range page.Rows {
		item := h.listed(ctx, row)
		item.AlikeCount = page.Alike[row.InboxItem.Alike]
		setSnoozed(item, page.Snoozes)
		if item.NeedsPasskey, err = inbox.NeedsPasskey(row.InboxItem, rule); err != nil {
			return nil, err
		}
		res.Items = append(res.Items, item)
	}
	for _, k := range inbox.Kinds() {
		if n := page.Counts[inbox.Kind(k)]; n > 0 {
			res.Counts = append(res.Counts, &deckhandv1.InboxCount{Kind: deckhandv1.InboxKind(enumValue(deckhandv1.InboxKind_value, "INBOX_KIND_", k)), Items: n})
		}
	}
	res.Total, err = totalMessage(total, len(page.Rows), res.GetNextPageToken())
	return res, err
}

// GetInboxItem returns one item.
func (h *Inbox) GetInboxItem(ctx context.Context, req *deckhandv1.GetInboxItemRequest) (*deckhandv1.GetInboxItemResponse, error) {
	id, err := h.Inbox.Find(ctx, viewer(ctx), req.GetItemId())
	if err != nil {
		return nil, err
	}
	item, err := h.card(ctx, id)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetInboxItemResponse{Item: item}, nil
}

var snoozedOf = map[deckhandv1.InboxSnoozed]inbox.Snoozed{
	deckhandv1.InboxSnoozed_INBOX_SNOOZED_ONLY: inbox.OnlySnoozed,
	deckhandv1.InboxSnoozed_INBOX_SNOOZED_ANY:  inbox.AnySnoozed,
}

// SnoozeInboxItem leaves an item out of the caller's lists for a while.
func (h *Inbox) SnoozeInboxItem(ctx context.Context, req *deckhandv1.SnoozeInboxItemRequest) (*deckhandv1.SnoozeInboxItemResponse, error) {
	who := auth.From(ctx)
	id, err := h.Inbox.Find(ctx, viewer(ctx), req.GetItemId())
	if err != nil {
		return nil, err
	}
	var until *time.Time
	if at := req.GetUntil(); at != nil {
		if err := at.CheckValid(); err != nil {
			return nil, fault.New(fault.Invalid, "until is no time: %v", err).WithFix("give a time after now")
		}
		t := at.AsTime()
		until = &t
	}
	if err := h.Inbox.Snoozes.Set(ctx, who.OrgID, who.UserID, id, until); err != nil {
		return nil, err
	}
	item, err := h.card(ctx, id)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SnoozeInboxItemResponse{Item: item}, nil
}

// setSnoozed says until when the caller has snoozed an open item.
func setSnoozed(item *deckhandv1.InboxItem, snoozes map[string]time.Time) {
	if until, ok := snoozes[item.GetId()]; ok && item.GetState() == deckhandv1.InboxState_INBOX_STATE_OPEN {
		item.SnoozedUntil = timestamppb.New(until)
	}
}

// card returns an item with all that its card shows.
func (h *Inbox) card(ctx context.Context, id string) (*deckhandv1.InboxItem, error) {
	who := auth.From(ctx)
	org := who.OrgID
	row, err := h.Inbox.Get(ctx, org, id)
	if err != nil {
		return nil, err
	}
	card, err := h.Inbox.CardOf(ctx, row.InboxItem)
	if err != nil {
		return nil, err
	}
	item, err := h.whole(ctx, row)
	if err != nil {
		return nil, err
	}
	addCard(item, card)
	if item.Attachments, err = h.attachments(ctx, row.InboxItem); err != nil {
		return nil, err
	}
	rule, err := h.Inbox.PasskeyRule(ctx, org)
	if err != nil {
		return nil, err
	}
	if item.NeedsPasskey, err = inbox.NeedsPasskey(row.InboxItem, rule); err != nil {
		return nil, err
	}
	snoozes, err := h.Inbox.Snoozes.Until(ctx, org, who.UserID, row)
	if err != nil {
		return nil, err
	}
	setSnoozed(item, snoozes)
	return item, nil
}

// AnswerInboxItem answers an open item.
func (h *Inbox) AnswerInboxItem(ctx context.Context, req *deckhandv1.AnswerInboxItemRequest) (*deckhandv1.AnswerInboxItemResponse, error) {
	who, m := auth.From(ctx), req
	id, err := h.Inbox.Find(ctx, viewer(ctx), m.GetItemId())
	if err == nil {
		err = h.Inbox.MayAnswer(ctx, viewer(ctx), id)
	}
	if err != nil {
		return nil, err
	}
	a := inbox.Answer{Reason: m.GetReason(), By: actor(who), Role: who.Role, ShownDigest: m.GetShownDigest(), Identity: who, Proof: proofOf(m.GetProof())}
	if a.Verdict, err = verdictOf(m); err != nil {
		return nil, err
	}
	if a.Proof != nil {
		if a.RequestDigest, err = requestDigest(m); err != nil {
			return nil, err
		}
	}
	switch answer := m.GetAnswer().(type) {
	case *deckhandv1.AnswerInboxItemRequest_Approve_:
		a.ArgumentsJSON, a.JudgedDigest = answer.Approve.GetArgumentsJson(), answer.Approve.GetJudgedDigest()
		if w := answer.Approve.GetAlways(); w != nil {
			a.Always = &policy.RememberRule{Scope: w.GetScope(), EveryAgent: w.GetEveryAgent(), Lasts: w.GetLasts().AsDuration()}
		}
	case *deckhandv1.AnswerInboxItemRequest_Reply_:
		a.Text = answer.Reply.GetText()
	case *deckhandv1.AnswerInboxItemRequest_Retry_:
		if o := answer.Retry.GetOverride(); o != nil {
			if a.Override, err = h.Override(ctx, who, o); err != nil {
				return nil, err
			}
		}
	case *deckhandv1.AnswerInboxItemRequest_Accept_:
		a.Without = inbox.Without{Paths: answer.Accept.GetWithoutPaths(), StepIDs: answer.Accept.GetWithoutStepIds()}
	case *deckhandv1.AnswerInboxItemRequest_Changes_:
		a.Reason = answer.Changes.GetText()
	case *deckhandv1.AnswerInboxItemRequest_Suggest_:
		a.Reason = answer.Suggest.GetText()
	case *deckhandv1.AnswerInboxItemRequest_Replan_:
		a.Reason, a.PlanRevision = cmp.Or(answer.Replan.GetText(), a.Reason), answer.Replan.GetRevision()
		if a.Plan, err = plan.Replace(nodesOf(answer.Replan.GetItems())); err != nil {
			return nil, err
		}
	case *deckhandv1.AnswerInboxItemRequest_Clarify_:
		a.Reason = answer.Clarify.GetQuestion()
	case *deckhandv1.AnswerInboxItemRequest_Raise_:
		a.Limit = answer.Raise.GetLimit()
	}
	row, err := h.Inbox.Answer(ctx, who.OrgID, id, a)
	if err != nil {
		return nil, err
	}
	item, err := h.whole(ctx, row)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.AnswerInboxItemResponse{Item: item}, nil
}

// verdictOf returns what an answer decides.
func verdictOf(m *deckhandv1.AnswerInboxItemRequest) (inbox.Verdict, error) {
	switch answer := m.GetAnswer().(type) {
	case *deckhandv1.AnswerInboxItemRequest_Approve_:
		return inbox.Approve, nil
	case *deckhandv1.AnswerInboxItemRequest_Reject_:
		return inbox.Reject, nil
	case *deckhandv1.AnswerInboxItemRequest_Reply_:
		return inbox.Reply, nil
	case *deckhandv1.AnswerInboxItemRequest_Retry_:
		return inbox.Retry, nil
	case *deckhandv1.AnswerInboxItemRequest_Accept_:
		return inbox.Accept, nil
	case *deckhandv1.AnswerInboxItemRequest_Changes_:
		return inbox.Changes, nil
	case *deckhandv1.AnswerInboxItemRequest_Close_:
		return inbox.Close, nil
	case *deckhandv1.AnswerInboxItemRequest_Suggest_:
		return inbox.Suggest, nil
	case *deckhandv1.AnswerInboxItemRequest_Replan_:
		return inbox.Replan, nil
	case *deckhandv1.AnswerInboxItemRequest_Clarify_:
		return inbox.Clarify, nil
	case *deckhandv1.AnswerInboxItemRequest_Skip_:
		return inbox.Skip, nil
	case *deckhandv1.AnswerInboxItemRequest_Resolve_:
		if answer.Resolve.GetSucceeded() {
			return inbox.Succeeded, nil
		}
		return inbox.Failed, nil
	case *deckhandv1.AnswerInboxItemRequest_Raise_:
		return inbox.Raise, nil
	case *deckhandv1.AnswerInboxItemRequest_Allow_:
		return inbox.Allow, nil
	case *deckhandv1.AnswerInboxItemRequest_Resume_:
		return inbox.Resume, nil
	case *deckhandv1.AnswerInboxItemRequest_Dismiss_:
		return inbox.Dismiss, nil
	}
	return "", fault.New(fault.Invalid, "answer is missing").WithFix("say what the answer is")
}

func inboxMessage(row db.GetInboxItemRow) *deckhandv1.InboxItem {
	i := row.InboxItem
	m := &deckhandv1.InboxItem{
		Id:     i.ID,
		Kind:   deckhandv1.InboxKind(enumValue(deckhandv1.InboxKind_value, "INBOX_KIND_", i.Kind)),
		State:  deckhandv1.InboxState(enumValue(deckhandv1.InboxState_value, "INBOX_STATE_", i.State)),
		TaskId: i.TaskID, TaskTitle: row.TaskTitle, SubmittedBy: row.SubmittedBy, AgentId: i.AgentID, AgentName: row.AgentName,
		StepId: store.Text(i.StepID), StepNumber: row.StepNumber, Tool: i.Tool, Category: tool.CategoryOf(i.Category),
		Preview: i.Preview, Why: i.Why, Reasoning: row.Reasoning,
		AskedAt: timestamppb.New(i.AskedAt), ExpiresAt: timestamp(i.ExpiresAt), OnExpiry: i.OnExpiry,
		Answer: i.Answer, Reply: i.Reply, Reason: i.Reason, AnsweredBy: i.AnsweredBy, AnsweredAt: timestamp(i.AnsweredAt),
		NodeId: store.Text(row.NodeID), ExecId: row.ExecID, ShownDigest: inbox.ShownDigest(row),
	}
	if stop.Is(i.Kind) {
		m.Title, m.Sentence, m.Stop = i.Preview, i.Preview, stopMessage(i)
		return m
	}
	whole := object(i.Arguments)
	m.Sentence = sentence(row, whole.AsMap())
	if i.StepID != nil {
		m.Title = tool.Title(i.Tool, whole.AsMap())
		if m.Decision = callDecision(row); m.Decision != nil {
			m.NodeId = m.GetDecision().GetNodeId()
		}
	}
	m.Arguments, m.LongArguments = beginnings(whole)
	if i.ChangedArguments != nil {
		m.ChangedArguments = object(i.ChangedArguments)
	}
	if i.Offered > 0 && inbox.State(i.State) == inbox.Open {
		m.Offer = &deckhandv1.AutoApprovalOffer{Shape: i.Shape, Approvals: i.Offered}
	}
	switch inbox.Kind(i.Kind) {
	case inbox.Review:
		m.Review = reviewMessage(i)
	case inbox.Unknown:
		m.Evidence = row.Observation
	case inbox.Question:
		// Arguments that cannot be parsed any more are still shown unchanged.
		if q, err := tool.QuestionOf(m.GetArguments().AsMap()); err == nil {
			m.Question = &deckhandv1.InboxQuestion{Text: q.Text, Kind: q.Kind, Choices: q.Labels(), DefaultAnswer: q.Default}
			for _, o := range q.Options {
				m.Question.Options = append(m.Question.Options, &deckhandv1.InboxOption{Label: o.Label, Description: o.Description})
			}
		}
	}
	return m
}

// reviewMessage returns what a review shows; nil if it cannot be read.
func reviewMessage(i db.InboxItem) *deckhandv1.InboxReview {
	d, err := review.DetailOf(i)
	if err != nil {
		return nil
	}
	m := &deckhandv1.InboxReview{Summary: d.Summary, Files: int32(d.Files), Paths: d.Paths} //nolint:gosec // files of one workspace
	for _, c := range d.Deferred {
		m.Deferred = append(m.Deferred, &deckhandv1.DeferredCall{StepId: c.StepID, Number: c.Number, Tool: c.Tool, Category: tool.CategoryOf(c.Category), Preview: c.Preview, Dangers: c.Dangers})
	}
	for _, c := range d.Hosts {
		m.Hosts = append(m.Hosts, &deckhandv1.ReviewedHost{Host: c.Host, Requests: c.Requests, SentBytes: c.SentBytes, ReceivedBytes: c.ReceivedBytes})
	}
	return m
}
