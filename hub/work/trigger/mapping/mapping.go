// Package mapping evaluates the CEL expressions of triggers: a Program decides whether a
// delivery starts a task, and makes the agent's prompt of it. Payloads are hostile: an
// expression has a limit of cost and of time, values from a payload are put into the
// prompt between marks that every agent treats as data, and a failure is returned as an
// error and never stops a hub.
package mapping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// costLimit limits one expression, in CEL's own units: about one for each value that
	// is read.
	costLimit = 2_000_000
	// timeLimit bounds one delivery's expressions together, however slow the
	// machine.
	timeLimit     = 5 * time.Second
	checkEvery    = 100
	maxExpression = 4000
	// MaxPrompt is the longest goal that a task may have, in characters.
	MaxPrompt = 10_000
	// maxValue is the length in characters at which a value in a prompt is cut.
	maxValue = 4000
	maxKey   = 200
)

// Source is what a person writes.
type Source struct {
	// Filter evaluates to a bool; empty for true.
	Filter string
	// Mapping are names for values.
	Mapping map[string]string
	// Goal is a text with {{ }}.
	Goal string
	// Flight is a text with {{ }}; empty for none.
	Flight string
	// Key evaluates to what distinguishes deliveries; empty for none.
	Key string
}

// Input is what came in.
type Input struct {
	// Payload is the result of Payload.
	Payload any
	Headers map[string]string
	Event   string
}

// Output is the result of a mapping.
type Output struct {
	Matched bool
	// Mapped are the mapping's values, as JSON has them.
	Mapped map[string]any
	Prompt string
	Flight string
}

// Program is a compiled Source. It is safe for use by many goroutines.
type Program struct {
	filter cel.Program
	names  []string
	// filtered are those of names that the filter has.
	filtered []string
	mapped   map[string]cel.Program
	goal     template
	flight   template
	key      cel.Program
	source   Source
}

// variables are what every expression sees.
var variables = []string{"payload", "headers", "event"}

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

func environment(names []string) (*cel.Env, error) {
	options := append(texts(),
		cel.Variable("payload", cel.DynType), cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("event", cel.StringType), cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(50), cel.ParserExpressionSizeLimit(maxExpression),
	)
	for _, name := range names {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	return cel.NewCustomEnv(options...)
}

// Compile reads a Source. Its error names what is wrong, and where.
func Compile(s Source) (*Program, error) {
	p := &Program{names: slices.Sorted(maps.Keys(s.Mapping)), mapped: map[string]cel.Program{}, source: s}
	for _, name := range p.names {
		if !identifier.MatchString(name) || slices.Contains(variables, name) {
			return nil, fmt.Errorf("mapping has the name %q: use lower-case letters, digits and underscores, and not %s", name, strings.Join(variables, ", "))
		}
	}
	plain, err := environment(nil)
	if err != nil {
		return nil, fmt.Errorf("make the environment of CEL: %w", err)
	}
	for _, name := range p.names {
		if p.mapped[name], err = compile(plain, "mapping."+name, s.Mapping[name], nil); err != nil {
			return nil, err
		}
	}
	named, err := environment(p.names)
	if err != nil {
		return nil, fmt.Errorf("mapping has a name that CEL keeps for itself: %w", err)
	}
	if s.Filter != "" {
		if p.filter, err = compile(named, "filter", s.Filter, cel.BoolType); err != nil {
			return nil, err
		}
		p.filtered = slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return !word(name).MatchString(s.Filter) })
	}
	if s.Key != "" {
		if p.key, err = compile(plain, "dedupe_key", s.Key, nil); err != nil {
			return nil, err
		}
	}
	if p.goal, err = parse(named, "goal", s.Goal); err != nil {
		return nil, err
	}
	if p.flight, err = parse(named, "single_flight", s.Flight); err != nil {
		return nil, err
	}
	return p, nil
}

// word returns an expression that matches a name as a whole word.
func word(name string) *regexp.Regexp {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
}

// compile reads one expression; of a type, or nil for any.
func compile(env *cel.Env, field, text string, want *cel.Type) (cel.Program, error) {
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("%s is not CEL: %s", field, firstLine(err))
	}
	if got := ast.OutputType(); want != nil && !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("%s answers %s: it must answer %s", field, got, want)
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(checkEvery), cel.CostTracking(costs{}))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %s", field, firstLine(err))
	}
	return program, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "ERROR: <input>:"), "\n")
	return bounded(line, 300)
}

// eval returns an expression's value. What the library panics with is an error
// too: the payload may have been made for it.
func eval(ctx context.Context, field string, p cel.Program, vars map[string]any) (v ref.Val, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("%s cannot be worked out: %v", field, r)
		}
	}()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s and what is worked out before it take longer than %s: make them simpler", field, timeLimit)
	}
	v, _, err = p.ContextEval(ctx, vars)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s takes longer than %s: make it simpler", field, timeLimit)
	case err != nil && strings.Contains(err.Error(), "cost limit"):
		return nil, fmt.Errorf("%s costs more than %d steps: make it simpler", field, costLimit)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be worked out: %s", field, firstLine(err))
	case types.IsUnknownOrError(v):
		return nil, fmt.Errorf("%s cannot be worked out: %s", field, bounded(fmt.Sprint(v), 300))
	}
	return v, nil
}

func (in Input) variables() map[string]any {
	headers := in.Headers
	if headers == nil {
		headers = map[string]string{}
	}
	return map[string]any{"payload": in.Payload, "headers": headers, "event": in.Event}
}

