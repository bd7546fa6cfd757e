package httprule_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/internal/httprule"
)

func allow(t testing.TB, text string) httprule.Rule {
	return httprule.Rule{Pattern: pattern(t, text), Effect: httprule.Allow}
}

func deny(t testing.TB, text string) httprule.Rule {
	return httprule.Rule{Pattern: pattern(t, text), Effect: httprule.Deny}
}

func tool(t testing.TB, text string) httprule.Rule {
	return httprule.Rule{Pattern: pattern(t, text), Effect: httprule.UseTool, Tool: "http_post"}
}

func TestADenyWinsOverAToolAndAToolOverAnAllow(t *testing.T) {
	t.Parallel()
	rules := []httprule.Rule{
		allow(t, "/repos/**"), tool(t, "POST /repos/**"), deny(t, "/repos/secret/**"),
		allow(t, "/p/{id%2F}"), deny(t, "/p/g/x"),
	}
	for request, want := range map[[2]string]httprule.Decision{
		{"GET", "/repos/o"}:        {Effect: httprule.Allow, Rule: "/repos/**"},
		{"POST", "/repos/o"}:       {Effect: httprule.UseTool, Rule: "POST /repos/**", Tool: "http_post", Reason: `POST /repos/o is not possible from a command (rule "POST /repos/**"); use the tool http_post`},
		{"POST", "/repos/secret"}:  {Rule: "/repos/secret/**", Reason: `the rule "/repos/secret/**" denies POST /repos/secret`},
		{"GET", "/repos/SECRET/a"}: {Rule: "/repos/secret/**", Reason: `the rule "/repos/secret/**" denies GET /repos/SECRET/a`},
		{"GET", "/p/g%2Fx"}:        {Rule: "/p/g/x", Reason: `the rule "/p/g/x" denies GET /p/g%2Fx`},
		{"GET", "/p/g%2Fy"}:        {Effect: httprule.Allow, Rule: "/p/{id%2F}"},
		{"PUT", "/other/a%2Fb/*"}:  {Reason: `no rule allows PUT /other/a%2Fb/*; a rule that would allow it is "PUT /other/{name%2F}/%2A"`, Suggestion: "PUT /other/{name%2F}/%2A"},
		{"get", "/repos/o"}:        {Reason: `"get" is not a method in upper-case letters`},
	} {
		for range 5 {
			require.Equal(t, want, httprule.Decide(rules, request[0], path(t, request[1]), nil), request)
			rules = append(rules[1:], rules[0])
		}
	}
}

func TestWithoutRulesOrAPathEverythingIsDenied(t *testing.T) {
	t.Parallel()
	require.Equal(t, httprule.Deny, httprule.Decide(nil, "GET", path(t, "/"), nil).Effect)
	require.Equal(t, httprule.Deny, httprule.Decide([]httprule.Rule{allow(t, "/**")}, "GET", httprule.Path{}, nil).Effect)
	require.Equal(t, httprule.Deny, httprule.Decision{}.Effect)
	unknown := httprule.Rule{Pattern: pattern(t, "/a"), Effect: 7}
	require.Equal(t, httprule.Deny, httprule.Decide([]httprule.Rule{allow(t, "/**"), unknown}, "GET", path(t, "/a"), nil).Effect)
}

func TestEachGraphQLOperationMustBeAllowed(t *testing.T) {
	t.Parallel()
	graphql := path(t, "/graphql")
	queries := []httprule.Rule{allow(t, "POST /graphql query"), allow(t, "/rest/**")}
	decide := func(rules []httprule.Rule, operations ...string) httprule.Decision {
		return httprule.Decide(rules, "POST", graphql, operations)
	}
	require.Equal(t, httprule.Allow, decide(queries, "query").Effect)
	require.Equal(t, httprule.Allow, decide(append(queries, allow(t, "/graphql mutation")), "mutation", "query").Effect)
	require.Equal(t, httprule.Allow, decide([]httprule.Rule{allow(t, "/graphql")}, "mutation").Effect)
	require.Equal(t, httprule.Decision{
		Reason:     `no rule allows POST /graphql with the GraphQL operation mutation; a rule that would allow it is "POST /graphql mutation"`,
		Suggestion: "POST /graphql mutation",
	}, decide(queries, "mutation", "query"))
	require.Contains(t, decide(queries).Reason, "was not read as GraphQL")

	denied := []httprule.Rule{allow(t, "/**"), deny(t, "/graphql mutation")}
	require.Equal(t, httprule.Allow, decide(denied, "query").Effect)
	require.Equal(t, httprule.Deny, decide(denied, "query", "mutation").Effect)
	require.Equal(t, httprule.Deny, decide(denied).Effect, "operations that are not known may be denied ones")

	require.True(t, httprule.NeedsOperations(denied, "POST", path(t, "/GraphQL/")))
	require.False(t, httprule.NeedsOperations(denied, "POST", path(t, "/rest")))
	require.False(t, httprule.NeedsOperations(queries, "GET", graphql))
}

// The order of rules decides nothing, and one more that denies never allows more.
func TestTheOrderOfRulesDoesNotMatter(t *testing.T) {
	t.Parallel()
	text := rapid.SampledFrom([]string{"/**", "GET /a", "/a/*", "POST /a/b", "/a/{x%2F}", "/a/**", "/g query", "/g mutation", "/g"})
	rule := rapid.Custom(func(rt *rapid.T) httprule.Rule {
		return httprule.Rule{Pattern: pattern(t, text.Draw(rt, "text")), Effect: rapid.SampledFrom([]httprule.Effect{httprule.Allow, httprule.Deny, httprule.UseTool}).Draw(rt, "effect")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		rules := rapid.SliceOfN(rule, 0, 6).Draw(rt, "rules")
		method := rapid.SampledFrom([]string{"GET", "POST", "HEAD"}).Draw(rt, "method")
		target := path(t, rapid.SampledFrom([]string{"/a", "/a/b", "/A/b", "/a/b%2Fc", "/g", "/"}).Draw(rt, "target"))
		operations := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"query", "mutation"}), rapid.ID).Draw(rt, "operations")
		effect := httprule.Decide(rules, method, target, operations).Effect
		shuffled := rapid.Permutation(rules).Draw(rt, "order")
		require.Equal(rt, effect, httprule.Decide(shuffled, method, target, operations).Effect)
		stricter := rule.Draw(rt, "more")
		if stricter.Effect != httprule.Allow {
			after := httprule.Decide(append(slices.Clone(rules), stricter), method, target, operations).Effect
			require.True(rt, after == effect || after == stricter.Effect)
		}
	})
}
