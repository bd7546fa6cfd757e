package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// fresh is how long a hub may decide by policies that were changed on another
// one. Its own changes count at once.
const fresh = time.Second

// Opener opens what was sealed.
type Opener interface {
	Open(sealed []byte, object string) ([]byte, error)
}

// Config holds the dependencies of a Service.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Vault    Opener
	Redact   *redact.Redactor
}

// Service keeps policies, and decides by them.
type Service struct {
	cfg Config

	mu    sync.Mutex
	known map[string]*held // by organisation
	// parsed are stored versions, which never change.
	parsed map[string]*Policy
}

// held is what holds in an organisation.
type held struct {
	at     time.Time
	org    *Source
	agents map[string]Source
	rules  []db.AllowRule
}

// New creates a Service.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, known: map[string]*held{}, parsed: map[string]*Policy{}}
}

// For returns the policies that apply to the calls of an agent's version. They are read
// with q if they are not cached, or in any case with now.
func (s *Service) For(ctx context.Context, q *db.Queries, orgID, agentID string, version db.AgentVersion, now bool) (Set, error) {
	h, err := s.held(ctx, q, orgID, now)
	if err != nil {
		return nil, err
	}
	var set Set
	if h.org != nil {
		set = append(set, *h.org)
	} else {
		set = append(set, Default()...)
	}
	if src, ok := h.agents[agentID]; ok {
		set = append(set, src)
	}
	if rules := allowRules(h.rules, agentID, version); len(rules) > 0 {
		set = append(set, Source{Policy: &Policy{Rules: rules}})
	}
	return set, nil
}

func (s *Service) held(ctx context.Context, q *db.Queries, orgID string, now bool) (*held, error) {
	s.mu.Lock()
	h := s.known[orgID]
	s.mu.Unlock()
	if h != nil && !now && time.Since(h.at) < fresh {
		return h, nil
	}
	h = &held{at: time.Now(), agents: map[string]Source{}}
	rows, err := q.CurrentPolicies(ctx, orgID)
	if err != nil {
		return nil, fmt.Errorf("read the policies of %s: %w", orgID, err)
	}
	for _, row := range rows {
		p, err := s.parse(row)
		if err != nil {
			return nil, err
		}
		if row.AgentID == "" {
			h.org = &Source{Name: fmt.Sprintf("organisation %d", row.Version), Policy: p}
		} else {
			h.agents[row.AgentID] = Source{Name: fmt.Sprintf("agent %d", row.Version), Policy: p}
		}
	}
	if h.rules, err = q.LiveAllowRules(ctx, orgID); err != nil {
		return nil, fmt.Errorf("read the rules of %s: %w", orgID, err)
	}
	s.mu.Lock()
	s.known[orgID] = h
	s.mu.Unlock()
	return h, nil
}

func (s *Service) parse(row db.Policy) (*Policy, error) {
	key := fmt.Sprintf("%s/%s/%d", row.OrgID, row.AgentID, row.Version)
	s.mu.Lock()
	p := s.parsed[key]
	s.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := load("policy", []byte(row.Yaml))
	if err != nil {
		return nil, fmt.Errorf("read version %d of a policy: %w", row.Version, err)
	}
	s.mu.Lock()
	s.parsed[key] = p
	s.mu.Unlock()
	return p, nil
}

func (s *Service) forget(orgID string) {
	s.mu.Lock()
	delete(s.known, orgID)
	s.mu.Unlock()
}

// Naming returns the name of a rule of an organisation's policy that holds for agents of some
// names only, and for one of these; empty if there is none.
func (s *Service) Naming(ctx context.Context, orgID string, names ...string) (string, error) {
	h, err := s.held(ctx, s.cfg.Store.Queries, orgID, true)
	if err != nil || h.org == nil {
		return "", err
	}
	for _, r := range h.org.Rules {
		// No agent is called _: a pattern that it matches is of all agents.
		if !anyGlob(r.Agents, "_") && slices.ContainsFunc(names, func(name string) bool { return anyGlob(r.Agents, name) }) {
			return r.Name, nil
		}
	}
	return "", nil
}

