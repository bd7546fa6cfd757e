package search

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	maxTerms = 20
	// minPrefix is how many characters a word has at least whose longer forms are
	// found too.
	minPrefix = 3
)

// term is what has to occur: a word, or words that follow one another.
type term struct {
	words []string
	// prefix says that longer forms of the last word are found too.
	prefix bool
}

// Query is what somebody looks for.
type Query struct {
	terms []term
	// Kinds, Tool, Agent, Task and States are empty where the query does not say.
	Kinds       []string
	Tool        string
	Agent, Task string
	States      []string
	// CostOver is what the task cost more than, in micro-dollars; nil for any.
	CostOver *int64
	// Since and Until bound the time; nil for no bound.
	Since, Until *time.Time
}

// filters are the words before a colon that are not looked for, with an example.
var filters = []string{"agent:coder", "tool:shell_exec", "in:output", "task:task_3q9", "state:failed", "cost:>1.50", "after:2026-11-01", "before:2026-12-01"}

// Parse reads a query: words, of which all have to occur; words in double quotes, which
// have to follow one another; and filters such as agent:coder. A word that is not quoted
// also finds longer ones that begin with it. The other colons are part of the text. The
// error is a fault.Error that names the part that is wrong.
func Parse(text string) (Query, error) {
	var q Query
	for _, piece := range pieces(text) {
		key, value, has := strings.Cut(piece.text, ":")
		if has && !piece.quoted && slices.ContainsFunc(filters, func(f string) bool { return strings.HasPrefix(f, key+":") }) {
			if err := q.filter(key, strings.Trim(value, `"`)); err != nil {
				return Query{}, err
			}
			continue
		}
		t := term{prefix: !piece.quoted}
		for _, w := range wordsOf(piece.text) {
			t.words = append(t.words, w.text)
		}
		if len(t.words) == 0 {
			continue
		}
		t.prefix = t.prefix && utf8.RuneCountInString(t.words[len(t.words)-1]) >= minPrefix
		q.terms = append(q.terms, t)
	}
	switch {
	case len(q.terms) == 0:
		return Query{}, invalid("query", "has no word to look for", `give a word, for example: "no space left" agent:coder`)
	case len(q.terms) > maxTerms:
		return Query{}, invalid("query", fmt.Sprintf("has %d words and phrases", len(q.terms)), fmt.Sprintf("give at most %d", maxTerms))
	}
	return q, nil
}

func invalid(what, is, fix string) error {
	return fault.New(fault.Invalid, "%s %s", what, is).WithCode(fault.InvalidParameters).WithFix("%s", fix)
}

func (q *Query) filter(key, value string) error {
	if value == "" {
		i := slices.IndexFunc(filters, func(f string) bool { return strings.HasPrefix(f, key+":") })
		return invalid(key+":", "has no value", "write it without a space, for example "+filters[i])
	}
	switch key {
	case "agent":
		q.Agent = value
	case "tool":
		q.Tool = strings.ToLower(value)
	case "task":
		q.Task = value
	case "in":
		kind := strings.TrimSuffix(strings.ToLower(value), "s")
		if kind == "command" {
			kind = Call
		}
		if !slices.Contains(Kinds, kind) {
			return invalid("in:"+value, "is not a kind of text that is searched", "use in:"+strings.Join(Kinds, ", in:"))
		}
		q.Kinds = append(q.Kinds, kind)
	case "state":
		states := task.States()
		if !slices.Contains(states, strings.ToLower(value)) {
			return invalid("state:"+value, "is not a state of a task", "use one of: "+strings.Join(states, ", "))
		}
		q.States = append(q.States, strings.ToLower(value))
	case "cost":
		dollars, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimPrefix(value, ">"), "$"), 64)
		if err != nil || dollars < 0 || dollars > 1e9 || math.IsNaN(dollars) {
			return invalid("cost:"+value, "is not an amount", "write US dollars, for example cost:>1.50")
		}
		over := int64(math.Round(dollars * 1e6))
		q.CostOver = &over
	case "after", "before":
		at, err := time.Parse(time.DateOnly, value)
		if err != nil {
			if at, err = time.Parse(time.RFC3339, value); err != nil {
				return invalid(key+":"+value, "is not a day", "write year-month-day, for example "+key+":2026-11-01")
			}
		}
		if key == "after" {
			q.Since = &at
		} else {
			q.Until = &at
		}
	}
	return nil
}

// tsquery returns the query as PostgreSQL reads it.
func (q Query) tsquery(marks ...string) string {
	var all []string
	for _, mark := range marks {
		all = append(all, lexeme(mark))
	}
	for _, t := range q.terms {
		words := make([]string, len(t.words))
		for i, w := range t.words {
			if words[i] = lexeme(w); t.prefix && i == len(words)-1 {
				words[i] += ":*"
			}
		}
		all = append(all, "("+strings.Join(words, " <-> ")+")")
	}
	return strings.Join(all, " & ")
}

// piece is a part of a query between spaces, or between quotes.
type piece struct {
	text   string
	quoted bool
}

// pieces splits a query. A quote that is not closed reaches to the end; a filter's value
// may be quoted.
func pieces(text string) (out []piece) {
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return out
		}
		if rest, quoted := strings.CutPrefix(text, `"`); quoted {
			inside, after, _ := strings.Cut(rest, `"`)
			out = append(out, piece{inside, true})
			text = after
			continue
		}
		end, open := len(text), false
		for i, r := range text {
			if r == '"' && (open || strings.HasSuffix(text[:i], ":")) {
				open = !open
			} else if unicode.IsSpace(r) && !open {
				end = i
				break
			}
		}
		out = append(out, piece{text: text[:end]})
		text = text[end:]
	}
}
