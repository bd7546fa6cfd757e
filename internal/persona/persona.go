// Package persona parses persona files: YAML front matter between two lines of
// three dashes, then a Markdown body, which is the system prompt.
//
// Parse reports all problems of a file at once, each with its line and a
// correction. It rejects unknown keys, because a key that is accepted without
// effect would mislead the author. The hub uses it when a persona is applied,
// the worker when a persona is run, and the command line to validate files, so
// that all three agree. Files are untrusted: size, nesting and aliases are
// bounded.
package persona

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

// Trust says how much the agent's commands are trusted: it chooses the jail's
// runtime.
type Trust string

// The trust levels, weakest walls first.
const (
	Trusted   Trust = "trusted"
	Verified  Trust = "verified"
	Untrusted Trust = "untrusted"
)

// Mode says when a person is asked.
type Mode string

// The modes.
const (
	Autonomous Mode = "autonomous"
	Supervised Mode = "supervised"
	Review     Mode = "review"
)

// modes are all of them, the least careful first.
var modes = []Mode{Autonomous, Supervised, Review}

// Modes returns the names of the modes, the least careful first. Whatever lists modes
// takes them from here, or is compared with it by a test.
func Modes() []string {
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	return names
}

// Below reports whether a mode is less careful than another.
func (m Mode) Below(other Mode) bool { return slices.Index(modes, m) < slices.Index(modes, other) }

// Scope says whose a workspace is.
type Scope string

// The scopes.
const (
	// ScopeAgent keeps one workspace for all tasks of the agent.
	ScopeAgent Scope = "agent"
	// ScopeTask makes a workspace for each task.
	ScopeTask Scope = "task"
)

// Persona is one parsed file, with defaults filled in.
type Persona struct {
	// Name of the agent: lower-case letters, digits and dashes.
	Name string
	// Description is one line for people.
	Description string
	// Title is its role in a few words, such as "On-call engineer".
	Title string
	// Avatar is one emoji or the name of a built-in picture; empty for its initials.
	Avatar string
	// TaskType is what its tasks are counted under in statistics; empty for its name.
	TaskType string
	// Goal is that of a run that is given none.
	Goal string
	// Provider is the model family, for example "anthropic" or "script".
	Provider string
	// Model is the provider's name of the model; "scripted" for scripts.
	Model string
	// Script is the file name of the scripted model's YAML, beside the
	// persona; set exactly when Provider is "script".
	Script string
	// Fallbacks are asked, in order, if Provider fails.
	Fallbacks []Fallback
	// MaxTokens caps the output of one model call.
	MaxTokens int
	Thinking  Thinking
	// CacheTTL is for how long a provider caches the prompt: 5 minutes or 1 hour.
	CacheTTL time.Duration
	Context  Context
	// Tools are the names of the tools that the agent may use, in order.
	Tools []string
	// MCP are servers that offer it tools besides.
	MCP       []MCPServer
	Agents    Agents
	Trust     Trust
	Mode      Mode
	Approvals Approvals
	Limits    Limits
	Nodes     Nodes
	Workspace Workspace
	Jail      Jail
	// Egress is where its commands may connect to: nowhere, unless it says more.
	Egress allowlist.List
	// Credentials are those that its commands use, in the order of the file.
	Credentials []Credential
	// HubAccess lets programs in the jail call the hub for their task: they read it, send its
	// parent messages, and give work to subtasks.
	HubAccess bool
	// OfflineGrace is how long a command continues while its node is cut off
	// from the hub; 0 for the node's own 10 minutes.
	OfflineGrace time.Duration
	// OutputBytes is after how much output a command is stopped; 0 for the node's
	// own limit, which it cannot exceed.
	OutputBytes int64
	Jobs        Jobs
	Checkpoints Checkpoints
	Browser     Browser
	// Host lets the agent work on machines themselves; the zero value does not.
	Host Host
	// Triggers have the agent start without a person.
	Triggers []Trigger
	// Prompt is the body: the system prompt.
	Prompt string
}

// Jobs bounds the commands that go on in the background.
type Jobs struct {
	// MaxTime is after how long one is killed: 1 minute to 24 hours.
	MaxTime time.Duration
}