// Get returns a version of a policy; 0 for the newest. If no policy was applied, it is
// version 0: the default policy of the organisation, and an empty one of an agent.
func (s *Service) Get(ctx context.Context, orgID, agentID string, version int32) (db.Policy, error) {
	row, err := s.cfg.Store.GetPolicy(ctx, db.GetPolicyParams{OrgID: orgID, AgentID: agentID, Version: version})
	if store.IsNotFound(err) {
		if version > 0 {
			return row, fault.New(fault.NotFound, "the policy has no version %d", version).WithFix("see the newest: deckhand policy show")
		}
		row = db.Policy{OrgID: orgID, AgentID: agentID}
		if agentID == "" {
			row.Yaml = DefaultYAML
		}
		return row, nil
	}
	return row, err
}

// Apply checks a policy and stores it as the next version, unless it is the same
// as the newest. One with an error changes nothing.
func (s *Service) Apply(ctx context.Context, orgID, agentID, file, text string, by event.Actor, dryRun bool) (db.Policy, bool, error) {
	if _, err := Parse(file, []byte(text)); err != nil {
		return db.Policy{}, false, err
	}
	if clean := s.cfg.Redact.Org(orgID).String(text); clean != text {
		return db.Policy{}, false, fault.New(fault.Invalid, "%s holds a secret", file).WithFix("write the rule without it: a policy is read by many")
	}
	before, err := s.Get(ctx, orgID, agentID, 0)
	if err != nil || before.Yaml == text && before.Version > 0 {
		return before, false, err
	}
	after := db.Policy{OrgID: orgID, AgentID: agentID, Version: before.Version + 1, Yaml: text, CreatedBy: by.ID, CreatedAt: time.Now()}
	if dryRun {
		return after, true, nil
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		after, err = s.put(ctx, tx, before, text, by)
		return err
	})
	return after, err == nil, err
}

// Copy stores the policy of an agent, if it has one, as that of a new agent, in the
// transaction that makes it.
func (s *Service) Copy(ctx context.Context, tx *event.Tx, orgID, from, to string, by event.Actor) error {
	original, err := tx.GetPolicy(ctx, db.GetPolicyParams{OrgID: orgID, AgentID: from})
	if store.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the policy of agent %s: %w", from, err)
	}
	_, err = s.put(ctx, tx, db.Policy{OrgID: orgID, AgentID: to}, original.Yaml, by)
	return err
}

// put stores the version of a policy after another one.
func (s *Service) put(ctx context.Context, tx *event.Tx, before db.Policy, text string, by event.Actor) (db.Policy, error) {
	after, err := tx.CreatePolicy(ctx, db.CreatePolicyParams{OrgID: before.OrgID, AgentID: before.AgentID, Version: before.Version + 1, Yaml: text, CreatedBy: by.ID})
	if store.IsNotFound(err) {
		return after, fault.New(fault.Aborted, "another user changed the policy first").WithFix("look at it, and apply yours again")
	}
	if err != nil {
		return after, fmt.Errorf("store a policy: %w", err)
	}
	tx.AfterCommit(func() { s.forget(before.OrgID) })
	return after, audit.Append(tx, audit.Entry{
		OrgID: before.OrgID, By: by, Action: "policy.applied", ObjectKind: "policy", ObjectID: cmp.Or(before.AgentID, before.OrgID),
		Before: map[string]any{"version": before.Version, "yaml": before.Yaml}, After: map[string]any{"version": after.Version, "yaml": text},
	})
}

// Limits returns the limits that count calls of a tool.
func (s Set) Limits(tool, category string) (out []Limit) {
	for _, src := range s {
		for _, l := range src.Limits {
			if (l.Tool == "" || l.Tool == tool) && (l.Category == "" || l.Category == category) {
				out = append(out, l)
			}
		}
	}
	return out
}

// Reached returns the first of the given limits that is used up, or nil. In a transaction
// the result holds until its end: no other call in the organisation is counted before
// then.
func (s *Service) Reached(ctx context.Context, q *db.Queries, orgID string, limits []Limit) (*Limit, error) {
	if err := q.LockLimits(ctx, orgID); err != nil {
		return nil, fmt.Errorf("lock the limits of %s: %w", orgID, err)
	}
	for _, l := range limits {
		n, err := q.CountLimitedCalls(ctx, db.CountLimitedCallsParams{OrgID: orgID, Tool: l.Tool, Category: l.Category, Per: l.Per})
		if err != nil {
			return nil, fmt.Errorf("count calls: %w", err)
		}
		if n >= int64(l.Calls) {
			return &l, nil
		}
	}
	return nil, nil
}

