package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// StepSearcher is the task's own history, for tools that look things up in it.
type StepSearcher interface {
	// Search returns the task's steps that contain all words, in lower case, newest
	// first.
	Search(ctx context.Context, words []string) ([]StepHit, error)
}

// StepHit is a step that a search found.
type StepHit struct {
	StepID       string
	Number, Turn int32
	Tool, State  string
	// Arguments and Observation are masked.
	Arguments, Observation string
}

const (
	searchTimeout = 30 * time.Second
	// searchBytes is how many bytes a search returns.
	searchBytes = 8 << 10
	// excerptLine and excerptLines bound what is shown of one step.
	excerptLine  = 300
	excerptLines = 6
)

// recallTools keep what the agent knows within its reach, however long its task.
func recallTools() []*Tool {
	return []*Tool{
		{
			Name: toolname.PinFact,
			Description: "Keep a fact in your context word for word, also after your oldest turns are replaced by a summary. " +
				"Use it for exact names, ids, paths and values that you will need later. A new fact replaces the one with the same key; without a fact, the key is removed. " +
				`Example: {"key": "release branch", "fact": "release/2.4"}.`,
			Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_WORKER,
			Idempotent: true, Reversible: true, Timeout: workTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["key"],"properties":{
				"key":{"type":"string","minLength":1,"maxLength":100},
				"fact":{"type":"string","maxLength":1000}}}`,
			run: func(_ context.Context, c Call) (Result, error) {
				if text(c.Arguments, "fact") == "" {
					return Result{Observation: "unpinned " + text(c.Arguments, "key")}, nil
				}
				return Result{Observation: "pinned " + text(c.Arguments, "key")}, nil
			},
		},
		{
			Name: toolname.ContextSearch,
			Description: "Search everything that you did and saw in this task, including what is no longer in your context. " +
				"Returns the steps whose arguments or results contain all the words, newest first, with the surrounding lines. " +
				`Example: {"query": "connection refused 5432"}.`,
			Category: deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE, Place: deckhandv1.ToolPlace_TOOL_PLACE_HUB,
			Idempotent: true, ReadOnly: true, Timeout: searchTimeout,
			schema: `{"type":"object","additionalProperties":false,"required":["query"],"properties":{
				"query":{"type":"string","minLength":2,"maxLength":300,"description":"Words to find, such as a name, a path or a part of an error; case is ignored"}}}`,
			run: runContextSearch,
		},
	}
}

func runContextSearch(ctx context.Context, c Call) (Result, error) {
	words := strings.Fields(strings.ToLower(text(c.Arguments, "query")))
	if len(words) == 0 {
		return Result{Failed: true, Code: fault.InvalidParameters, Observation: fmt.Sprintf("error %s: the query has no words", fault.InvalidParameters)}, nil
	}
	found, err := c.Past.Search(ctx, words)
	if err != nil {
		return Result{}, err
	}
	var out strings.Builder
	shown := 0
	for _, f := range found {
		if f.StepID == c.StepID {
			continue // it has the words too
		}
		piece := fmt.Sprintf("turn %d, step %d: %s, %s\n%s\n", f.Turn, f.Number, f.Tool, f.State, lines(f, words))
		if out.Len()+len(piece) > searchBytes && shown > 0 {
			out.WriteString("[older steps have the words too: use more words]\n")
			break
		}
		out.WriteString(piece)
		shown++
	}
	if shown == 0 {
		out.WriteString("nothing in this task has all of these words: try fewer")
	}
	return Result{Observation: out.String(), Outcome: map[string]any{"steps": shown}}, nil
}

// lines returns the lines of a step that contain one of the words.
func lines(f StepHit, words []string) string {
	var out []string
	for _, line := range strings.Split(f.Arguments+"\n"+f.Observation, "\n") {
		low := strings.ToLower(line)
		at := -1
		for _, w := range words {
			if at = strings.Index(low, w); at >= 0 {
				break
			}
		}
		if at < 0 {
			continue
		}
		if len(out) == excerptLines {
			out = append(out, "  [...]")
			break
		}
		if len(line) > excerptLine {
			from := max(0, min(at, len(line))-excerptLine/3)
			line = "…" + strings.ToValidUTF8(line[from:min(len(line), from+excerptLine)], "") + "…"
		}
		out = append(out, "  "+line)
	}
	return strings.Join(out, "\n")
}