// Browser has the settings of an agent's browser.
type Browser struct {
	// Record has what it shows be recorded, for people.
	Record bool
}

// DefaultJobTime is Jobs.MaxTime unless the file says otherwise.
const DefaultJobTime = time.Hour

// Fallback is a model that replaces one that fails.
type Fallback struct{ Provider, Model string }

// Agents are the other agents that an agent may work with, by name. It may
// always create subtasks for itself.
type Agents struct {
	// Delegate are those that it may give subtasks to.
	Delegate []string
	// Handoff are those that it may hand its work over to.
	Handoff []string
	// Rounds is how often work may come round to one of them: in how many turns a
	// run may delegate to the same agent (0: as often as it likes), and how often
	// an agent may take part in a row of handoffs (0: once).
	Rounds int
}

// OnTimeout says what happens if an approval is not decided in time.
type OnTimeout string

// The outcomes. Making the call is not one of them: silence is not consent.
const (
	// RejectCall lets the agent continue without the call.
	RejectCall OnTimeout = "reject"
	// StopTask ends the task.
	StopTask OnTimeout = "stop"
)

// Approvals says which calls a person must allow first, besides those of
// dangerous tools.
type Approvals struct {
	// Tools by name, and all of these categories.
	Tools      []string
	Categories []string
	// Timeout is how long an approval or a question waits for a decision or a
	// reply.
	Timeout   time.Duration
	OnTimeout OnTimeout
}

// Thinking says how a model may think before it responds. The zero value leaves
// that to the model.
type Thinking struct {
	// Adaptive lets the model think as much as it finds right, for models that
	// can judge that.
	Adaptive bool
	// Tokens is a fixed budget in one call, for models that want one. Always
	// under MaxTokens; 0 for none.
	Tokens int
}

// Context says how much of its past a model is shown.
type Context struct {
	// SummaryModel writes the summaries; the zero value leaves them to the model
	// itself.
	SummaryModel Fallback
	// SummarizeAt is the size of the prompt, in tokens, from which on the oldest
	// turns give way to a summary; 0 for 80 % of what the model takes. Never more than
	// 90 % of that.
	SummarizeAt int
	// MemoryTokens is how much of the memory a run is told at its beginning, in tokens; 0 for
	// nothing.
	MemoryTokens int
	// Patterns has runs get patterns of earlier ones, and teach them.
	Patterns bool
}

// Limits end a run that does not end by itself.
type Limits struct {
	// Iterations of the loop: 1 to 1 000.
	Iterations int
	// ActiveTime is the time a worker spends on the task, waiting not counted.
	ActiveTime time.Duration
	// Tokens over all model calls, input and output, cached input included.
	Tokens int64
	// Calls to the model.
	Calls int64
	// CostUSD over all model calls.
	CostUSD float64
	// Files that the run creates or changes in its workspace and that are there at the end
	// of a call.
	Files int64
	// FileSize is the size in bytes of the largest of them.
	FileSize int64
	// Subtasks below the run, those of its subtasks included.
	Subtasks int
	// Depth of the tree of subtasks below the run.
	Depth int
	// OnLimit says what becomes of a run at a limit.
	OnLimit OnLimit
	// Failures in a row suspend the agent.
	Failures int
	// Outage is how long a task waits for a model that does not answer.
	Outage time.Duration
}

// OnLimit says what becomes of a run that reaches a limit.
type OnLimit string

// The outcomes.
const (
	// PauseAtLimit has it wait for a person, who lets it have more or ends it.
	PauseAtLimit OnLimit = "pause"
	// StopAtLimit ends it.
	StopAtLimit OnLimit = "stop"
)

// Nodes says where the agent may run. A node must have one of the names (when
// there are any) and all of the labels; the zero value means any node.
type Nodes struct {
	Names  []string
	Labels map[string]string
}

const (
	// Start is the checkpoint that every task has: its workspace as its first step found it.
	Start = "start"
	// BeforeRisk is the checkpoint before the last risky call that was made; see OnRisk.
	BeforeRisk = "before risk"
	// BeforeStep begins the name of every checkpoint that a rule makes before a call; the
	// number of its step follows.
	BeforeStep = "before step "
)

