package insight

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/estimate"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

// Config holds the dependencies of a Service. All are required.
type Config struct {
	Store    *store.Store
	Agents   *agent.Service
	Policies *policy.Service
	History  *estimate.History
}

// Service analyses runs.
type Service struct{ cfg Config }

// New creates a Service.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

const (
	maxSteps   = 1000
	maxSimilar = 5
)

// Explanation is why a task failed, with what would mend it.
type Explanation struct {
	Failure
	Similar   []Similar
	Proposals []Proposal
}

// Similar is a failure of the same kind.
type Similar struct {
	Row db.SimilarFailuresRow
	// Solved says what was different in the later run that succeeded; empty for none.
	Solved string
}

// Proposal is a change that a person may apply.
type Proposal struct {
	// Kind is persona, policy, memory or advice.
	Kind, Title, AgentID, AgentName string
	// Diff is the change, and Content all of the persona or policy with it, or the value of the
	// entry of the memory that has this key.
	Diff, Content, Key string
	Base               int32
}

// Digest names exactly this change; empty for advice.
func (p Proposal) Digest() string {
	if p.Content == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{p.Kind, p.AgentID, fmt.Sprint(p.Base), p.Key, p.Content}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Failed reports whether a task has failed.
func Failed(t db.Task) bool {
	s := task.State(t.State)
	return s == task.Failed || s == task.TimedOut
}

// Record stores the class of a failure, so that later ones find it.
func Record(ctx context.Context, q *db.Queries, t db.Task, steps []db.StepsToLearnRow) error {
	if !Failed(t) {
		return nil
	}
	f := Analyse(t, steps)
	at := time.Now()
	if t.FinishedAt != nil {
		at = *t.FinishedAt
	}
	if err := q.RecordFailure(ctx, db.RecordFailureParams{TaskID: t.ID, OrgID: t.OrgID, Class: string(f.Class), Signature: f.Signature, FailedAt: at}); err != nil {
		return fmt.Errorf("store why task %s failed: %w", t.ID, err)
	}
	return nil
}

// Explain says why a failed task failed. Similar failures are those that v sees, and changes
// those that v may make.
func (s *Service) Explain(ctx context.Context, v visibility.Viewer, t db.Task) (*Explanation, error) {
	steps, err := s.cfg.Store.StepsToLearn(ctx, db.StepsToLearnParams{OrgID: t.OrgID, TaskID: t.ID, MaxRows: maxSteps})
	if err != nil {
		return nil, fmt.Errorf("load the steps of task %s: %w", t.ID, err)
	}
	out := &Explanation{Failure: Analyse(t, steps)}
	rows, err := s.cfg.Store.SimilarFailures(ctx, db.SimilarFailuresParams{
		OrgID: t.OrgID, Signature: out.Signature, TaskID: t.ID, SeesAll: v.All, Viewer: v.Name, MaxRows: maxSimilar,
	})
	if err != nil {
		return nil, fmt.Errorf("find failures that are similar to %s: %w", t.ID, err)
	}
	for _, row := range rows {
		out.Similar = append(out.Similar, Similar{row, solved(row)})
	}
	if out.Proposals, err = s.propose(ctx, v, t, out.Failure); err != nil {
		return nil, err
	}
	if m := remembered(t, *out); m != nil {
		out.Proposals = append(out.Proposals, *m)
	}
	return out, nil
}

// remembered returns a proposal to remember the cause of a failure and what solved it, for later
// runs of the person who accepts it; nil if there is nothing to remember. The entry is a fact,
// which agents get as data, since it quotes what the run wrote.
func remembered(t db.Task, e Explanation) *Proposal {
	about := cmp.Or(e.Key, e.Host)
	if e.Step != nil {
		about = cmp.Or(about, e.Step.Tool)
	}
	if about == "" || e.Class != Environment && e.Class != Permission && e.Class != Tool {
		return nil
	}
	value := fmt.Sprintf("%s (task %s).", strings.TrimSuffix(e.Cause, "."), t.ID)
	for _, s := range e.Similar {
		if s.Solved != "" {
			value += " What solved it before: " + s.Solved + "."
			break
		}
	}
	value = textcut.Bytes(value, maxRemembered, "…")
	// Failures of another kind about the same have another entry.
	suffix := " (" + e.Signature[:6] + ")"
	key := textcut.Runes("failure: "+about, memory.MaxKey-len(suffix), "…") + suffix
	diff, err := udiff.ToUnified(key, key, "", udiff.Strings("", value+"\n"), 0)
	if err != nil {
		return nil
	}
	return &Proposal{Kind: "memory", Title: "Tell your later runs of it: remember the fact " + key, Diff: diff, Content: value, Key: key}
}

// maxRemembered bounds an entry that is proposed, in bytes.
const maxRemembered = 2000

func solved(row db.SimilarFailuresRow) string {
	switch {
	case row.SolvedBy == "":
		return ""
	case row.SolvedModel != "":
		return "a run with the model " + row.SolvedModel
	case row.SolvedVersion != row.AgentVersion:
		return fmt.Sprintf("version %d of the agent instead of %d", row.SolvedVersion, row.AgentVersion)
	case row.SolvedByRetry:
		return "a retry without a change"
	}
	return "a later run of the same version"
}

func (s *Service) propose(ctx context.Context, v visibility.Viewer, t db.Task, f Failure) (out []Proposal, err error) {
	// A persona and a policy are shown to those only who may change them.
	owns, err := visibility.Owns(ctx, s.cfg.Store.Queries, v, t.AgentID)
	if err != nil {
		return nil, err
	}
	if !owns {
		return advice(t, f), nil
	}
	row, err := s.cfg.Agents.Get(ctx, t.OrgID, t.AgentID)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			return advice(t, f), nil
		}
		return nil, err
	}
	name := row.Agent.Name
	version, err := s.cfg.Agents.Version(ctx, t.OrgID, t.AgentID, row.Agent.CurrentVersion)
	if err != nil {
		return nil, err
	}
	if title, change := personaChange(t, f); change != nil {
		after, changed, err := edit(version.Markdown, change)
		if err == nil && changed {
			diff, err := udiff.ToUnified(name+".md", name+".md", version.Markdown, udiff.Strings(version.Markdown, after), 3)
			if err != nil {
				return nil, fmt.Errorf("show the change of agent %s: %w", name, err)
			}
			out = append(out, Proposal{Kind: "persona", Title: title, AgentID: t.AgentID, AgentName: name, Diff: diff, Content: after, Base: version.Version})
		}
	}
	if v.All && f.Class == Permission && f.Step != nil && f.Step.State == "denied" {
		p, err := s.policyRule(ctx, t, name, f)
		if err != nil {
			return nil, err
		}
		if p != nil {
			out = append(out, *p)
		}
	}
	return append(out, advice(t, f)...), nil
}