// Prune deletes calls that no limit counts any more.
func (s *Service) Prune(ctx context.Context) error {
	_, err := s.cfg.Store.DeleteCountedCalls(ctx, mostPer)
	return err
}

// Replayed is a step that another policy would have decided otherwise.
type Replayed struct {
	Row          db.StepsToReplayRow
	Preview      string
	Was, WouldBe Decision
}

// Replay returns what a policy would have decided on the newest steps. With
// an agent, it is tried instead of that agent's own.
func (s *Service) Replay(ctx context.Context, orgID, agentID, file, text string, steps int32) (out []Replayed, read, unreadable int, err error) {
	candidate, err := Parse(file, []byte(text))
	if err != nil {
		return nil, 0, 0, err
	}
	rows, err := s.cfg.Store.StepsToReplay(ctx, db.StepsToReplayParams{OrgID: orgID, AgentID: agentID, MaxRows: steps})
	if err != nil {
		return nil, 0, 0, fmt.Errorf("read the newest steps: %w", err)
	}
	for _, row := range rows {
		raw, err := s.cfg.Vault.Open(row.Step.ArgumentsSealed, row.Step.ID)
		arguments := map[string]any{}
		if err != nil || json.Unmarshal(raw, &arguments) != nil {
			unreadable++
			continue
		}
		read++
		set, err := s.For(ctx, s.cfg.Store.Queries, orgID, row.AgentID, db.AgentVersion{}, false)
		if err != nil {
			return nil, 0, 0, err
		}
		call := Call{Tool: row.Step.Tool, Category: row.Step.Category, Arguments: arguments, Agent: row.AgentName, At: row.Step.ProposedAt}
		if err := json.Unmarshal(row.NodeLabels, &call.Labels); err != nil {
			call.Labels = nil
		}
		is, would := set.Decide(call), set.with(candidate, agentID != "").Decide(call)
		var was Decision
		if err := json.Unmarshal(row.Step.Decision, &was); err != nil || was.Version == "" && was.Effect == None {
			was = is
		}
		if was.Effect == would.Effect {
			continue
		}
		preview := row.Step.Tool
		if script, ok := arguments["command"].(string); ok {
			preview = script
		} else if p, ok := arguments["path"].(string); ok {
			preview = p
		}
		was.Command, would.Command = s.cfg.Redact.Org(orgID).String(was.Command), s.cfg.Redact.Org(orgID).String(would.Command)
		out = append(out, Replayed{row, s.cfg.Redact.Org(orgID).String(textcut.Bytes(preview, maxLabel, "...")), was, would})
	}
	return out, read, unreadable, nil
}

// with returns a set in which a policy takes the place of the organisation's, or
// of the agent's own.
func (s Set) with(p *Policy, agent bool) Set {
	prefix := "organisation "
	if agent {
		prefix = "agent "
	}
	out := Set{{Name: strings.TrimSpace(prefix) + " (tried)", Policy: p}}
	for _, src := range s {
		if !strings.HasPrefix(src.Name, prefix) && (agent || src.Name != defaultName) {
			out = append(out, src)
		}
	}
	return out
}

// Tested is what a call would get.
type Tested struct {
	Decision
	// Commands are those of its script.
	Commands []string
	// Parts are the same commands with the rules that decide about them.
	Parts []Command
	// Category is the tool's, by the policies.
	Category string
}

// Test returns what a call would get from the policies that hold, or with another
// one tried instead of the organisation's; or, with own, of the agent's.
func (s *Service) Test(ctx context.Context, orgID, agentID, text string, own bool, c Call) (Tested, error) {
	set, err := s.For(ctx, s.cfg.Store.Queries, orgID, agentID, db.AgentVersion{}, true)
	if err != nil {
		return Tested{}, err
	}
	if text != "" {
		p, err := Parse("policy.yaml", []byte(text))
		if err != nil {
			return Tested{}, err
		}
		set = set.with(p, own && agentID != "")
	}
	c.Category = set.Category(c.Tool, c.Category)
	out := Tested{Decision: set.Decide(c), Parts: set.Read(c).Commands, Category: c.Category}
	if script, ok := c.Arguments["command"].(string); ok {
		for _, cmd := range shell.Read(script, shell.Options{}).Commands {
			out.Commands = append(out.Commands, cmd.String())
		}
	}
	return out, nil
}
