package pattern

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/task"
)

const (
	// MinSimilarity is the similarity from which a pattern matches a goal.
	MinSimilarity = 0.5
	// MaxMatches is how many a search returns.
	MaxMatches = 10
	// maxForTool is how many an agent is shown.
	maxForTool = 3
	// offerTime bounds how long the start of a task waits for a match.
	offerTime = 2 * time.Second
)

// Asked is what patterns are looked for: of a goal and a type of task, on behalf of a user.
type Asked struct {
	OrgID, User, TaskType, Goal string
	// MinConfidence of the patterns; 0 for all.
	MinConfidence float64
	MinSimilarity float64
	MaxRows       int32
}

// Match is a pattern that is similar to a goal.
type Match struct {
	Pattern
	Similarity float64
}

// Match returns the patterns that are similar to a goal and that a user sees, the best first.
// The role of the user does not count: an administrator's task is not offered what others
// keep to themselves.
func (s *Service) Match(ctx context.Context, a Asked) ([]Match, error) {
	words := Keywords(a.Goal)
	if len(words) == 0 {
		return nil, nil
	}
	rows, err := s.cfg.Store.MatchPatterns(ctx, db.MatchPatternsParams{
		OrgID: a.OrgID, Viewer: a.User, Words: words, TaskType: a.TaskType, Domain: domainOf(a.Goal), MinConfidence: a.MinConfidence,
		MinSimilarity: cmp.Or(a.MinSimilarity, MinSimilarity), MaxRows: cmp.Or(a.MaxRows, MaxMatches),
	})
	if err != nil {
		return nil, fmt.Errorf("match patterns: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	patterns, err := s.cfg.Store.PatternsByID(ctx, db.PatternsByIDParams{OrgID: a.OrgID, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("load the patterns that match: %w", err)
	}
	out := make([]Match, 0, len(rows))
	for _, r := range rows {
		at := slices.IndexFunc(patterns, func(p db.PatternsByIDRow) bool { return p.Pattern.ID == r.ID })
		if at < 0 {
			continue // deleted meanwhile
		}
		p, err := newPattern(patterns[at].Pattern, r.Confidence)
		if err != nil {
			return nil, err
		}
		out = append(out, Match{p, r.Similarity})
	}
	return out, nil
}

// heldOut reports whether a task is one of those from which patterns are held out, of a
// hundred. It is the same each time it is asked.
func heldOut(taskID string, percent int32) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(taskID))
	return h.Sum32()%100 < uint32(max(percent, 0)) //nolint:gosec // not negative
}

// Offer returns the text of the pattern that a task is offered at its start; empty for none. The
// match is made for the first attempt, stored, and the same for later ones. If it fails, the task
// starts without.
func (s *Service) Offer(ctx context.Context, t db.Task, agentName string) string {
	text, err := s.offer(ctx, t, agentName)
	if err != nil {
		s.cfg.Log.Warn("cannot match patterns; the task starts without", "task_id", t.ID, "error", err)
		return ""
	}
	return text
}

func (s *Service) offer(ctx context.Context, t db.Task, agentName string) (string, error) {
	o, err := task.OverrideOf(t)
	if err != nil || o.Chat {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	set, err := s.Settings(limited, t.OrgID)
	if err != nil || !set.Enabled {
		return "", err
	}
	if t.Attempt > 1 || t.ResumedAt > 0 {
		before, err := s.OfferOf(limited, t.OrgID, t.ID)
		if err != nil || before == nil {
			return "", err
		}
		return s.offeredText(limited, t, *before)
	}
	found, err := s.Match(limited, Asked{
		OrgID: t.OrgID, User: t.CreatedBy, TaskType: cmp.Or(t.TaskType, agentName), Goal: t.Title + "\n" + t.Goal, MinConfidence: set.MinConfidence, MaxRows: 1,
	})
	if err != nil || len(found) == 0 {
		return "", err
	}
	// The database bounds how long this waits: if this side stopped to wait for a commit, an
	// offer could be stored that the task is not told of.
	best, held := found[0], heldOut(t.ID, set.HoldOut)
	if err := s.cfg.Store.Tx(ctx, func(q *db.Queries) error {
		if err := q.BoundPatternLocks(ctx, offerTime.String()); err != nil {
			return err
		}
		if _, err := q.OfferPattern(ctx, db.OfferPatternParams{
			TaskID: t.ID, OrgID: t.OrgID, PatternID: best.Row.ID, Version: best.Row.Version, Title: best.Row.Title, Similarity: best.Similarity,
			Confidence: best.Confidence, HeldOut: held,
		}); err != nil || held {
			return err
		}
		return q.CountOffer(ctx, db.CountOfferParams{OrgID: t.OrgID, ID: best.Row.ID})
	}); err != nil || held {
		return "", err
	}
	return best.Text(), nil
}

// offeredText returns what a task was offered at its first attempt, for a later one: the same
// version, if the pattern may still be offered to its submitter.
func (s *Service) offeredText(ctx context.Context, t db.Task, offer db.PatternOffer) (string, error) {
	if offer.HeldOut {
		return "", nil
	}
	row, err := s.cfg.Store.GetPattern(ctx, db.GetPatternParams{OrgID: t.OrgID, ID: offer.PatternID})
	if store.IsNotFound(err) || err == nil && (row.Pattern.DeletedAt != nil || !row.Pattern.Enabled) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("load pattern %s: %w", offer.PatternID, err)
	}
	seen, err := s.cfg.Store.PatternSeen(ctx, db.PatternSeenParams{OrgID: t.OrgID, Owner: row.Pattern.Owner, Visibility: row.Pattern.Visibility, Viewer: t.CreatedBy})
	if err != nil || !seen {
		return "", err
	}
	version, err := s.cfg.Store.PatternVersion(ctx, db.PatternVersionParams{OrgID: t.OrgID, PatternID: offer.PatternID, Version: offer.Version})
	if err != nil {
		return "", fmt.Errorf("load version %d of pattern %s: %w", offer.Version, offer.PatternID, err)
	}
	row.Pattern.Version, row.Pattern.Title, row.Pattern.Approach = version.Version, version.Title, version.Approach
	p, err := newPattern(row.Pattern, row.Confidence)
	if err != nil {
		return "", err
	}
	return p.Text(), nil
}

