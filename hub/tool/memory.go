package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Memory is what a task's agent remembers beyond the task.
type Memory interface {
	// Store stores an entry, and returns its id and whether it is marked as written after
	// untrusted input.
	Store(ctx context.Context, e MemoryEntry) (id string, untrusted bool, err error)
	// Retrieve returns the entries that fit a question, the best first.
	Retrieve(ctx context.Context, question string, types []string, limit int) ([]MemoryEntry, error)
	// Forget deletes an entry; false if there is none.
	Forget(ctx context.Context, e MemoryEntry) (bool, error)
}

// MemoryEntry is an entry of the memory.
type MemoryEntry struct {
	ID string
	// Scope is agent, workspace, user, team or organisation, and Team the name of a team.
	Scope, Team string
	Type, Key   string
	Value       any
	// Text is the value as text, of an entry that was retrieved.
	Text       string
	Confidence float64
	// TTL is how long it is kept; 0 for ever.
	TTL time.Duration
	// Source is who wrote it, of an entry that was retrieved.
	Source    string
	Untrusted bool
}

const (
	memoryTimeout = 30 * time.Second
	// retrieved is how many entries a call returns by default, and retrievedBytes how much text.
	retrieved      = 8
	retrievedBytes = 16 << 10
	// ownScope is the scope of an entry that names none.
	ownScope = "agent"
)

const memoryTypes = `"enum":["fact","workflow","selector","statistic","preference","instruction"]`

