// Package pattern keeps what successful runs have taught about a type of task. Learner draws
// patterns from ended runs; Service matches them to new tasks, and lets people see, change and
// share them.
//
// A pattern belongs to the user whose tasks taught it, and is private until that user shares
// it: not even administrators see it. It is offered only to tasks of people who see it. It never
// gives rights: it is text that the model gets as data, between the marks of tool output. One
// that was drawn from a run that read untrusted text is held until a person enables it.
//
// The confidence in a pattern is the mean of a Beta distribution. Its prior is Jeffreys'
// Beta(1/2, 1/2): 0.5. A run that did what the pattern says adds 1 to alpha, a run that used it and
// failed adds 1 to beta, and a person's verdict adds 2. Without evidence, what was added loses
// half of its weight every 90 days (see pattern_confidence in the database).
//
// Where an organisation has named a model for it, that words what the rules have drawn. It does
// so later, and is not needed: if it fails, what the rules have drawn stays.
//
// If the database fails, a task starts without a pattern, and what an ended run teaches is
// learned later.
package pattern

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// Approach is how earlier runs did the work.
type Approach struct {
	Plan     []string  `json:"plan,omitempty"`
	Tools    []string  `json:"tools,omitempty"`
	Pitfalls []Pitfall `json:"pitfalls,omitempty"`
	Signs    []string  `json:"success_signs,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
}

// Pitfall is a call that failed, and what then worked; Worked may be empty.
type Pitfall struct {
	Tool   string `json:"tool"`
	Failed string `json:"failed"`
	Worked string `json:"worked,omitempty"`
}

const (
	maxPlan, maxTools, maxPitfalls, maxSigns, maxNotes = 12, 24, 8, 6, 10
	maxKeywords                                        = 24
	// maxText bounds each text that is drawn from a run, and maxTitle a title, in bytes.
	maxText, maxTitle = 240, 120
)

// ApproachOf reads the column.
func ApproachOf(column json.RawMessage) (a Approach, err error) {
	if err := json.Unmarshal(column, &a); err != nil {
		return a, fmt.Errorf("read the approach of a pattern: %w", err)
	}
	return a, nil
}

func (a Approach) column() (json.RawMessage, error) {
	data, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the approach of a pattern: %w", err)
	}
	return data, nil
}

// Config holds the dependencies of a Service. All are required.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Redact   *redact.Redactor
	// Models makes the calls of models that word patterns.
	Models Writer
	Log    hclog.Logger
}

// Service reads, matches and changes patterns.
type Service struct{ cfg Config }

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

// Pattern is a pattern with the confidence in it now.
type Pattern struct {
	Row        db.Pattern
	Approach   Approach
	Confidence float64
}

func newPattern(row db.Pattern, confidence float64) (Pattern, error) {
	a, err := ApproachOf(row.Approach)
	return Pattern{Row: row, Approach: a, Confidence: confidence}, err
}

// Owns reports whether v may change a pattern: its owner, and administrators if it is not private.
func Owns(v visibility.Viewer, row db.Pattern) bool {
	return v.Name != "" && (v.Name == row.Owner || v.All && visibility.Level(row.Visibility) != visibility.Private)
}

// Find returns the id of a pattern that v sees, by its id or the beginning of it.
func (s *Service) Find(ctx context.Context, v visibility.Viewer, ref string) (string, error) {
	return s.find(ctx, v, ref, false)
}

func (s *Service) find(ctx context.Context, v visibility.Viewer, ref string, deleted bool) (string, error) {
	rows, err := s.cfg.Store.FindPatterns(ctx, db.FindPatternsParams{
		OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, Ref: ref, Prefix: store.Prefix("pattern", ref), Deleted: deleted,
	})
	return store.One("pattern", ref, rows, err)
}

// Get returns a pattern by its id.
func (s *Service) Get(ctx context.Context, orgID, id string) (Pattern, error) {
	row, err := s.cfg.Store.GetPattern(ctx, db.GetPatternParams{OrgID: orgID, ID: id})
	if store.IsNotFound(err) {
		return Pattern{}, fault.New(fault.NotFound, "there is no pattern %q", id).WithFix("list them with: deckhand pattern list").WithObject(id)
	}
	if err != nil {
		return Pattern{}, fmt.Errorf("load pattern %s: %w", id, err)
	}
	return newPattern(row.Pattern, row.Confidence)
}

// Details are what belongs to a pattern, the newest first.
type Details struct {
	Versions []db.PatternVersion
	Sources  []db.PatternSourcesRow
	Offers   []db.PatternOffer
}

// maxDetails is how many of each are returned.
const maxDetails = 50

// Details returns what belongs to a pattern; of tasks those that v sees, and of versions those
// since it was shared, unless v may change it.
func (s *Service) Details(ctx context.Context, v visibility.Viewer, row db.Pattern) (d Details, err error) {
	id := row.ID
	if d.Versions, err = s.cfg.Store.PatternVersions(ctx, db.PatternVersionsParams{OrgID: v.OrgID, PatternID: id, Manages: Owns(v, row), MaxRows: maxDetails}); err != nil {
		return d, fmt.Errorf("load the versions of pattern %s: %w", id, err)
	}
	if d.Sources, err = s.cfg.Store.PatternSources(ctx, db.PatternSourcesParams{OrgID: v.OrgID, PatternID: id, SeesAll: v.All, Viewer: v.Name, MaxRows: maxDetails}); err != nil {
		return d, fmt.Errorf("load the sources of pattern %s: %w", id, err)
	}
	if d.Offers, err = s.cfg.Store.OffersOfPattern(ctx, db.OffersOfPatternParams{OrgID: v.OrgID, PatternID: id, SeesAll: v.All, Viewer: v.Name, MaxRows: maxDetails}); err != nil {
		return d, fmt.Errorf("load the matches of pattern %s: %w", id, err)
	}
	return d, nil
}

// Filter selects patterns; zero fields select all.
type Filter struct {
	Query, TaskType, Domain, Visibility string
	Enabled                             *bool
	MinConfidence                       float64
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// List returns a page of the patterns that v sees, the last changed first.
func (s *Service) List(ctx context.Context, v visibility.Viewer, f Filter, token string, size int32) (out []Pattern, next string, err error) {
	p := db.ListPatternsParams{
		OrgID: v.OrgID, SeesAll: v.All, Viewer: v.Name, TaskType: optional(f.TaskType), Domain: optional(f.Domain), Enabled: f.Enabled,
		Visibility: optional(f.Visibility), MinConfidence: f.MinConfidence, Query: strings.TrimSpace(f.Query), Words: Keywords(f.Query), MaxRows: size + 1,
	}
	if token != "" {
		at, id, err := store.ParsePageToken(token)
		if err != nil {
			return nil, "", err
		}
		p.BeforeTime, p.BeforeID = &at, id
	}
	rows, err := s.cfg.Store.ListPatterns(ctx, p)
	if err != nil {
		return nil, "", fmt.Errorf("list patterns: %w", err)
	}
	rows, next = store.Page(rows, size, func(r db.ListPatternsRow) string { return store.PageToken(r.Pattern.ChangedAt, r.Pattern.ID) })
	for _, r := range rows {
		one, err := newPattern(r.Pattern, r.Confidence)
		if err != nil {
			return nil, "", err
		}
		out = append(out, one)
	}
	return out, next, nil
}

// Settings are those of an organisation.
type Settings struct {
	Enabled bool
	// HoldOut is how many of a hundred matches are not offered.
	HoldOut       int32
	MinConfidence float64
	// Provider and Model are those of the model that words patterns; empty for none.
	Provider, Model string
}

// Settings returns the settings of an organisation.
func (s *Service) Settings(ctx context.Context, orgID string) (Settings, error) {
	return settings(ctx, s.cfg.Store.Queries, orgID)
}

func settings(ctx context.Context, q *db.Queries, orgID string) (Settings, error) {
	row, err := q.PatternSettings(ctx, orgID)
	if err != nil {
		return Settings{}, fmt.Errorf("load the settings of patterns: %w", err)
	}
	return Settings{Enabled: row.Enabled, HoldOut: row.HoldOut, MinConfidence: row.MinConfidence, Provider: row.Provider, Model: row.Model}, nil
}

// cut returns the first line of a text with at most n bytes, without control characters.
func cut(text string, n int) string {
	text = strings.TrimSpace(text)
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		text = strings.TrimSpace(text[:i])
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	return textcut.Bytes(text, n, "…")
}

// union appends to list what more has besides, up to n.
func union(list, more []string, n int) []string {
	out := slices.Clone(list)
	for _, one := range more {
		if len(out) < n && !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}