// ForTool returns the patterns for a call of an agent, on behalf of the person behind its task;
// without the one that was held out from the task.
func (s *Service) ForTool(ctx context.Context, t db.Task, query string) ([]tool.PatternHit, error) {
	set, err := s.Settings(ctx, t.OrgID)
	if err != nil || !set.Enabled {
		return nil, err
	}
	offer, err := s.OfferOf(ctx, t.OrgID, t.ID)
	if err != nil {
		return nil, err
	}
	found, err := s.Match(ctx, Asked{OrgID: t.OrgID, User: t.CreatedBy, TaskType: t.TaskType, Goal: query, MinConfidence: set.MinConfidence, MaxRows: maxForTool + 1})
	if err != nil {
		return nil, err
	}
	var out []tool.PatternHit
	for _, m := range found {
		if offer != nil && offer.HeldOut && offer.PatternID == m.Row.ID || len(out) == maxForTool {
			continue
		}
		out = append(out, tool.PatternHit{ID: m.Row.ID, Similarity: m.Similarity, Text: m.Text()})
	}
	return out, nil
}

// OfferOf returns the pattern that matched a task at its start; nil for none.
func (s *Service) OfferOf(ctx context.Context, orgID, taskID string) (*db.PatternOffer, error) {
	row, err := s.cfg.Store.OfferOfTask(ctx, db.OfferOfTaskParams{OrgID: orgID, TaskID: taskID})
	if store.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load what task %s was offered: %w", taskID, err)
	}
	return &row, nil
}

// mark is the beginning of a mark by which prompts tell data from instructions.
var mark = regexp.MustCompile(`(?i)<(/?\s*(?:tool_output|operator_message))`)

// Text writes a pattern for a model, without the fence around it: marks in it are escaped.
func (p Pattern) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Pattern %s, version %d: %s\n", p.Row.ID, p.Row.Version, p.Row.Title)
	fmt.Fprintf(&out, "Drawn from %d runs of type %s; confidence %.2f", p.Row.SourceCount, p.Row.TaskType, p.Confidence)
	if p.Row.ExpectedIterations > 0 {
		fmt.Fprintf(&out, "; such runs took %.0f iterations", p.Row.ExpectedIterations)
	}
	out.WriteString(".\n")
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		out.WriteString("\n" + title + ":\n")
		for i, item := range items {
			fmt.Fprintf(&out, "%d. %s\n", i+1, item)
		}
	}
	list("Plan of a run that succeeded", p.Approach.Plan)
	if len(p.Approach.Tools) > 0 {
		out.WriteString("\nTools: " + strings.Join(p.Approach.Tools, ", ") + "\n")
	}
	if len(p.Approach.Pitfalls) > 0 {
		out.WriteString("\nWhat failed on the way, and what then worked:\n")
		for _, f := range p.Approach.Pitfalls {
			fmt.Fprintf(&out, "- %s: %s\n", f.Tool, f.Failed)
			if f.Worked != "" {
				fmt.Fprintf(&out, "  then worked: %s\n", f.Worked)
			}
		}
	}
	list("Signs of success", p.Approach.Signs)
	list("Notes that people added", p.Approach.Notes)
	return mark.ReplaceAllString(out.String(), `<\$1`)
}

// Report compares tasks that were offered a pattern with those from which it was held out.
type Report struct {
	With, Without       db.PatternReportRow
	Patterns, Suggested int64
	Settings            Settings
}

// enough is how many ended tasks each group needs for a comparison.
const enough = 20

// Comparable reports whether both groups are large enough.
func (r Report) Comparable() bool { return r.With.Ended >= enough && r.Without.Ended >= enough }

// Report returns the report of what v sees; of one pattern, or of all if id is empty.
func (s *Service) Report(ctx context.Context, v visibility.Viewer, id string, since time.Time) (r Report, err error) {
	if r.Settings, err = s.Settings(ctx, v.OrgID); err != nil {
		return r, err
	}
	rows, err := s.cfg.Store.PatternReport(ctx, db.PatternReportParams{OrgID: v.OrgID, Since: since, PatternID: optional(id), SeesAll: v.All, Viewer: v.Name})
	if err != nil {
		return r, fmt.Errorf("report on patterns: %w", err)
	}
	for _, row := range rows {
		if row.HeldOut {
			r.Without = row
		} else {
			r.With = row
		}
	}
	count, err := s.cfg.Store.CountPatterns(ctx, db.CountPatternsParams{OrgID: v.OrgID, MinConfidence: r.Settings.MinConfidence, SeesAll: v.All, Viewer: v.Name})
	if err != nil {
		return r, fmt.Errorf("count patterns: %w", err)
	}
	r.Patterns, r.Suggested = count.AllPatterns, count.Suggested
	return r, nil
}
