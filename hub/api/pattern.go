package api

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/pattern"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Patterns serves PatternService.
type Patterns struct {
	Patterns *pattern.Service
	Agents   *agent.Service
	Users    *user.Users
}

// reportDays is how many days a report covers by default.
const reportDays = 90

func approachMessage(a pattern.Approach) *deckhandv1.PatternApproach {
	m := &deckhandv1.PatternApproach{Plan: a.Plan, Tools: a.Tools, SuccessSigns: a.Signs, Notes: a.Notes}
	for _, p := range a.Pitfalls {
		m.Pitfalls = append(m.Pitfalls, &deckhandv1.Pitfall{Tool: p.Tool, Failed: p.Failed, Worked: p.Worked})
	}
	return m
}

func patternMessage(v visibility.Viewer, p pattern.Pattern, s pattern.Settings) *deckhandv1.Pattern {
	r := p.Row
	return &deckhandv1.Pattern{
		Id: r.ID, Title: r.Title, TaskType: r.TaskType, Domain: r.Domain, Keywords: r.Keywords, Approach: approachMessage(p.Approach),
		ExpectedIterations: r.ExpectedIterations, Confidence: p.Confidence, Suggested: s.Enabled && r.Enabled && r.DeletedAt == nil && p.Confidence >= s.MinConfidence,
		Enabled: r.Enabled, Edited: r.Edited, Version: r.Version, Owner: r.Owner, Visibility: r.Visibility, MayManage: pattern.Owns(v, r),
		Sources: r.SourceCount, Successes: r.Successes, Failures: r.Failures, Approvals: r.Approvals, Rejections: r.Rejections, Offers: r.Offers, Uses: r.Uses,
		Held:      r.Held,
		CreatedAt: timestamppb.New(r.CreatedAt), ChangedAt: timestamppb.New(r.ChangedAt), EvidenceAt: timestamppb.New(r.EvidenceAt),
	}
}

func offerMessage(o db.PatternOffer) *deckhandv1.PatternOffer {
	return &deckhandv1.PatternOffer{
		TaskId: o.TaskID, PatternId: o.PatternID, Version: o.Version, Title: o.Title, Similarity: o.Similarity, Confidence: o.Confidence,
		HeldOut: o.HeldOut, Used: o.Used, Succeeded: o.Succeeded, OfferedAt: timestamppb.New(o.OfferedAt), EndedAt: timestamp(o.EndedAt),
	}
}

func settingsMessage(s pattern.Settings) *deckhandv1.PatternSettings {
	return &deckhandv1.PatternSettings{Enabled: s.Enabled, HoldOut: s.HoldOut, MinConfidence: s.MinConfidence, Provider: s.Provider, Model: s.Model}
}

// one returns a pattern as a message, or the error of the call that made it.
func (h *Patterns) one(ctx context.Context, p pattern.Pattern, err error) (*deckhandv1.Pattern, error) {
	if err != nil {
		return nil, err
	}
	set, err := h.Patterns.Settings(ctx, p.Row.OrgID)
	if err != nil {
		return nil, err
	}
	return patternMessage(viewer(ctx), p, set), nil
}

