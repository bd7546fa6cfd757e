package gitpush

import (
	"bytes"
	"fmt"
)

// Graph has commits and their parents, each from a commit object whose hash was
// computed here.
type Graph struct {
	format  Format
	max     int
	parents map[oid][]oid
	// full reports that a commit was left out because there were max.
	full bool
}

// NewGraph creates an empty graph of at most max commits.
func NewGraph(format Format, max int) *Graph {
	return &Graph{format: format, max: max, parents: map[oid][]oid{}}
}

// Add adds a commit from its object, without the header that git stores before it,
// and returns its hash. When the graph is full the commit is left out.
func (g *Graph) Add(object []byte) (string, error) {
	id, err := g.add(object)
	if err != nil {
		return "", err
	}
	return g.format.text(id), nil
}

func (g *Graph) add(object []byte) (oid, error) {
	parents, err := g.format.commitParents(object)
	if err != nil {
		return oid{}, err
	}
	id := g.format.commit(object)
	if _, ok := g.parents[id]; !ok {
		if len(g.parents) >= g.max {
			g.full = true
		} else {
			g.parents[id] = parents
		}
	}
	return id, nil
}

// IsAncestor reports whether the graph proves that old is an ancestor of new or is
// new itself. If it does not, the graph may lack the commits between them.
func (g *Graph) IsAncestor(old, new string) bool {
	ancestor, ok := g.format.parse(old)
	descendant, ok2 := g.format.parse(new)
	if !ok || !ok2 {
		return false
	}
	found, _ := g.walk(ancestor, descendant, nil)
	return found
}

// walk looks for a commit among the ancestors of another one, nearest first. missing
// is called for each commit that is not in the graph, if it is not nil; it may add it.
func (g *Graph) walk(ancestor, descendant oid, missing func(oid) error) (bool, error) {
	seen, next := map[oid]bool{descendant: true}, []oid{descendant}
	for len(next) > 0 {
		id := next[0]
		next = next[1:]
		if id == ancestor {
			return true, nil
		}
		parents, ok := g.parents[id]
		if !ok && missing != nil {
			if err := missing(id); err != nil {
				return false, err
			}
			parents = g.parents[id]
		}
		for _, parent := range parents {
			if !seen[parent] {
				seen[parent] = true
				next = append(next, parent)
			}
		}
	}
	return false, nil
}

// commitParents reads the parents of a commit as git does: a line with the tree, then
// lines with a parent each. Whatever follows is not looked at.
func (f Format) commitParents(object []byte) ([]oid, error) {
	line, rest, _ := bytes.Cut(object, []byte("\n"))
	if _, ok := f.header(line, "tree "); !ok {
		return nil, fmt.Errorf("the commit does not begin with the %s hash of a tree", f)
	}
	var out []oid
	for {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok || !bytes.HasPrefix(line, []byte("parent ")) {
			return out, nil
		}
		id, ok := f.header(line, "parent ")
		if !ok {
			return nil, fmt.Errorf("a parent of the commit is not a %s hash", f)
		}
		out, rest = append(out, id), after
	}
}

func (f Format) header(line []byte, name string) (oid, bool) {
	value, ok := bytes.CutPrefix(line, []byte(name))
	if !ok {
		return oid{}, false
	}
	return f.parse(string(value))
}
