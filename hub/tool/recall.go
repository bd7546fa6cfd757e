package tool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// StepSearcher is the task's own history, for tools that look things up in it.
type StepSearcher interface {
	// Steps returns the task's steps that contain all words, in lower case, newest first.
	Steps(ctx context.Context, words []string) ([]StepHit, error)
	// Outputs returns places in outputs that were shortened which have one of the words, and
	// how many of those outputs could not be read.
	Outputs(ctx context.Context, words []string) (found []StepHit, unread int, err error)
}

// StepHit is a step, or a place in its output, that a search found.
type StepHit struct {
	StepID       string
	Number, Turn int32
	Tool, State  string
	// Text is the step's arguments and its result, or the place with the lines around it.
	// Secrets in it are masked.
	Text string
	// Output reports that Text is of the step's output, in which it begins at Offset.
	Output bool
	Offset int64
}

// ShownOutput is how many bytes of a command's output a result shows at most.
const ShownOutput = headBytes + tailBytes

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
			Kind:     KindWork,
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
			Description: "Search everything that you did and saw in this task, including what is no longer in your context and the whole of outputs that were shortened. " +
				"Returns the steps whose arguments or results contain all the words, with the lines that have them: first those where the words are close to each other. " +
				`Example: {"query": "connection refused 5432"}.`,
			Kind: KindSearch, Expected: time.Second, Retryable: true,
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
	found, err := c.Past.Steps(ctx, words)
	if err != nil {
		return Result{}, err
	}
	outputs, unread, err := c.Past.Outputs(ctx, words)
	if err != nil {
		return Result{}, err
	}
	hits := rank(append(found, outputs...), words, c.StepID)
	var out strings.Builder
	shown := 0
	for _, h := range hits {
		where := ""
		if h.Output {
			where = fmt.Sprintf(", in its output; to read on: %s {\"job\": %q, \"offset\": %d}", toolname.JobOutput, h.StepID, h.Offset)
		}
		piece := fmt.Sprintf("turn %d, step %d: %s, %s%s\n%s\n", h.Turn, h.Number, h.Tool, h.State, where, linesWith(h.Text, words))
		if out.Len()+len(piece) > searchBytes && shown > 0 {
			fmt.Fprintf(&out, "[%d more places have the words, further apart or older: use more words]\n", len(hits)-shown)
			break
		}
		out.WriteString(piece)
		shown++
	}
	if shown == 0 {
		out.WriteString("nothing in this task has all of these words: try fewer\n")
	}
	if unread > 0 {
		fmt.Fprintf(&out, "[%d long outputs could not be searched: their node is not connected, or they are deleted]\n", unread)
	}
	return Result{Observation: strings.TrimSuffix(out.String(), "\n"), Outcome: map[string]any{"steps": shown}}, nil
}

// rank returns the hits that have all words, those in which the words are closest to each
// other first, of equal ones the newest, without the search's own step. Places of one output
// that overlap are one hit.
func rank(hits []StepHit, words []string, own string) []StepHit {
	spans := map[int]int{}
	var order []int
	last := map[string]int64{}
	for i, h := range hits {
		if end, seen := last[h.StepID]; h.StepID == own || h.Output && seen && h.Offset < end {
			continue
		}
		span, all := closest(strings.ToLower(h.Text), words)
		if !all {
			continue
		}
		if h.Output {
			last[h.StepID] = h.Offset + int64(len(h.Text))
		}
		// Where the words lie within a line's length of each other, only the age counts.
		spans[i] = span / excerptLine
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(spans[a], spans[b]), cmp.Compare(hits[b].Number, hits[a].Number))
	})
	out := make([]StepHit, len(order))
	for i, at := range order {
		out[i] = hits[at]
	}
	return out
}

// closest returns the length of the shortest piece of a text, in lower case, that has all
// words; false if it has not.
func closest(text string, words []string) (span int, all bool) {
	next := make([]int, len(words)) // where each word is, at or after the piece's begin
	for i, w := range words {
		if next[i] = strings.Index(text, w); next[i] < 0 {
			return 0, false
		}
	}
	for span = len(text); ; {
		first, end := 0, 0
		for i, w := range words {
			if next[i] < next[first] {
				first = i
			}
			end = max(end, next[i]+len(w))
		}
		span = min(span, end-next[first])
		further := strings.Index(text[next[first]+1:], words[first])
		if further < 0 {
			return span, true
		}
		next[first] += 1 + further
	}
}

// linesWith returns the lines of a text that contain one of the words.
func linesWith(text string, words []string) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
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