// Checkpoints says which points of a task are checkpoints by a rule, in addition to those that
// the agent names.
type Checkpoints string

const (
	// EachIteration makes one at the end of each iteration, as every other rule does too.
	EachIteration Checkpoints = "each_iteration"
	// EachStep makes one before each call of a tool that is not safe.
	EachStep Checkpoints = "each_step"
	// OnRisk makes one before each call that is dangerous or that a person is asked about.
	OnRisk Checkpoints = "on_risk"
)

// Workspace is the folder that the agent works in.
type Workspace struct {
	Scope Scope
	// SizeBytes bounds it.
	SizeBytes int64
	// KeepJobs has the background commands of a task go on when it ends, for the agent's
	// next tasks; only with ScopeAgent.
	KeepJobs bool
	// RestoreOnFailure is the name of the checkpoint to which the files go back when a run
	// fails, or Start, or BeforeRisk; empty to keep them as they are.
	RestoreOnFailure string
	// Git is what a new workspace is filled with; nil for nothing.
	Git *Checkout
}

// Jail says what the agent's commands see of programs and files, and may use.
type Jail struct {
	// Image is the container image whose files the jail has, as REGISTRY/NAME:TAG or
	// with a digest; empty for the machine's own system folders, DevcontainerImage for the
	// one that the workspace's devcontainer.json names.
	Image string
	// CPUMillis is thousandths of a CPU.
	CPUMillis   int64
	MemoryBytes int64
	// MaxMemoryBytes is how far MemoryBytes may be raised for a task whose command
	// was killed for want of it; at least MemoryBytes.
	MaxMemoryBytes int64
	PIDs           int64
	// TmpBytes bounds /tmp.
	TmpBytes int64
	// ReadOnlyPaths are absolute host paths shown read-only at the same place.
	ReadOnlyPaths []string
	// WritableRoot lets commands change the image's files in their jail, and RootUser has
	// them run as root there; only with an image.
	WritableRoot, RootUser bool
	// Setup are command lines that prepare the image once on each node, as root, and may
	// connect to SetupEgress; only with an image.
	Setup       []string
	SetupEgress allowlist.List
}

// SetupDigest identifies what Setup makes of an image, which also depends on what it may
// connect to; empty without Setup.
func (j Jail) SetupDigest() string {
	if len(j.Setup) == 0 {
		return ""
	}
	h := sha256.New()
	for _, line := range j.Setup {
		fmt.Fprintf(h, "%d:%s\n", len(line), line)
	}
	fmt.Fprintf(h, "%+v", j.SetupEgress)
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// Vocabulary is what the caller's side can do. A nil list is not checked.
type Vocabulary struct {
	Tools     []string
	Providers []string
	Modes     []string
	Agents    []string
	// Trigger, if set, says what is wrong with one of the persona's triggers.
	Trigger func(p *Persona, t Trigger) error
}

// defaults is what a file that says nothing gets.
func defaults() *Persona {
	return &Persona{
		MaxTokens: 8192,
		CacheTTL:  5 * time.Minute,
		Trust:     Trusted,
		Mode:      Autonomous,
		Approvals: Approvals{Timeout: 5 * time.Minute, OnTimeout: RejectCall},
		Limits: Limits{
			Iterations: 50, ActiveTime: 30 * time.Minute, Tokens: 500_000, Calls: 1000, CostUSD: 10, Files: 1000, FileSize: 100 << 20, Subtasks: 20, Depth: 10,
			OnLimit: StopAtLimit, Failures: 3, Outage: 24 * time.Hour,
		},
		Jobs:        Jobs{MaxTime: DefaultJobTime},
		Checkpoints: EachIteration,
		Context:     Context{MemoryTokens: 2000, Patterns: true},
		Workspace:   Workspace{Scope: ScopeAgent, SizeBytes: 10 << 30},
		Jail:        Jail{CPUMillis: 2000, MemoryBytes: 4 << 30, PIDs: 512, TmpBytes: 1 << 30},
	}
}