// RuleFor returns a policy rule that has calls of a tool approved by a person instead of denied.
func RuleFor(agentName, tool string) string {
	return fmt.Sprintf("  - {name: ask-%s-%s, effect: ask, tool: %s, agent: %s, reason: proposed after denied calls}\n",
		strings.ReplaceAll(tool, "_", "-"), agentName, tool, agentName)
}

// policyRule proposes that a person is asked about calls of the tool that was denied.
func (s *Service) policyRule(ctx context.Context, t db.Task, agentName string, f Failure) (*Proposal, error) {
	now, err := s.cfg.Policies.Get(ctx, t.OrgID, t.AgentID, 0)
	if err != nil {
		return nil, err
	}
	rule := RuleFor(agentName, f.Step.Tool)
	after := now.Yaml
	if i := strings.Index("\n"+after, "\nrules:\n"); i >= 0 {
		at := i + len("rules:\n")
		after = after[:at] + rule + after[at:]
	} else {
		if after != "" && !strings.HasSuffix(after, "\n") {
			after += "\n"
		}
		after += "rules:\n" + rule
	}
	if _, err := policy.Parse("policy.yaml", []byte(after)); err != nil {
		return nil, nil //nolint:nilerr // it is written in a way that this cannot add to
	}
	diff, err := udiff.ToUnified("policy.yaml", "policy.yaml", now.Yaml, udiff.Strings(now.Yaml, after), 3)
	if err != nil {
		return nil, fmt.Errorf("show the change of the policy: %w", err)
	}
	return &Proposal{
		Kind: "policy", Title: fmt.Sprintf("Ask a person about calls of %s by %s, where no rule denies them", f.Step.Tool, agentName),
		AgentID: t.AgentID, AgentName: agentName, Diff: diff, Content: after, Base: now.Version,
	}, nil
}

