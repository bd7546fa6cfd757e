package credential

import (
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/gitpush"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// A jail may be shared by tasks of an agent, with other versions of its persona or other
// overrides. Which of them a request is from is what the request says, and one can say that it
// is from another. So a credential may be used in a jail for what all its tasks may use it for.

// noPush is a rule for pushes that allows none: no rules at all are those of the default.
const noPush = "refs/nothing-that-all-tasks-of-this-jail-may-push delete"

// Strictest returns the credentials that all tasks of a jail may use, each for what all of them
// want of it. Each list is that of the persona of one task.
func Strictest(tasks ...[]persona.Credential) (out []persona.Credential) {
	if len(tasks) == 0 {
		return nil
	}
	out = tasks[0]
	for _, more := range tasks[1:] {
		var both []persona.Credential
		for _, a := range out {
			at := slices.IndexFunc(more, func(b persona.Credential) bool { return b.Name == a.Name })
			if at < 0 {
				continue
			}
			if one, err := strictest(a, more[at]); err == nil {
				both = append(both, one)
			}
		}
		out = both
	}
	return out
}

// strictest returns what both want of one credential. The error says that there is nothing.
func strictest(a, b persona.Credential) (persona.Credential, error) {
	out := persona.Credential{Name: a.Name}
	var err error
	if out.Repositories, err = bothRepositories(a, b); err != nil {
		return out, err
	}
	if out.Permissions, err = bothPermissions(a, b); err != nil {
		return out, err
	}
	out.Pushes, err = bothPushes(a.Pushes, b.Pushes)
	return out, err
}

func nothing(name, what string) error {
	return fault.New(fault.Denied, "tasks that run in one jail want credential %s for %s that have nothing in common, and none of them may use it for those of another", name, what).
		WithCode(fault.CredentialRefused).WithObject(name).
		WithFix("wait until the others have ended, or give each task a workspace of its own: workspace.scope: task in the persona")
}

func bothRepositories(a, b persona.Credential) (out []string, err error) {
	switch {
	case len(a.Repositories) == 0:
		return b.Repositories, nil
	case len(b.Repositories) == 0:
		return a.Repositories, nil
	}
	for _, x := range a.Repositories {
		for _, y := range b.Repositories {
			one := x
			switch {
			case covers(y, x):
			case covers(x, y):
				one = y
			default:
				continue
			}
			if !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	if len(out) == 0 {
		return nil, nothing(a.Name, "repositories")
	}
	return out, nil
}

func bothPermissions(a, b persona.Credential) (map[string]string, error) {
	switch {
	case len(a.Permissions) == 0:
		return b.Permissions, nil
	case len(b.Permissions) == 0:
		return a.Permissions, nil
	}
	out := map[string]string{}
	for name, level := range a.Permissions {
		if other, ok := b.Permissions[name]; ok {
			out[name] = levels[max(0, min(slices.Index(levels, level), slices.Index(levels, other)))]
		}
	}
	if len(out) == 0 {
		return nil, nothing(a.Name, "permissions")
	}
	return out, nil
}

// bothPushes returns the rules for pushes that both allow.
func bothPushes(a, b []string) ([]string, error) {
	if slices.Equal(a, b) {
		return a, nil
	}
	x, err := gitpush.ParseRules(a)
	if err != nil {
		return nil, err
	}
	y, err := gitpush.ParseRules(b)
	if err != nil {
		return nil, err
	}
	var rules gitpush.Rules
	for _, one := range x {
		for _, other := range y {
			ref := one.Ref
			switch {
			case refCovers(other.Ref, one.Ref):
			case refCovers(one.Ref, other.Ref):
				ref = other.Ref
			default:
				continue // two patterns may overlap: what both match is left out
			}
			rules = withRights(rules, ref, bothRights(one, other))
		}
	}
	if len(rules) == 0 || len(rules) > gitpush.MaxRules {
		return []string{noPush}, nil
	}
	out := make([]string, len(rules))
	for i, one := range rules {
		out[i] = one.String()
	}
	return out, nil
}

// bothRights returns the rights that both rules give.
func bothRights(a, b gitpush.Rule) (out []gitpush.Right) {
	gives := func(r gitpush.Rule, right gitpush.Right) bool {
		return slices.Contains(r.Rights, right) || right == gitpush.FastForward && slices.Contains(r.Rights, gitpush.Force)
	}
	for _, right := range []gitpush.Right{gitpush.Create, gitpush.FastForward, gitpush.Force, gitpush.Delete} {
		if gives(a, right) && gives(b, right) {
			out = append(out, right)
		}
	}
	return out
}

// withRights adds rights on a reference to rules.
func withRights(rules gitpush.Rules, ref string, rights []gitpush.Right) gitpush.Rules {
	if len(rights) == 0 {
		return rules
	}
	at := slices.IndexFunc(rules, func(r gitpush.Rule) bool { return r.Ref == ref })
	if at < 0 {
		return append(rules, gitpush.Rule{Ref: ref, Rights: rights})
	}
	for _, right := range rights {
		if !slices.Contains(rules[at].Rights, right) {
			rules[at].Rights = append(rules[at].Rights, right)
		}
	}
	return rules
}

// refCovers reports whether a reference or pattern of a rule is or matches all that another one
// does.
func refCovers(pattern, ref string) bool {
	before, after, any := strings.Cut(pattern, "*")
	if !any {
		return pattern == ref
	}
	return len(ref) >= len(before)+len(after) && strings.HasPrefix(ref, before) && strings.HasSuffix(ref, after)
}