func memoryTools() []*Tool {
	const (
		safe     = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		moderate = deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE
		hub      = deckhandv1.ToolPlace_TOOL_PLACE_HUB
	)
	scope := func(what string) string {
		return `"scope":{"enum":["agent","workspace","user","team","organisation"],"description":"` + what + `"},
				"team":{"type":"string","minLength":1,"maxLength":100,"description":"The name of the team, with scope team"}`
	}
	return []*Tool{
		{
			Name: toolname.MemoryStore,
			Description: "Remember something for later tasks: it is told to runs whose goal it fits, and found with memory_retrieve. " +
				"Store what was hard to find out and stays true (where things are, how something is done here, what a person corrected), one fact for each key. " +
				"Do not store what the workspace or the documentation says, what is true of this task only, or secrets. A person sees, corrects and deletes what you store. " +
				"An entry of another scope than agent or workspace needs an approval. " +
				`Example: {"type": "fact", "key": "staging database host", "value": "db-2.staging.example.com, port 5433"}.`,
			Kind:     KindWork,
			Expected: time.Second, Category: moderate, Place: hub, Idempotent: true, Reversible: true, Retryable: true, Timeout: memoryTimeout, wider: widerScope,
			schema: `{"type":"object","additionalProperties":false,"required":["type","key","value"],"properties":{
				"type":{` + memoryTypes + `},
				"key":{"type":"string","minLength":1,"maxLength":255,"pattern":"^[^\\r\\n]+$","description":"A short name in the words that somebody would look for; an entry with the same key is replaced"},
				"value":{"description":"What to remember: a text, or any JSON of at most 64 KiB"},
				` + scope("Whose it is: agent (default) and workspace for later runs of this agent for the same user; user for all agents of the user; team and organisation for others, too") + `,
				"confidence":{"type":"number","minimum":0,"maximum":1,"description":"How sure you are; 0.7 by default"},
				"days":{"type":"integer","minimum":1,"maximum":3650,"description":"After so many days it is forgotten; for ever by default"}}}`,
			preview: previewMemory,
			run:     runMemoryStore,
		},
		{
			Name: toolname.MemoryRetrieve,
			Description: "Look up what is remembered from earlier tasks and from people, for your user, teams, organisation, agent and workspace. " +
				"Use it before you work something out again. The beginning of the task has what fitted its goal only. " +
				`Example: {"query": "staging database"}.`,
			Kind: KindSearch, Expected: time.Second, Retryable: true,
			Category: safe, Place: hub, Idempotent: true, ReadOnly: true, Timeout: memoryTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["query"],"properties":{
				"query":{"type":"string","minLength":2,"maxLength":500,"description":"Words of the key or the value"},
				"types":{"type":"array","maxItems":6,"items":{` + memoryTypes + `}},
				"limit":{"type":"integer","minimum":1,"maximum":30,"description":"At most this many entries; 8 by default"}}}`,
			run: runMemoryRetrieve,
		},
		{
			Name: toolname.MemoryForget,
			Description: "Delete an entry of the memory that is wrong or out of date. People can restore it for 30 days. " +
				`Example: {"type": "fact", "key": "staging database host"}.`,
			Kind:     KindWork,
			Expected: time.Second, Category: moderate, Place: hub, Idempotent: true, Reversible: true, Retryable: true, Timeout: memoryTimeout, wider: widerScope,
			schema: `{"type":"object","additionalProperties":false,"required":["type","key"],"properties":{
				"type":{` + memoryTypes + `},
				"key":{"type":"string","minLength":1,"maxLength":255,"pattern":"^[^\\r\\n]+$"},
				` + scope("Whose it is; agent by default") + `}}`,
			run: runMemoryForget,
		},
	}
}

// widerScope returns why a person is asked about an entry that others than the agent's own runs
// get; empty if they do not.
func widerScope(arguments map[string]any) string {
	switch s := text(arguments, "scope"); s {
	case "", ownScope, "workspace":
		return ""
	case "user":
		return "the memory is for all agents of the user"
	default:
		return "the memory is for others, too: its scope is the " + s
	}
}

func previewMemory(arguments map[string]any) string {
	return fmt.Sprintf("Remember for the %s (%s): %s", scopeOr(arguments), text(arguments, "type"), text(arguments, "key"))
}

func scopeOr(arguments map[string]any) string {
	if s := text(arguments, "scope"); s != "" {
		return s
	}
	return ownScope
}

func memoryEntry(arguments map[string]any) MemoryEntry {
	return MemoryEntry{Scope: scopeOr(arguments), Team: text(arguments, "team"), Type: text(arguments, "type"), Key: text(arguments, "key")}
}

func runMemoryStore(ctx context.Context, c Call) (Result, error) {
	e := memoryEntry(c.Arguments)
	e.Value, e.Confidence = c.Arguments["value"], 0.7
	if sure, ok := c.Arguments["confidence"].(float64); ok {
		e.Confidence = sure
	}
	if days, ok := c.Arguments["days"].(float64); ok {
		e.TTL = time.Duration(days) * 24 * time.Hour
	}
	id, untrusted, err := c.Memory.Store(ctx, e)
	if err != nil {
		return memoryFailure(err)
	}
	said := fmt.Sprintf("remembered as %s", id)
	if untrusted {
		said += "; since you have read text that anybody may have written, no run is told it before a person confirms it (memory_retrieve finds it, marked)"
	}
	return Result{Observation: said, Outcome: map[string]any{"memory_id": id, "untrusted": untrusted}}, nil
}

func runMemoryRetrieve(ctx context.Context, c Call) (Result, error) {
	limit := retrieved
	if n, ok := c.Arguments["limit"].(float64); ok {
		limit = int(n)
	}
	var types []string
	list, _ := c.Arguments["types"].([]any)
	for _, one := range list {
		if name, ok := one.(string); ok {
			types = append(types, name)
		}
	}
	found, err := c.Memory.Retrieve(ctx, text(c.Arguments, "query"), types, limit)
	if err != nil {
		return memoryFailure(err)
	}
	if len(found) == 0 {
		return Result{Observation: "nothing is remembered with these words: try others", Outcome: map[string]any{"found": 0}}, nil
	}
	var out strings.Builder
	untrusted := slices.ContainsFunc(found, func(e MemoryEntry) bool { return e.Untrusted })
	for i, e := range found {
		mark := ""
		if e.Untrusted {
			mark = ", written after untrusted input and confirmed by nobody: check it before you rely on it"
		}
		piece := fmt.Sprintf("%s %q (of the %s, by %s%s):\n%s\n", e.Type, e.Key, e.Scope, e.Source, mark, textcut.Bytes(e.Text, retrievedBytes/2, "…"))
		if out.Len()+len(piece) > retrievedBytes && i > 0 {
			fmt.Fprintf(&out, "[%d more: use more words]\n", len(found)-i)
			break
		}
		out.WriteString(piece)
	}
	return Result{Observation: out.String(), Outcome: map[string]any{"found": len(found), "untrusted": untrusted}}, nil
}

func runMemoryForget(ctx context.Context, c Call) (Result, error) {
	e := memoryEntry(c.Arguments)
	gone, err := c.Memory.Forget(ctx, e)
	if err != nil {
		return memoryFailure(err)
	}
	if !gone {
		return Result{Observation: fmt.Sprintf("the %s remembers no %s %q", e.Scope, e.Type, e.Key), Outcome: map[string]any{"deleted": false}}, nil
	}
	return Result{Observation: "forgotten", Outcome: map[string]any{"deleted": true}}, nil
}

// memoryFailure returns what the model may correct as a result.
func memoryFailure(err error) (Result, error) {
	if fault.As(err) == nil {
		return Result{}, err
	}
	return failure(err)
}