// personaChange returns the change of a persona's front matter that would mend a failure.
func personaChange(t db.Task, f Failure) (title string, change func(root *yaml.Node) bool) {
	switch code := fault.Code(t.ErrorCode); {
	case code == fault.MaxIterations:
		most := max(2*(t.Iteration-t.ResumedAt), 2)
		return fmt.Sprintf("Allow %d iterations", min(most, 1000)), func(root *yaml.Node) bool {
			return set(root, fmt.Sprint(min(most, 1000)), "limits", "iterations")
		}
	case code == fault.ExecutionTimeout && f.Step == nil:
		return "Allow an hour of work", func(root *yaml.Node) bool { return set(root, "1h", "limits", "active_time") }
	case code == fault.BudgetLimit && strings.Contains(t.ErrorMessage, "cost"):
		dollars := max(2*float64(t.CostMicros)/1e6, 1)
		return fmt.Sprintf("Allow $%.2f", dollars), func(root *yaml.Node) bool { return set(root, fmt.Sprintf("%.2f", dollars), "limits", "cost_usd") }
	case code == fault.BudgetLimit && strings.Contains(t.ErrorMessage, "token"):
		tokens := max(2*(t.InputTokens+t.OutputTokens), 100_000)
		return fmt.Sprintf("Allow %d tokens", tokens), func(root *yaml.Node) bool { return set(root, fmt.Sprint(tokens), "limits", "tokens") }
	case f.Host != "":
		return "Allow connections to " + f.Host, func(root *yaml.Node) bool { return add(root, f.Host, "egress") }
	case code == fault.ToolNotFound && f.Step != nil:
		return "Give the agent the tool " + f.Step.Tool, func(root *yaml.Node) bool { return add(root, f.Step.Tool, "tools") }
	}
	return "", nil
}

// edit changes the front matter of a persona file, and keeps comments and order.
func edit(markdown string, change func(root *yaml.Node) bool) (after string, changed bool, err error) {
	rest, found := strings.CutPrefix(markdown, "---\n")
	if !found {
		return markdown, false, nil
	}
	front, body, found := strings.Cut(rest, "\n---")
	if !found {
		return markdown, false, nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(front), &doc); err != nil || len(doc.Content) != 1 {
		return markdown, false, err
	}
	if !change(doc.Content[0]) {
		return markdown, false, nil
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return markdown, false, err
	}
	return "---\n" + strings.TrimSuffix(out.String(), "\n") + "\n---" + body, true, nil
}

// at returns the value of a key of a mapping; nil if there is none.
func at(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func put(mapping *yaml.Node, key string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}

// set sets a scalar, and reports whether it changed.
func set(root *yaml.Node, value string, keys ...string) bool {
	for _, key := range keys[:len(keys)-1] {
		next := at(root, key)
		if next == nil {
			next = &yaml.Node{Kind: yaml.MappingNode}
			put(root, key, next)
		}
		if next.Kind != yaml.MappingNode {
			return false
		}
		root = next
	}
	last := keys[len(keys)-1]
	if now := at(root, last); now != nil {
		if now.Value == value {
			return false
		}
		now.Kind, now.Tag, now.Value, now.Style = yaml.ScalarNode, "", value, 0
		return true
	}
	put(root, last, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
	return true
}

// add appends to a list, and reports whether it changed.
func add(root *yaml.Node, value, key string) bool {
	list := at(root, key)
	if list == nil {
		list = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		put(root, key, list)
	}
	if list.Kind != yaml.SequenceNode {
		return false
	}
	for _, one := range list.Content {
		if one.Value == value {
			return false
		}
	}
	list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
	return true
}

// advice says what a person can do where no file can be changed for it.
func advice(t db.Task, f Failure) []Proposal {
	say := func(title string) []Proposal { return []Proposal{{Kind: "advice", Title: title}} }
	switch f.Class {
	case Environment:
		if f.Key != "" && f.Host == "" {
			return say(fmt.Sprintf("Install %s in the agent's jail: add it to jail.setup, or use an image that has it", f.Key))
		}
		if f.Key == "" {
			return say("See whether the node and its images are healthy: deckhand doctor")
		}
	case Provider:
		return say("Add models to fallbacks in the persona, and see the provider: deckhand provider list")
	case Model:
		return say("Try another model: deckhand task retry " + t.ID + " --model MODEL")
	case Plan:
		return say("Say in the goal how the result is checked, or correct the plan: deckhand feedback correct task " + t.ID + " TEXT")
	case Tool:
		if f.Step != nil {
			return say(fmt.Sprintf("Read the output of step %d, and say what would have worked: deckhand feedback correct step %s TEXT", f.Step.Number, f.Step.ID))
		}
	case Budget:
		return say("Compare with earlier runs of the agent: deckhand task stats --by version")
	}
	return nil
}
