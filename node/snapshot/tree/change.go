package tree

import (
	"fmt"
	"slices"
	"strings"
)

// Change is how one path differs between two moments. One of Before and After
// may be nil, for nothing there.
type Change struct {
	Path          string
	Before, After *Entry
}

// Delta is what changed between one state of a workspace and the next.
type Delta struct {
	// Seq numbers the state after it. The state before it is Seq-1.
	Seq int64
	// By are the ids of the commands and operations that ran between the two
	// states. If there are several, it is not known which of them made which
	// change.
	By []string
	// Undoes are the ids whose changes it took back.
	Undoes []string
	// Time is when it was recorded, in nanoseconds of the epoch.
	Time int64
	// Changes by path.
	Changes []Change
}

// SortChanges puts changes in the order of their paths, folders before what is
// in them.
func SortChanges(changes []Change) {
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
}

// Apply makes the changes, which are sorted, in the tree.
func (t *Tree) Apply(changes []Change) error {
	for _, c := range slices.Backward(changes) {
		if c.After == nil && !t.Set(c.Path, nil) && t.Get(c.Path) != nil {
			return fmt.Errorf("take %q out of the tree: its folder is not there", c.Path)
		}
	}
	for _, c := range changes {
		if c.Path == Root && c.After != nil {
			t.Set(Root, c.After) // "." is not before all other names
		}
	}
	for _, c := range changes {
		if c.After != nil && !t.Set(c.Path, c.After) {
			return fmt.Errorf("put %q into the tree: its folder is not there", c.Path)
		}
	}
	return nil
}

// Compose returns the changes of several deltas, in their order, as one. What
// was changed and changed back is left out.
func Compose(deltas []Delta) []Change {
	at := map[string]int{}
	var all []Change
	for _, d := range deltas {
		for _, c := range d.Changes {
			if i, ok := at[c.Path]; ok {
				all[i].After = c.After
				continue
			}
			at[c.Path] = len(all)
			all = append(all, c)
		}
	}
	all = slices.DeleteFunc(all, func(c Change) bool { return Same(c.Before, c.After) })
	SortChanges(all)
	return all
}
