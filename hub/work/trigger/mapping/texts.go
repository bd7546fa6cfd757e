package mapping

import (
	"context"
	"errors"
	"regexp/syntax"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/deckhand-sh/deckhand/internal/grep"
)

// CEL adds the cost of a call after it was made, and a payload and a pattern may be
// chosen so that one call never ends or takes all memory. The functions on texts
// therefore check their arguments first.

const (
	// maxText is how long a text may be that a function reads or makes, in bytes.
	maxText = 256 << 10
	// maxSteps is how many instructions of a pattern may be run in one call, each
	// some nanoseconds.
	maxSteps = 4_000_000
	// stepsPerCost is how many steps cost one unit of costLimit.
	stepsPerCost = 10
	// bytesPerCost is the same of bytes that are read or made.
	bytesPerCost = 10
)

// texts returns CEL's standard library and its functions on texts, with limits.
func texts() []cel.EnvOption {
	text, list := cel.StringType, cel.ListType(cel.StringType)
	matches := cel.BinaryBinding(func(subject, pattern ref.Val) ref.Val { return match(subject, pattern) })
	return []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction("matches")))),
		cel.Function("matches", cel.Overload("matches_pattern", []*cel.Type{text, text}, cel.BoolType, matches),
			cel.MemberOverload("text_matches_pattern", []*cel.Type{text, text}, cel.BoolType, matches)),
		ext.Strings(ext.StringsVersion(0)), // later versions have format, whose cost is not known beforehand
		cel.Function("replace",
			cel.MemberOverload("string_replace_string_string", []*cel.Type{text, text, text}, text, cel.FunctionBinding(replace)),
			cel.MemberOverload("string_replace_string_string_int", []*cel.Type{text, text, text, cel.IntType}, text, cel.FunctionBinding(replace))),
		cel.Function("split",
			cel.MemberOverload("string_split_string", []*cel.Type{text, text}, list, cel.FunctionBinding(split)),
			cel.MemberOverload("string_split_string_int", []*cel.Type{text, text, cel.IntType}, list, cel.FunctionBinding(split))),
		cel.Function("join",
			cel.MemberOverload("list_join", []*cel.Type{list}, text, cel.UnaryBinding(func(l ref.Val) ref.Val { return join(l) })),
			cel.MemberOverload("list_join_string", []*cel.Type{list, text}, text, cel.FunctionBinding(join))),
	}
}

func tooLong(function string) ref.Val {
	return types.NewErr("%s takes and makes texts of up to %d bytes", function, maxText)
}

// pattern is a compiled regular expression, or why it does not compile.
type pattern struct {
	re  *grep.Expression
	err ref.Val
}

// patterns are those that were used last: a pattern is compiled once, however
// many deliveries it is tried on.
var patterns = func() *lru.Cache[string, pattern] {
	const kept = 512
	c, _ := lru.New[string, pattern](kept) // the only error is for a size below 1
	return c
}()

func patternOf(text string) pattern {
	if p, ok := patterns.Get(text); ok {
		return p
	}
	var p pattern
	var err error
	if p.re, err = grep.Compile(text); err != nil {
		p.err = types.NewErr("matches has an invalid pattern: %s", err)
		if wrong := (*syntax.Error)(nil); errors.As(err, &wrong) {
			p.err = types.NewErr("matches has an invalid pattern: %s", wrong)
		}
	}
	patterns.Add(text, p)
	return p
}

func match(subject, of ref.Val) ref.Val {
	s, ok1 := subject.(types.String)
	text, ok2 := of.(types.String)
	if !ok1 || !ok2 {
		return types.MaybeNoSuchOverloadErr(subject)
	}
	if len(text) > maxExpression {
		return types.NewErr("matches has a pattern of %d bytes, and %d are the most", len(text), maxExpression)
	}
	p := patternOf(string(text))
	if p.err != nil {
		return p.err
	}
	if n := p.re.Size(); n*len(s) > maxSteps {
		return types.NewErr("matches would try a pattern of %d instructions on a text of %d bytes, which is too costly: look for it with contains, or in a part of the text", n, len(s))
	}
	found, err := p.re.Match(context.Background(), []byte(s)) // it ends, for it is bounded
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(found)
}

// strs returns the leading texts of a call's arguments, and the number behind them; -1 if
// there is none.
func strs(args []ref.Val) (out []string, n int, ok bool) {
	n = -1
	for _, a := range args {
		switch a := a.(type) {
		case types.String:
			out = append(out, string(a))
		case types.Int:
			n = int(a)
		default:
			return nil, 0, false
		}
	}
	return out, n, true
}

func replace(args ...ref.Val) ref.Val {
	s, n, ok := strs(args)
	if !ok || len(s) != 3 { //nolint:mnd // the text, what is replaced, and by what
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	if len(s[0]) > maxText {
		return tooLong("replace")
	}
	places := strings.Count(s[0], s[1])
	if n >= 0 {
		places = min(places, n)
	}
	if len(s[0])+places*(len(s[2])-len(s[1])) > maxText {
		return tooLong("replace")
	}
	return types.String(strings.Replace(s[0], s[1], s[2], n))
}

func split(args ...ref.Val) ref.Val {
	s, n, ok := strs(args)
	if !ok || len(s) != 2 { //nolint:mnd // the text and what is between its parts
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	if len(s[0]) > maxText {
		return tooLong("split")
	}
	return types.NewStringList(types.DefaultTypeAdapter, strings.SplitN(s[0], s[1], n))
}

func join(args ...ref.Val) ref.Val {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	between, _, ok := strs(args[1:])
	if !ok {
		return types.NewErr("join takes a text to put between")
	}
	separator := strings.Join(between, "")
	var out strings.Builder
	for it := list.Iterator(); it.HasNext() == types.True; {
		item, ok := it.Next().(types.String)
		if !ok {
			return types.NewErr("join takes a list of texts")
		}
		if out.Len()+len(separator)+len(item) > maxText {
			return tooLong("join")
		}
		if out.Len() > 0 {
			out.WriteString(separator)
		}
		out.WriteString(string(item))
	}
	return types.String(out.String())
}

// costs computes the cost of calls that read or create texts.
type costs struct{}

var _ cost.ActualCostEstimator = costs{}

// CallCost returns a call's cost; nil for CEL's own estimate.
func (costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	size := func(v ref.Val) uint64 {
		s, _ := v.(types.String)
		return uint64(len(s))
	}
	var n uint64
	switch function {
	case "matches":
		if len(args) == 2 { //nolint:mnd // the text and the pattern
			if n = 1; types.IsBool(result) { // or it was refused, and cost nothing
				text, _ := args[1].(types.String)
				n += size(args[0]) * uint64(patternOf(string(text)).re.Size()) / stepsPerCost //nolint:gosec // a few thousand
			}
		}
	case "replace", "split", "join", "lowerAscii", "upperAscii", "trim", "substring", "indexOf", "lastIndexOf", "charAt", "contains":
		n = 1 + size(result)/bytesPerCost
		for _, a := range args {
			n += size(a) / bytesPerCost
		}
	}
	if n == 0 {
		return nil
	}
	return &n
}
