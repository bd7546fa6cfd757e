package tree

import (
	"maps"
	"slices"
	"strings"
)

// Conflict is a path that an undo cannot simply restore.
type Conflict struct {
	Path string
	Why  Why
	// Later are the ids of those who changed the path afterwards, as far as they
	// are known.
	Later []string
	// Detail is the name of what is in the way, or why something is not kept.
	Detail string
}

// Why is what keeps a path from being restored.
type Why uint8

// The reasons.
const (
	// ChangedLater by a command whose change is not undone.
	ChangedLater Why = 1
	// NotKept: the content of before is not in the store.
	NotKept Why = 2
	// NotEmpty is a folder that would go and holds what stays.
	NotEmpty Why = 3
	// NoFolder: the folder that it belongs in is not there any more.
	NoFolder Why = 4
)

// Plan is what an undo would do.
type Plan struct {
	// Changes from the present to the state restored, conflicting ones
	// left out.
	Changes []Change
	// Conflicts by path.
	Conflicts []Conflict
	// Shared are ids of others that ran while some of these changes were made.
	Shared []string
}

// Undo plans to undo the deltas that wanted says, out of all that are
// known, oldest first, of the given paths and what is below them, or of all if there
// are none. With overwrite, what others changed later is given up.
func Undo(now *Tree, deltas []Delta, wanted func(Delta) bool, overwrite bool, only ...string) Plan {
	type history struct {
		first, last *Entry // before the earliest and after the latest that goes
		broken      bool   // somebody else's change lies in between
		later       []string
	}
	paths := map[string]*history{}
	shared := map[string]bool{}
	for _, d := range deltas {
		undo := wanted(d)
		if undo && len(d.By) > 1 {
			for _, id := range d.By {
				shared[id] = true
			}
		}
		for _, c := range d.Changes {
			if len(only) > 0 && !slices.ContainsFunc(only, func(dir string) bool { return Below(c.Path, dir) }) {
				continue
			}
			h := paths[c.Path]
			switch {
			case undo && h == nil:
				paths[c.Path] = &history{first: c.Before, last: c.After}
			case undo:
				if !Same(h.last, c.Before) {
					h.broken = true
				}
				h.last = c.After
			case h != nil:
				h.later = append(h.later, d.By...)
			}
		}
	}
	p := planner{now: now, target: map[string]*Entry{}, conflicts: map[string]Conflict{}}
	for path, h := range paths {
		current := now.Get(path)
		if Same(current, h.first) {
			continue // as it was already
		}
		if (h.broken || !Same(current, h.last)) && !overwrite {
			p.conflicts[path] = Conflict{Path: path, Why: ChangedLater, Later: distinct(h.later)}
			continue
		}
		if !h.first.Restorable() {
			p.conflicts[path] = Conflict{Path: path, Why: NotKept, Detail: why(h.first)}
			continue
		}
		p.target[path] = h.first
	}
	p.settle()
	plan := Plan{Shared: slices.Sorted(maps.Keys(shared))}
	for path, e := range p.target {
		plan.Changes = append(plan.Changes, Change{Path: path, Before: now.Get(path), After: e})
	}
	SortChanges(plan.Changes)
	for _, path := range slices.Sorted(maps.Keys(p.conflicts)) {
		plan.Conflicts = append(plan.Conflicts, p.conflicts[path])
	}
	return plan
}

func why(e *Entry) string {
	if e.Unkept != Kept {
		return e.Unkept.String()
	}
	return "a " + e.Kind.String() + " cannot be made again"
}

func distinct(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}

type planner struct {
	now       *Tree
	target    map[string]*Entry
	conflicts map[string]Conflict
}

// at returns what will be at a path.
func (p *planner) at(path string) *Entry {
	if e, ok := p.target[path]; ok {
		return e
	}
	return p.now.Get(path)
}

// settle takes out again what would leave a name without its folder, or a folder
// that goes with something in it, until nothing of the kind is left. A second
// name whose first one is not restored becomes a file of its own.
func (p *planner) settle() {
	for again := true; again; {
		again = false
		for _, path := range slices.Sorted(maps.Keys(p.target)) {
			p.unlink(path)
			if c, bad := p.impossible(path, p.target[path]); bad {
				p.conflicts[path] = c
				delete(p.target, path)
				again = true
			}
		}
	}
}

func (p *planner) impossible(path string, e *Entry) (Conflict, bool) {
	if e == nil || e.Kind != Dir {
		// The contents of a folder that is removed must be removed as well.
		if have := p.now.Get(path); have != nil && have.Kind == Dir {
			for _, name := range p.now.Children(path) {
				child := Join(path, name)
				if p.at(child) != nil {
					return Conflict{Path: path, Why: NotEmpty, Detail: child, Later: p.conflicts[child].Later}, true
				}
			}
		}
	}
	if e == nil || path == Root {
		return Conflict{}, false
	}
	dir, _ := Split(path)
	if parent := p.at(dir); parent == nil || parent.Kind != Dir {
		return Conflict{Path: path, Why: NoFolder, Detail: dir, Later: p.conflicts[dir].Later}, true
	}
	return Conflict{}, false
}

func (p *planner) unlink(path string) {
	e := p.target[path]
	if e == nil || e.Link == "" {
		return
	}
	if first := p.at(e.Link); first != nil && first.Kind == File && first.Link == "" && first.Content == e.Content {
		return
	}
	alone := *e
	alone.Link = ""
	p.target[path] = &alone
}

// Below reports whether a path is dir or below it.
func Below(path, dir string) bool {
	return dir == Root || path == dir || strings.HasPrefix(path, dir+"/")
}