// ListPatterns returns a page of patterns.
func (h *Patterns) ListPatterns(ctx context.Context, req *deckhandv1.ListPatternsRequest) (*deckhandv1.ListPatternsResponse, error) {
	v := viewer(ctx)
	f := pattern.Filter{Query: req.GetQuery(), TaskType: req.GetTaskType(), Domain: req.GetDomain(), Visibility: req.GetVisibility(), MinConfidence: req.GetMinConfidence()}
	if state := req.GetState(); state != "" {
		f.Enabled = new(state == "enabled")
	}
	set, err := h.Patterns.Settings(ctx, v.OrgID)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Patterns.List(ctx, v, f, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListPatternsResponse{NextPageToken: next}
	for _, p := range rows {
		res.Patterns = append(res.Patterns, patternMessage(v, p, set))
	}
	return res, nil
}

// GetPattern returns a pattern with what belongs to it.
func (h *Patterns) GetPattern(ctx context.Context, req *deckhandv1.GetPatternRequest) (*deckhandv1.GetPatternResponse, error) {
	v := viewer(ctx)
	id, err := h.Patterns.Find(ctx, v, req.GetPatternId())
	if err != nil {
		return nil, err
	}
	p, err := h.Patterns.Get(ctx, v.OrgID, id)
	m, err := h.one(ctx, p, err)
	if err != nil {
		return nil, err
	}
	d, err := h.Patterns.Details(ctx, v, p.Row)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GetPatternResponse{Pattern: m}
	for _, row := range d.Versions {
		a, err := pattern.ApproachOf(row.Approach)
		if err != nil {
			return nil, err
		}
		res.Versions = append(res.Versions, &deckhandv1.PatternVersion{
			Version: row.Version, Title: row.Title, Approach: approachMessage(a), Keywords: row.Keywords, Change: row.Change, ChangedBy: row.ChangedBy, ChangedAt: timestamppb.New(row.ChangedAt),
		})
	}
	for _, row := range d.Sources {
		res.Sources = append(res.Sources, &deckhandv1.PatternSource{
			TaskId: row.TaskID, Title: row.Title, AgentName: row.AgentName, Iterations: row.Iterations, AddedAt: timestamppb.New(row.AddedAt),
		})
	}
	for _, row := range d.Offers {
		res.Offers = append(res.Offers, offerMessage(row))
	}
	return res, nil
}

// UpdatePattern changes a pattern's text.
func (h *Patterns) UpdatePattern(ctx context.Context, req *deckhandv1.UpdatePatternRequest) (*deckhandv1.UpdatePatternResponse, error) {
	e := pattern.Edit{Version: req.GetVersion(), Title: req.GetTitle(), TaskType: req.GetTaskType(), Domain: req.GetDomain(), Keywords: req.GetKeywords()}
	if m := req.GetApproach(); m != nil {
		e.Approach = &pattern.Approach{Plan: m.GetPlan(), Tools: m.GetTools(), Signs: m.GetSuccessSigns(), Notes: m.GetNotes()}
		for _, p := range m.GetPitfalls() {
			e.Approach.Pitfalls = append(e.Approach.Pitfalls, pattern.Pitfall{Tool: p.GetTool(), Failed: p.GetFailed(), Worked: p.GetWorked()})
		}
	}
	p, err := h.Patterns.Update(ctx, viewer(ctx), actor(auth.From(ctx)), req.GetPatternId(), e)
	m, err := h.one(ctx, p, err)
	return &deckhandv1.UpdatePatternResponse{Pattern: m}, err
}

// SharePattern sets who sees a pattern.
func (h *Patterns) SharePattern(ctx context.Context, req *deckhandv1.SharePatternRequest) (*deckhandv1.SharePatternResponse, error) {
	level, err := visibility.Parse("visibility", req.GetVisibility())
	if err != nil {
		return nil, err
	}
	p, err := h.Patterns.Share(ctx, viewer(ctx), actor(auth.From(ctx)), req.GetPatternId(), level)
	m, err := h.one(ctx, p, err)
	return &deckhandv1.SharePatternResponse{Pattern: m}, err
}

// DisablePattern has a pattern no longer offered.
func (h *Patterns) DisablePattern(ctx context.Context, req *deckhandv1.DisablePatternRequest) (*deckhandv1.DisablePatternResponse, error) {
	p, err := h.Patterns.Enable(ctx, viewer(ctx), actor(auth.From(ctx)), req.GetPatternId(), false)
	m, err := h.one(ctx, p, err)
	return &deckhandv1.DisablePatternResponse{Pattern: m}, err
}

// EnablePattern has a pattern offered again.
func (h *Patterns) EnablePattern(ctx context.Context, req *deckhandv1.EnablePatternRequest) (*deckhandv1.EnablePatternResponse, error) {
	p, err := h.Patterns.Enable(ctx, viewer(ctx), actor(auth.From(ctx)), req.GetPatternId(), true)
	m, err := h.one(ctx, p, err)
	return &deckhandv1.EnablePatternResponse{Pattern: m}, err
}

// DeletePattern deletes a pattern.
func (h *Patterns) DeletePattern(ctx context.Context, req *deckhandv1.DeletePatternRequest) (*deckhandv1.DeletePatternResponse, error) {
	_, err := h.Patterns.Delete(ctx, viewer(ctx), actor(auth.From(ctx)), req.GetPatternId(), true)
	return &deckhandv1.DeletePatternResponse{}, err
}

// UndeletePattern brings a deleted pattern back.
func (h *Patterns) UndeletePattern(ctx context.Context, req *deckhandv1.UndeletePatternRequest) (*deckhandv1.UndeletePatternResponse, error) {
	p, err := h.Patterns.Delete(ctx, viewer(ctx), actor(auth.From(ctx)), req.GetPatternId(), false)
	m, err := h.one(ctx, p, err)
	return &deckhandv1.UndeletePatternResponse{Pattern: m}, err
}

// PurgePatterns deletes what was learned from a user's tasks.
func (h *Patterns) PurgePatterns(ctx context.Context, req *deckhandv1.PurgePatternsRequest) (*deckhandv1.PurgePatternsResponse, error) {
	who := auth.From(ctx)
	id, name := who.UserID, who.UserName
	if ref := req.GetUserId(); ref != "" {
		var err error
		if id, err = h.Users.Find(ctx, who.OrgID, ref); err != nil {
			return nil, err
		}
		row, err := h.Users.Get(ctx, who.OrgID, id)
		if err != nil {
			return nil, err
		}
		name = row.User.Name
	}
	if id != who.UserID && !viewer(ctx).All {
		return nil, fault.New(fault.Denied, "only administrators purge the patterns of others").WithCode(fault.PermissionDenied).
			WithFix("leave the user out to purge your own, or ask an administrator").WithObject(id)
	}
	n, err := h.Patterns.Purge(ctx, who.OrgID, name, actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.PurgePatternsResponse{Patterns: n.Patterns, Verdicts: n.Feedback, Proposals: n.Proposals}, nil
}

// matches returns the patterns for a goal of the caller's.
func matches(ctx context.Context, patterns *pattern.Service, goal, taskType string, unsure bool) ([]*deckhandv1.PatternMatch, error) {
	v := viewer(ctx)
	set, err := patterns.Settings(ctx, v.OrgID)
	if err != nil {
		return nil, err
	}
	a := pattern.Asked{OrgID: v.OrgID, User: v.Name, TaskType: taskType, Goal: goal, MinConfidence: set.MinConfidence}
	if unsure {
		a.MinConfidence, a.MinSimilarity = 0, pattern.MinSimilarity/2
	}
	found, err := patterns.Match(ctx, a)
	if err != nil {
		return nil, err
	}
	var out []*deckhandv1.PatternMatch
	for _, m := range found {
		out = append(out, &deckhandv1.PatternMatch{Pattern: patternMessage(v, m.Pattern, set), Similarity: m.Similarity})
	}
	return out, nil
}

// typeOf returns the type of tasks of an agent: the one given, or that of its persona.
func typeOf(ctx context.Context, agents *agent.Service, ref, given string) (agentID, taskType string, err error) {
	if ref == "" {
		return "", given, nil
	}
	v := viewer(ctx)
	if agentID, err = agents.FindPast(ctx, v, ref); err != nil || given != "" {
		return agentID, given, err
	}
	row, err := agents.Get(ctx, v.OrgID, agentID)
	if err != nil {
		return "", "", err
	}
	version, err := agents.Version(ctx, v.OrgID, agentID, row.Agent.CurrentVersion)
	if err != nil {
		return "", "", err
	}
	return agentID, cmp.Or(version.TaskType, row.Agent.Name), nil
}

// MatchPatterns returns the patterns for a goal.
func (h *Patterns) MatchPatterns(ctx context.Context, req *deckhandv1.MatchPatternsRequest) (*deckhandv1.MatchPatternsResponse, error) {
	_, taskType, err := typeOf(ctx, h.Agents, req.GetAgentId(), req.GetTaskType())
	if err != nil {
		return nil, err
	}
	found, err := matches(ctx, h.Patterns, req.GetGoal(), taskType, req.GetUnsure())
	return &deckhandv1.MatchPatternsResponse{Matches: found}, err
}

// GetPatternReport compares tasks with and without patterns.
func (h *Patterns) GetPatternReport(ctx context.Context, req *deckhandv1.GetPatternReportRequest) (*deckhandv1.GetPatternReportResponse, error) {
	v, id := viewer(ctx), ""
	var err error
	if ref := req.GetPatternId(); ref != "" {
		if id, err = h.Patterns.Find(ctx, v, ref); err != nil {
			return nil, err
		}
	}
	since := time.Now().AddDate(0, 0, -reportDays)
	if at := timeOf(req.GetSince()); at != nil {
		since = *at
	}
	r, err := h.Patterns.Report(ctx, v, id, since)
	if err != nil {
		return nil, err
	}
	figures := func(row db.PatternReportRow) *deckhandv1.PatternFigures {
		return &deckhandv1.PatternFigures{
			Matched: row.Matched, Ended: row.Ended, Succeeded: row.Succeeded, Used: row.Used, MeanIterations: row.Iterations, MeanCostMicros: row.CostMicros,
		}
	}
	return &deckhandv1.GetPatternReportResponse{
		With: figures(r.With), Without: figures(r.Without), Comparable: r.Comparable(), Settings: settingsMessage(r.Settings), Patterns: r.Patterns, Suggested: r.Suggested,
	}, nil
}

// SetPatternSettings changes the organisation's settings.
func (h *Patterns) SetPatternSettings(ctx context.Context, req *deckhandv1.SetPatternSettingsRequest) (*deckhandv1.SetPatternSettingsResponse, error) {
	id := auth.From(ctx)
	set, err := h.Patterns.Set(ctx, id.OrgID, actor(id), pattern.Change{
		Enabled: req.Enabled, HoldOut: req.HoldOut, MinConfidence: req.MinConfidence, Provider: req.Provider, Model: req.Model,
	})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SetPatternSettingsResponse{Settings: settingsMessage(set)}, nil
}