// Run maps what came in.
func (p *Program) Run(ctx context.Context, in Input) (Output, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	vars := in.variables()
	out := Output{Matched: true, Mapped: map[string]any{}}
	// A delivery that the filter rejects is rejected even if a name's value cannot be
	// computed: only the names that the filter uses are evaluated before.
	mapped := map[string]any{}
	work := func(name string) error {
		if _, done := mapped[name]; done {
			return nil
		}
		v, err := eval(ctx, "mapping."+name, p.mapped[name], vars)
		if err != nil {
			return err
		}
		mapped[name] = v
		if out.Mapped[name], err = plain(v, maxDepth); err != nil {
			return fmt.Errorf("mapping.%s: %w", name, err)
		}
		return nil
	}
	if p.filter != nil {
		for _, name := range p.filtered {
			if err := work(name); err != nil {
				return out, err
			}
		}
		v, err := eval(ctx, "filter", p.filter, merged(vars, mapped))
		if err != nil {
			return out, err
		}
		yes, ok := v.(types.Bool)
		if !ok {
			return out, fmt.Errorf("filter answers %s: it must answer true or false", v.Type().TypeName())
		}
		if out.Matched = bool(yes); !out.Matched {
			return out, nil
		}
	}
	for _, name := range p.names {
		if err := work(name); err != nil {
			return out, err
		}
	}
	vars = merged(vars, mapped)
	var err error
	if out.Prompt, err = p.goal.render(ctx, "goal", vars, Fence); err != nil {
		return out, err
	}
	if n := utf8.RuneCountInString(out.Prompt); n > MaxPrompt {
		return out, fmt.Errorf("goal has %d characters once its values are in it: %d are the most, take fewer of them", n, MaxPrompt)
	}
	out.Flight, err = p.flight.render(ctx, "single_flight", vars, func(s string) string { return bounded(s, maxKey) })
	out.Flight = bounded(out.Flight, maxKey)
	return out, err
}

func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// Key returns what distinguishes a delivery; empty if the source has nothing for it.
func (p *Program) Key(ctx context.Context, in Input) (string, error) {
	if p.key == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	v, err := eval(ctx, "dedupe_key", p.key, in.variables())
	if err != nil {
		return "", err
	}
	text, err := text(v)
	return bounded(text, maxKey), err
}

// HasKey reports whether Key needs the payload.
func (p *Program) HasKey() bool { return p.key != nil }

// template is a text with values in it.
type template []part

type part struct {
	text  string
	value cel.Program
}

// parse reads a text with {{ }}.
func parse(env *cel.Env, field, text string) (template, error) {
	var out template
	for {
		before, rest, found := strings.Cut(text, "{{")
		if before != "" {
			out = append(out, part{text: before})
		}
		if !found {
			return out, nil
		}
		inside, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, fmt.Errorf("%s has {{ without }}: close it", field)
		}
		if strings.TrimSpace(inside) == "" {
			return nil, fmt.Errorf("%s has {{ }} with nothing inside: put CEL there, such as {{ payload.title }}", field)
		}
		value, err := compile(env, fmt.Sprintf("%s {{ %s }}", field, bounded(strings.TrimSpace(inside), 60)), inside, nil)
		if err != nil {
			return nil, err
		}
		out, text = append(out, part{value: value}), after
	}
}

func (t template) render(ctx context.Context, field string, vars map[string]any, insert func(string) string) (string, error) {
	var out strings.Builder
	for _, p := range t {
		if p.value == nil {
			out.WriteString(p.text)
			continue
		}
		v, err := eval(ctx, field, p.value, vars)
		if err != nil {
			return "", err
		}
		value, err := text(v)
		if err != nil {
			return "", fmt.Errorf("%s: %w", field, err)
		}
		out.WriteString(insert(value))
	}
	return out.String(), nil
}

// text returns a value as people write it: texts as they are, others as JSON.
func text(v ref.Val) (string, error) {
	out, err := plain(v, maxDepth)
	if err != nil {
		return "", err
	}
	if s, ok := out.(string); ok {
		return clean(s), nil
	}
	var buf strings.Builder
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return "", errors.New("a value is not one that JSON has")
	}
	return clean(strings.TrimSpace(buf.String())), nil
}

// plain returns a value as JSON has it.
func plain(v ref.Val, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("a value is nested deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		if f := float64(v); f-f == 0 {
			return f, nil
		}
		return fmt.Sprint(float64(v)), nil
	case types.String:
		return strings.ToValidUTF8(string(v), "�"), nil
	case types.Bytes:
		return strings.ToValidUTF8(string(v), "�"), nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return plain(v.GetValue(), depth-1)
	case traits.Mapper:
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			inner, err := plain(v.Get(k), depth-1)
			if err != nil {
				return nil, err
			}
			out[fmt.Sprint(k.Value())] = inner
		}
		return out, nil
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			inner, err := plain(it.Next(), depth-1)
			if err != nil {
				return nil, err
			}
			out = append(out, inner)
		}
		return out, nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.Duration.String(), nil
	}
	return nil, fmt.Errorf("a value is a %s, which has no text", v.Type().TypeName())
}

// fenceMark is what in a text could be taken for the marks themselves.
var fenceMark = regexp.MustCompile(`(?i)<(\s*/?\s*(?:tool_output|operator_message))`)

// Fence marks a value as data, with the marks that every agent knows.
func Fence(value string) string {
	value = fenceMark.ReplaceAllString(bounded(value, maxValue), `<\$1`)
	if strings.Contains(value, "\n") {
		value = "\n" + value + "\n"
	}
	return `<tool_output tool="trigger">` + value + `</tool_output>`
}

// clean takes out what has no place in a text: control characters, and those
// that turn the direction of what follows.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, s)
}

// bounded cuts a text to a number of characters, and marks the cut.
func bounded(s string, most int) string { return textcut.Runes(s, most, "…") }
