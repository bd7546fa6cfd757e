package gitpush_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/gitpush"
)

func TestAStarSpansSlashes(t *testing.T) {
	t.Parallel()
	for pattern, refs := range map[string]string{
		"refs/heads/deckhand/*":   "refs/heads/deckhand/a refs/heads/deckhand/a/b/c !refs/heads/deckhand !refs/heads/deckhands/a !refs/heads/Deckhand/a",
		"refs/heads/main":         "refs/heads/main !refs/heads/main/a !refs/heads/mainly !refs/tags/main",
		"refs/heads/*/fix":        "refs/heads/a/fix refs/heads/a/b/fix !refs/heads/fix !refs/heads/a/fixes",
		"refs/tags/*":             "refs/tags/v1 !refs/heads/v1",
		"refs/heads/release-*-rc": "refs/heads/release-1-rc refs/heads/release--rc !refs/heads/release-rc",
	} {
		rule := gitpush.Rule{Ref: pattern, Rights: []gitpush.Right{gitpush.Create}}
		require.NoError(t, rule.Check(), pattern)
		for ref := range strings.FieldsSeq(refs) {
			name, not := strings.CutPrefix(ref, "!")
			require.Equal(t, !not, rule.Matches(name), "%s %s", pattern, ref)
		}
	}
}

func TestARuleThatIsNotValidIsExplained(t *testing.T) {
	t.Parallel()
	rights := []gitpush.Right{gitpush.Create}
	require.NoError(t, gitpush.DefaultRules().Check())
	for want, rules := range map[string]gitpush.Rules{
		"ref \"\": it is missing: write a branch such as refs/heads/main":                           {{Rights: rights}},
		"write the full name: refs/heads/main for a branch, refs/tags/main for a tag":               {{Ref: "main", Rights: rights}},
		"write refs/tags/*: one * spans slashes":                                                    {{Ref: "refs/tags/**", Rights: rights}},
		"only one * is allowed: write a rule for each pattern":                                      {{Ref: "refs/*/a/*", Rights: rights}},
		"it contains two dots in a row: write a branch":                                             {{Ref: "refs/heads/a..b", Rights: rights}},
		"it contains '[', which git does not allow":                                                 {{Ref: "refs/heads/[ab]", Rights: rights}},
		"rights are missing: use some of create, update, force, delete":                             {{Ref: "refs/heads/a"}},
		"\"push\" is not a right: use some of create, update, force, delete":                        {{Ref: "refs/heads/a", Rights: []gitpush.Right{"push"}}},
		"the right create is named twice":                                                           {{Ref: "refs/heads/a", Rights: []gitpush.Right{"create", "create"}}},
		"rule 2 for pushes, ref \"refs/heads/a\": an earlier rule has the same ref: write one rule": {{Ref: "refs/heads/a", Rights: rights}, {Ref: "refs/heads/a", Rights: rights}},
		"there are 257 rules for pushes: at most 256 are allowed":                                   make(gitpush.Rules, 257),
	} {
		require.ErrorContains(t, rules.Check(), want)
	}
}

func TestEachRightIsSeparate(t *testing.T) {
	t.Parallel()
	const a, b = "aa", "bb"
	updates := map[string]gitpush.Update{
		"create": {Ref: "refs/heads/x", New: a},
		"update": {Ref: "refs/heads/x", Old: a, New: b},
		"force":  {Ref: "refs/heads/x", Old: a, New: b},
		"delete": {Ref: "refs/heads/x", Old: a},
	}
	for right, allowed := range map[gitpush.Right]string{
		gitpush.Create: "create", gitpush.FastForward: "update", gitpush.Force: "update force", gitpush.Delete: "delete",
	} {
		rules := gitpush.Rules{{Ref: "refs/heads/*", Rights: []gitpush.Right{right}}}
		for what, u := range updates {
			ok, reason := rules.Decide(u, what == "update")
			require.Equal(t, strings.Contains(allowed, what), ok, "%s with %s", what, right)
			require.Equal(t, ok, reason == "")
			if ok {
				continue
			}
			// The rule that the reason names allows the update.
			_, named, _ := strings.Cut(reason, "{ref: refs/heads/x, rights: [")
			named, _, _ = strings.Cut(named, "]")
			more := gitpush.Rules{{Ref: "refs/heads/x", Rights: []gitpush.Right{gitpush.Right(named)}}}
			require.NoError(t, more.Check())
			ok, _ = append(rules, more...).Decide(u, what == "update")
			require.True(t, ok || what == "force" && strings.HasSuffix(reason, "or with force if this is not a fast-forward"), reason)
		}
	}
	// To set a reference to what it is already needs no proof.
	rules := gitpush.Rules{{Ref: "refs/heads/*", Rights: []gitpush.Right{gitpush.FastForward}}}
	same := gitpush.Update{Ref: "refs/heads/x", Old: a, New: a}
	require.False(t, rules.NeedsProof(same))
	ok, _ := rules.Decide(same, false)
	require.True(t, ok)
	require.True(t, rules.NeedsProof(updates["update"]))
}

func TestARuleIsReadAsAPersonaHasIt(t *testing.T) {
	t.Parallel()
	rules, err := gitpush.ParseRules([]string{"refs/heads/deckhand/* create,update", " refs/tags/*\tdelete "})
	require.NoError(t, err)
	require.Equal(t, gitpush.Rules{
		{Ref: "refs/heads/deckhand/*", Rights: []gitpush.Right{gitpush.Create, gitpush.FastForward}},
		{Ref: "refs/tags/*", Rights: []gitpush.Right{gitpush.Delete}},
	}, rules)
	require.Equal(t, "refs/heads/deckhand/* create,update", rules[0].String())
	rules, err = gitpush.ParseRules(nil)
	require.NoError(t, err)
	require.Equal(t, gitpush.DefaultRules(), rules)
	for text, want := range map[string]string{
		"":                            "is not a reference and its rights: write it like",
		"refs/heads/a":                "is not a reference and its rights",
		"deny refs/heads/a create":    "is not a reference and its rights",
		"refs/heads/a create,":        `"" is not a right: use some of create, update, force, delete`,
		"main create":                 "write the full name: refs/heads/main",
		"refs/heads/a create,destroy": `"destroy" is not a right`,
	} {
		_, err := gitpush.ParseRule(text)
		require.ErrorContains(t, err, want, text)
	}
	_, err = gitpush.ParseRules([]string{"refs/heads/a create", "refs/heads/a update"})
	require.ErrorContains(t, err, "an earlier rule has the same ref")
}
