package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/feedback"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/pattern"
	"github.com/deckhand-sh/deckhand/hub/step"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Feedback serves FeedbackService.
type Feedback struct {
	Feedback *feedback.Service
	Patterns *pattern.Service
	Memories *memory.Memories
	Tasks    *task.Service
	Steps    *step.Steps
}

var (
	subjects = map[deckhandv1.FeedbackSubject]string{
		deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_TASK: feedback.Task, deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_STEP: feedback.Step,
		deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_PLAN: feedback.Plan, deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_PATTERN: feedback.Pattern,
		deckhandv1.FeedbackSubject_FEEDBACK_SUBJECT_MEMORY: feedback.Memory,
	}
	verdicts = map[deckhandv1.FeedbackVerdict]string{
		deckhandv1.FeedbackVerdict_FEEDBACK_VERDICT_APPROVE: feedback.Approve, deckhandv1.FeedbackVerdict_FEEDBACK_VERDICT_CORRECT: feedback.Correct,
		deckhandv1.FeedbackVerdict_FEEDBACK_VERDICT_REJECT: feedback.Reject,
	}
)

func keyOf[K comparable](m map[K]string, value string) (key K) {
	for k, v := range m {
		if v == value {
			return k
		}
	}
	return key
}

func feedbackMessage(f db.Feedback) *deckhandv1.Feedback {
	m := &deckhandv1.Feedback{
		Id: f.ID, Subject: keyOf(subjects, f.Subject), SubjectId: f.SubjectID, Verdict: keyOf(verdicts, f.Verdict), Correction: f.Correction,
		GivenBy: f.GivenBy, GivenAt: timestamppb.New(f.GivenAt),
	}
	if f.TaskID != nil {
		m.TaskId = *f.TaskID
	}
	return m
}

// proposalMessage returns a proposal as v sees it: without its pattern if v does not see that.
func proposalMessage(v visibility.Viewer, p db.LearnProposal, title string, seen bool) *deckhandv1.Proposal {
	patternID := p.PatternID
	if !seen {
		patternID, title = "", ""
	}
	m := &deckhandv1.Proposal{
		Id: p.ID, FeedbackId: p.FeedbackID, PatternId: patternID, PatternTitle: title, Note: p.Note, ProposedBy: p.ProposedBy, Owner: p.Owner,
		MayDecide: p.State == feedback.Open && feedback.MayDecide(v, p, seen), State: p.State, CreatedAt: timestamppb.New(p.CreatedAt), DecidedBy: p.DecidedBy, DecidedAt: timestamp(p.DecidedAt),
	}
	if p.TaskID != nil {
		m.TaskId = *p.TaskID
	}
	return m
}

// GiveFeedback stores the caller's verdict on what the caller sees.
func (h *Feedback) GiveFeedback(ctx context.Context, req *deckhandv1.GiveFeedbackRequest) (*deckhandv1.GiveFeedbackResponse, error) {
	id, v := auth.From(ctx), viewer(ctx)
	g := feedback.Given{Subject: subjects[req.GetSubject()], Verdict: verdicts[req.GetVerdict()], Correction: req.GetCorrection(), Viewer: v, Role: id.Role}
	var err error
	switch g.Subject {
	case feedback.Pattern:
		g.SubjectID, err = h.Patterns.Find(ctx, v, req.GetSubjectId())
	case feedback.Memory:
		g.SubjectID, err = h.Memories.Find(ctx, v, req.GetSubjectId())
	case feedback.Step:
		if g.SubjectID, err = h.Steps.Find(ctx, v, req.GetSubjectId()); err == nil {
			var s db.Step
			s, err = h.Steps.Get(ctx, v.OrgID, g.SubjectID)
			g.TaskID = s.TaskID
		}
	default:
		g.SubjectID, err = h.Tasks.Find(ctx, v, req.GetSubjectId())
		g.TaskID = g.SubjectID
	}
	if err != nil {
		return nil, err
	}
	out, err := h.Feedback.Give(ctx, v.OrgID, actor(id), g)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GiveFeedbackResponse{Feedback: feedbackMessage(out.Feedback)}
	for _, p := range out.Proposals {
		seen, err := h.Feedback.SeesPattern(ctx, v, p)
		if err != nil {
			return nil, err
		}
		res.Proposals = append(res.Proposals, proposalMessage(v, p, "", seen))
	}
	for _, one := range out.Patterns {
		// A task may have taught a pattern that the caller does not see.
		if seen, err := h.Patterns.Find(ctx, v, one); err == nil {
			res.PatternIds = append(res.PatternIds, seen)
		}
	}
	return res, nil
}

// ListFeedback returns a page of verdicts.
func (h *Feedback) ListFeedback(ctx context.Context, req *deckhandv1.ListFeedbackRequest) (*deckhandv1.ListFeedbackResponse, error) {
	v := viewer(ctx)
	var about feedback.About
	var err error
	if ref := req.GetTaskId(); ref != "" {
		if about.TaskID, err = h.Tasks.Find(ctx, v, ref); err != nil {
			return nil, err
		}
	}
	if ref := req.GetPatternId(); ref != "" {
		if about.PatternID, err = h.Patterns.Find(ctx, v, ref); err != nil {
			return nil, err
		}
	}
	if ref := req.GetMemoryId(); ref != "" {
		if about.MemoryID, err = h.Memories.Find(ctx, v, ref); err != nil {
			return nil, err
		}
	}
	rows, next, err := h.Feedback.List(ctx, v, about, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListFeedbackResponse{NextPageToken: next}
	for _, row := range rows {
		res.Feedback = append(res.Feedback, feedbackMessage(row))
	}
	return res, nil
}

// ListProposals returns a page of proposals.
func (h *Feedback) ListProposals(ctx context.Context, req *deckhandv1.ListProposalsRequest) (*deckhandv1.ListProposalsResponse, error) {
	v := viewer(ctx)
	rows, next, err := h.Feedback.Proposals(ctx, v, req.GetState(), req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListProposalsResponse{NextPageToken: next}
	for _, r := range rows {
		res.Proposals = append(res.Proposals, proposalMessage(v, db.LearnProposal{
			ID: r.ID, OrgID: r.OrgID, FeedbackID: r.FeedbackID, PatternID: r.PatternID, TaskID: r.TaskID, Owner: r.Owner, Note: r.Note, ProposedBy: r.ProposedBy,
			State: r.State, CreatedAt: r.CreatedAt, DecidedBy: r.DecidedBy, DecidedAt: r.DecidedAt,
		}, r.PatternTitle, r.PatternSeen))
	}
	return res, nil
}

// DecideProposal accepts or refuses a proposal.
func (h *Feedback) DecideProposal(ctx context.Context, req *deckhandv1.DecideProposalRequest) (*deckhandv1.DecideProposalResponse, error) {
	v := viewer(ctx)
	who := auth.From(ctx)
	p, err := h.Feedback.Decide(ctx, v, actor(who), req.GetProposalId(), feedback.Decision{Accept: req.GetAccept(), AsMemory: req.GetAsMemory(), Role: who.Role})
	if err != nil {
		return nil, err
	}
	seen, err := h.Feedback.SeesPattern(ctx, v, p)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.DecideProposalResponse{Proposal: proposalMessage(v, p, "", seen)}, nil
}
