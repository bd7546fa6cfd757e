package gitpush

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Right is something that a rule allows to do with a reference.
type Right string

// The rights. Update does not include Create, and none includes Delete.
const (
	// Create allows to create a reference.
	Create Right = "create"
	// FastForward allows to fast-forward a reference that exists.
	FastForward Right = "update"
	// Force allows any change of a reference that exists, fast-forward or not.
	Force Right = "force"
	// Delete allows to delete a reference.
	Delete Right = "delete"
)

var allRights = []Right{Create, FastForward, Force, Delete}

// ParseRule parses a rule as a persona has it: a reference and its rights, such as
//
//	refs/heads/deckhand/* create,update
//
// What is wrong with it is an error that says how to correct it.
func ParseRule(text string) (Rule, error) {
	words := strings.Fields(text)
	if len(words) != 2 {
		return Rule{}, fmt.Errorf("the rule for pushes %.100q is not a reference and its rights: write it like \"refs/heads/deckhand/* create,update\"", text)
	}
	out := Rule{Ref: words[0]}
	for right := range strings.SplitSeq(words[1], ",") {
		out.Rights = append(out.Rights, Right(right))
	}
	if err := out.Check(); err != nil {
		return Rule{}, fmt.Errorf("the rule for pushes %.100q: %w", text, err)
	}
	return out, nil
}

// ParseRules parses rules, and checks them together. None are DefaultRules.
func ParseRules(texts []string) (Rules, error) {
	if len(texts) == 0 {
		return DefaultRules(), nil
	}
	var out Rules
	for _, text := range texts {
		rule, err := ParseRule(text)
		if err != nil {
			return nil, err
		}
		out = append(out, rule)
	}
	return out, out.Check()
}

// String returns the rule as ParseRule reads it.
func (r Rule) String() string {
	return r.Ref + " " + strings.ReplaceAll(rightList(r.Rights), ", ", ",")
}

// MaxRules is the number of rules that a list may have.
const MaxRules = 256

// Rule gives rights on references.
type Rule struct {
	// Ref is the full name of a reference, or a pattern with one *. As in a git
	// refspec, * stands for any text, slashes included: refs/heads/deckhand/*
	// matches refs/heads/deckhand/fix and refs/heads/deckhand/task/7.
	Ref string
	// Rights are those that the rule gives.
	Rights []Right
}

// Rules give the rights of all rules that match a reference. What no rule gives is
// refused. They are not changed once they are in use.
type Rules []Rule

// DefaultRules returns the rules for a persona that has none of its own: branches
// below deckhand/ may be created and updated.
func DefaultRules() Rules {
	return Rules{{Ref: "refs/heads/deckhand/*", Rights: []Right{Create, FastForward}}}
}

// Check says what is wrong with the rules, and how to correct it.
func (rs Rules) Check() error {
	if len(rs) > MaxRules {
		return fmt.Errorf("there are %d rules for pushes: at most %d are allowed", len(rs), MaxRules)
	}
	for i, r := range rs {
		if err := r.Check(); err != nil {
			return fmt.Errorf("rule %d for pushes, ref %.100q: %w", i+1, r.Ref, err)
		}
		if slices.ContainsFunc(rs[:i], func(o Rule) bool { return o.Ref == r.Ref }) {
			return fmt.Errorf("rule %d for pushes, ref %.100q: an earlier rule has the same ref: write one rule with the rights of both", i+1, r.Ref)
		}
	}
	return nil
}

// Check says what is wrong with a rule.
func (r Rule) Check() error {
	if r.Ref == "" {
		return errors.New("it is missing: write a branch such as refs/heads/main, or a pattern such as refs/heads/deckhand/*")
	}
	if !strings.HasPrefix(r.Ref, "refs/") {
		return fmt.Errorf("write the full name: refs/heads/%[1]s for a branch, refs/tags/%[1]s for a tag", r.Ref)
	}
	if strings.Contains(r.Ref, "**") {
		return fmt.Errorf("write %s: one * spans slashes", strings.ReplaceAll(r.Ref, "**", "*"))
	}
	if strings.Count(r.Ref, "*") > 1 {
		return errors.New("only one * is allowed: write a rule for each pattern")
	}
	// With some text in place of the * it must be a name.
	if err := CheckRef(strings.Replace(r.Ref, "*", "x/x", 1)); err != nil {
		return fmt.Errorf("%w: write a branch such as refs/heads/main, or a pattern such as refs/heads/deckhand/*", err)
	}
	if len(r.Rights) == 0 {
		return fmt.Errorf("rights are missing: use some of %s", rightList(allRights))
	}
	for i, right := range r.Rights {
		if !slices.Contains(allRights, right) {
			return fmt.Errorf("%.20q is not a right: use some of %s", right, rightList(allRights))
		}
		if slices.Contains(r.Rights[:i], right) {
			return fmt.Errorf("the right %s is named twice", right)
		}
	}
	return nil
}

// Matches reports whether the rule is about a reference.
func (r Rule) Matches(ref string) bool {
	before, after, pattern := strings.Cut(r.Ref, "*")
	if !pattern {
		return ref == r.Ref
	}
	return len(ref) >= len(before)+len(after) && strings.HasPrefix(ref, before) && strings.HasSuffix(ref, after)
}

// Allow reports whether the rules give a right on a reference.
func (rs Rules) Allow(ref string, right Right) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool {
		return slices.Contains(r.Rights, right) && r.Matches(ref)
	})
}

// Decide decides an update. fastForward says whether the old commit is proven to be
// an ancestor of the new one; it is read only where NeedsProof. A refusal's reason
// fits into one line and names the rule that would allow the update.
func (rs Rules) Decide(u Update, fastForward bool) (ok bool, reason string) {
	switch {
	case u.Old == "":
		return rs.decide(u.Ref, "creating this reference is not allowed", Create)
	case u.New == "":
		return rs.decide(u.Ref, "deleting this reference is not allowed", Delete)
	case rs.Allow(u.Ref, Force):
		return true, ""
	case !rs.Allow(u.Ref, FastForward):
		if moves(u) {
			return rs.decide(u.Ref, "changing this reference is not allowed", Force)
		}
		_, reason = rs.decide(u.Ref, "updating this reference is not allowed", FastForward)
		return false, reason + ", or with force if this is not a fast-forward"
	case moves(u):
		return rs.decide(u.Ref, "changing an existing tag counts as forced and is not allowed", Force)
	case u.Old == u.New || fastForward:
		return true, ""
	default:
		return rs.decide(u.Ref, "not proven to be a fast-forward: fetch and merge or rebase, then push all the new commits in one push", Force)
	}
}

// NeedsProof reports whether Decide depends on fastForward.
func (rs Rules) NeedsProof(u Update) bool {
	return u.Old != "" && u.New != "" && u.Old != u.New && !moves(u) &&
		rs.Allow(u.Ref, FastForward) && !rs.Allow(u.Ref, Force)
}

// moves reports whether an update changes an existing tag, which git also counts as
// forced whatever the tag was before.
func moves(u Update) bool { return strings.HasPrefix(u.Ref, "refs/tags/") }

func (rs Rules) decide(ref, refusal string, right Right) (bool, string) {
	if rs.Allow(ref, right) {
		return true, ""
	}
	return false, fmt.Sprintf("%s; a persona allows it with the push rule {ref: %s, rights: [%s]}", refusal, ref, right)
}

func rightList(rights []Right) string {
	words := make([]string, len(rights))
	for i, r := range rights {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}
