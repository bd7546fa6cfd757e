package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Override replaces settings of a task's persona. It is set by a person who retries the
// task, and by the hub if the task's jail had too little memory. Zero fields keep the
// persona's settings.
type Override struct {
	// MemoryBytes is the jail's memory.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// MemoryRaisedAt is when the hub last raised MemoryBytes, after a command was killed
	// for exceeding it.
	MemoryRaisedAt time.Time `json:"memory_raised_at,omitzero"`
	// NodeID is the node that must run the task.
	NodeID string `json:"node_id,omitempty"`
	// Provider and Model go together. SQL reads them by these names.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Mode is one that is at least as careful as the persona's, unless an admin
	// set it.
	Mode persona.Mode `json:"mode,omitempty"`
	// GitRef is the branch, tag or commit that the workspace is checked out at.
	GitRef string `json:"git_ref,omitempty"`
	// Limits of the run.
	Limits Limits `json:"limits,omitzero"`
	// Chat has it answer, and do nothing: see Narrowed. SQL reads it by this name.
	Chat bool `json:"chat,omitempty"`
}

// Limits are what an admin lets a run have instead of its persona's; 0
// leaves those.
type Limits struct {
	Iterations int32         `json:"iterations,omitempty"`
	ActiveTime time.Duration `json:"active_time_ns,omitempty"`
	Tokens     int64         `json:"tokens,omitempty"`
	Calls      int64         `json:"calls,omitempty"`
	CostMicros int64         `json:"cost_micros,omitempty"`
	Files      int64         `json:"files,omitempty"`
	FileSize   int64         `json:"file_size,omitempty"`
}

// merged returns limits with those of newer ones put over them.
func (l Limits) merged(by Limits) Limits {
	return Limits{
		Iterations: cmp.Or(by.Iterations, l.Iterations), ActiveTime: cmp.Or(by.ActiveTime, l.ActiveTime), Tokens: cmp.Or(by.Tokens, l.Tokens),
		Calls: cmp.Or(by.Calls, l.Calls), CostMicros: cmp.Or(by.CostMicros, l.CostMicros),
		Files: cmp.Or(by.Files, l.Files), FileSize: cmp.Or(by.FileSize, l.FileSize),
	}
}

// OverrideOf reads a task's.
func OverrideOf(t db.Task) (Override, error) { return ParseOverride(t.Override) }

// ParseOverride reads the column.
func ParseOverride(column json.RawMessage) (Override, error) {
	var o Override
	if len(column) <= len("{}") { // nearly every task's
		return o, nil
	}
	if err := json.Unmarshal(column, &o); err != nil {
		return o, fmt.Errorf("read the override of a task: %w", err)
	}
	return o, nil
}

// Column returns what is stored.
func (o Override) Column() (json.RawMessage, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the override of a task: %w", err)
	}
	return data, nil
}

// Runs returns the provider and model of a task whose persona names the given ones.
func (o Override) Runs(provider, model string) (string, string) {
	if o.Provider != "" {
		return o.Provider, o.Model
	}
	return provider, model
}

// Check refuses an override that makes no sense.
func (o Override) Check() error {
	if (o.Provider == "") != (o.Model == "") && o.Provider != persona.ProviderScript {
		return fault.New(fault.Invalid, "override.provider and override.model go together").WithFix("give both, or neither")
	}
	return nil
}

// EffectivePersona returns the persona with the task's overrides applied: the task's mode
// replaces the persona's if it has one, and a chat has only the tools that every agent
// has, no MCP servers, no credentials, no subtasks and no review.
func EffectivePersona(t db.Task, p *persona.Persona) (*persona.Persona, error) {
	o, err := OverrideOf(t)
	if err != nil || !o.Chat && o.Mode == "" {
		return p, err
	}
	narrow := *p
	if o.Chat {
		narrow.Tools, narrow.MCP, narrow.Credentials, narrow.Agents, narrow.Mode = nil, nil, nil, persona.Agents{}, persona.Autonomous
		return &narrow, nil
	}
	narrow.Mode = o.Mode
	if p.Mode == persona.Supervised && o.Mode == persona.Review {
		// It asks about all that the persona has it ask about.
		narrow.Approvals.Categories = []string{"moderate", "dangerous"}
	}
	return &narrow, nil
}

// ModelOf returns the provider and model of a task whose persona's version names those.
func ModelOf(t db.Task, v db.AgentVersion) (provider, model string, err error) {
	o, err := OverrideOf(t)
	if err != nil {
		return "", "", fmt.Errorf("task %s: %w", t.ID, err)
	}
	provider, model = o.Runs(v.Provider, v.Model)
	return provider, model, nil
}
