package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// maxTold is how many entries a run is told at most, and maxToldText how much of one, in
	// bytes.
	maxTold     = 40
	maxToldText = 2000
	// bytesPerToken estimates the length of a text in tokens, and tokensEach is what each entry
	// costs besides its text.
	bytesPerToken = 3
	tokensEach    = 12
	// leastScore is the part of the best score that an entry needs to be told.
	leastScore = 0.35
)

// Told is an entry as a run is told it.
type Told struct {
	db.Memory
	// Version and Text are those that the run was told, whatever the entry is now.
	Version int32
	Value   json.RawMessage
	Text    string
	// Standing is set for what is shown before the goal.
	Standing bool
	// Source says who wrote the version that was told.
	Source string
}

// RunOf returns a task's run as one that reads. It has the rights of a user without a role.
func RunOf(t db.Task) scope.Run {
	return scope.Run{Viewer: visibility.Viewer{OrgID: t.OrgID, Name: t.CreatedBy}, AgentID: t.AgentID, WorkspaceID: t.JailID}
}

// ForRun returns what a task's run is told: standing instructions and preferences of its
// organisation, teams and user, and what fits its goal best, within tokens. It is chosen once
// for a task; later attempts are told the same, without what was deleted since, is over, or is not
// the user's to read any more.
func (m *Memories) ForRun(ctx context.Context, t db.Task, tokens int) ([]Told, error) {
	if tokens <= 0 {
		return nil, nil
	}
	if t.MemoriesChosen && t.Attempt == 1 {
		return nil, nil // the claim has stored that the run has no memories
	}
	if !t.MemoriesChosen {
		err := m.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
			n, err := tx.ChooseMemories(ctx, db.ChooseMemoriesParams{OrgID: t.OrgID, ID: t.ID})
			if err != nil || n == 0 {
				return err
			}
			return choose(ctx, tx, t, tokens)
		})
		if err != nil {
			return nil, fmt.Errorf("choose what task %s is told: %w", t.ID, err)
		}
	}
	told, err := m.OfTask(ctx, t.OrgID, t.ID, false)
	if err != nil || len(told) == 0 {
		return nil, err
	}
	r := RunOf(t)
	scopes, err := scope.OfRun(ctx, m.cfg.Store.Queries, r)
	if err != nil {
		return nil, err
	}
	user := userOf(scopes)
	return slices.DeleteFunc(told, func(is Told) bool {
		return !slices.Contains(scopes, scope.Scope{Kind: scope.Kind(is.ScopeKind), ID: is.ScopeID}) || is.OnlyFor != "" && is.OnlyFor != user
	}), nil
}

// userOf returns the id of the user among a run's scopes.
func userOf(scopes []scope.Scope) string {
	for _, s := range scopes {
		if s.Kind == scope.User {
			return s.ID
		}
	}
	return ""
}

// OfTask returns what a task's run was told; with gone, deleted entries too.
func (m *Memories) OfTask(ctx context.Context, orgID, taskID string, gone bool) ([]Told, error) {
	rows, err := m.cfg.Store.MemoriesOfTask(ctx, db.MemoriesOfTaskParams{OrgID: orgID, TaskID: taskID, Gone: gone})
	if err != nil {
		return nil, fmt.Errorf("read what task %s was told: %w", taskID, err)
	}
	out := make([]Told, len(rows))
	for i, row := range rows {
		confirmed := row.Memory.ConfirmedBy
		if row.ToldVersion != row.Memory.Version {
			confirmed = "" // it is of a later version
		}
		out[i] = Told{
			Memory: row.Memory, Version: row.ToldVersion, Value: row.Told, Text: told(row.Memory, row.Told), Standing: row.Standing,
			Source: sourceText(row.ToldSource, row.ToldUser, confirmed),
		}
	}
	return out, nil
}

func choose(ctx context.Context, tx *event.Tx, t db.Task, tokens int) error {
	r := RunOf(t)
	scopes, err := scope.OfRun(ctx, tx.Queries, r)
	if err != nil || len(scopes) == 0 {
		return err
	}
	user := userOf(scopes)
	var standing []string // what an agent or a workspace has is no standing instruction
	for _, s := range scopes {
		switch s.Kind {
		case scope.User, scope.Organisation, scope.Team:
			standing = append(standing, string(s.Kind)+":"+s.ID)
		}
	}
	p := db.UseMemoriesParams{OrgID: t.OrgID, TaskID: t.ID}
	chosen := map[string]bool{}
	take := func(is db.Memory, stands bool) {
		cost := tokensEach + (len(is.Key)+len(told(is, is.Value)))/bytesPerToken
		if chosen[is.ID] || cost > tokens || len(chosen) >= maxTold {
			return
		}
		tokens -= cost
		chosen[is.ID] = true
		p.Places = append(p.Places, int32(len(chosen))) //nolint:gosec // at most maxTold
		p.MemoryIds = append(p.MemoryIds, is.ID)
		p.Versions = append(p.Versions, is.Version)
		p.Standing = append(p.Standing, stands)
	}
	rows, err := tx.StandingMemories(ctx, db.StandingMemoriesParams{OrgID: t.OrgID, Scopes: standing, UserID: user, MaxRows: maxTold})
	if err != nil {
		return fmt.Errorf("read standing instructions: %w", err)
	}
	for _, row := range rows {
		// A preference is a user's own; those of an organisation are no more than facts.
		take(row, row.Type == string(Instruction) && !row.Untrusted || row.ScopeKind == string(scope.User) && sentence(row) != "")
	}
	text := strings.Join([]string{t.Title, t.Goal, textcut.WholeRunes(t.Context, maxToldText)}, "\n")
	hits, err := recall(ctx, tx.Queries, r.Viewer, scopes, Question{Text: text, Limit: maxTold})
	if err != nil {
		return err
	}
	for _, h := range hits {
		if h.Score < leastScore*hits[0].Score {
			break
		}
		take(h.Memory, false)
	}
	if len(chosen) == 0 {
		return nil
	}
	if err := tx.UseMemories(ctx, p); err != nil {
		return fmt.Errorf("store what is told: %w", err)
	}
	return nil
}

// told returns the text of an entry for a run.
func told(is db.Memory, value json.RawMessage) string {
	is.Value = value
	return textcut.Bytes(cmp.Or(sentence(is), Text(value)), maxToldText, "… (cut; memory_retrieve returns all)")
}

// sentence returns what a preference with a meaning says to a run; empty for other entries.
func sentence(is db.Memory) string {
	if is.Type != string(Preference) {
		return ""
	}
	switch is.Key {
	case Speed:
		return map[string]string{
			"fast":    "Work fast: keep the plan short, and check what the goal needs and no more.",
			"careful": "Work carefully: plan in detail, verify each result before you rely on it, and run all tests before you finish.",
		}[Text(is.Value)]
	case Language:
		return "Write summaries, questions and messages to people in this language: " + Text(is.Value) + "."
	case Tools:
		var names []string
		if json.Unmarshal(is.Value, &names) == nil && len(names) > 0 {
			return "Where several tools fit, use those that come first here: " + strings.Join(names, ", ") + "."
		}
	}
	return ""
}
