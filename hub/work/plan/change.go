package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/plantree"
)

// Node is an item with its parts.
type Node struct {
	Item     plantree.Item
	Children []Node
}

// fits returns an error for nodes that are more than a plan has, and looks at no more of them.
func fits(nodes []Node) error {
	left := maxItems
	var count func([]Node) bool
	count = func(nodes []Node) bool {
		for _, n := range nodes {
			if left--; left < 0 || !count(n.Children) {
				return false
			}
		}
		return true
	}
	if !count(nodes) {
		return tooMany(fmt.Sprintf("more than %d", maxItems))
	}
	return nil
}

func tooMany(n string) error {
	return fault.New(fault.Invalid, "the plan would have %s items", n).WithFix("keep it to %d: make items larger", maxItems)
}

// flat returns nodes as items below a parent, with ids for those that have none. used are
// the ids that are taken.
func flat(nodes []Node, parent string, used map[string]bool) []plantree.Item {
	var out []plantree.Item
	last := 0
	var add func(nodes []Node, parent string)
	add = func(nodes []Node, parent string) {
		for _, n := range nodes {
			item := n.Item
			item.Parent, item.Status = parent, cmp.Or(item.Status, plantree.Pending)
			for item.ID == "" {
				last++
				if id := fmt.Sprintf("p%d", last); !used[id] {
					item.ID = id
				}
			}
			used[item.ID] = true
			out = append(out, item)
			add(n.Children, item.ID)
		}
	}
	add(nodes, parent)
	return out
}

// ids marks the ids that nodes bring along.
func ids(nodes []Node, into map[string]bool) {
	for _, n := range nodes {
		if n.Item.ID != "" {
			into[n.Item.ID] = true
		}
		ids(n.Children, into)
	}
}

// find returns the place of an item.
func find(items []plantree.Item, field, id string) (int, error) {
	at := slices.IndexFunc(items, func(i plantree.Item) bool { return i.ID == id })
	if at < 0 {
		return 0, fault.New(fault.NotFound, "%s: the plan has no item %q", field, id).WithFix("give one of its ids: deckhand task plan show TASK")
	}
	return at, nil
}

// insert inserts items below a parent, before another one of its parts or at the end.
func insert(items, more []plantree.Item, parent, before string) ([]plantree.Item, error) {
	if parent != "" {
		if _, err := find(items, "parent", parent); err != nil {
			return nil, err
		}
	}
	at := len(items)
	if before != "" {
		var err error
		if at, err = find(items, "before", before); err != nil {
			return nil, err
		}
		if items[at].Parent != parent {
			return nil, fault.New(fault.Invalid, "before: item %q is not a part of %q", before, parent).WithFix("name an item with the same parent")
		}
	}
	return slices.Insert(items, at, more...), nil
}

// subtree splits items into an item with its parts, and the others.
func subtree(items []plantree.Item, id string) (in, out []plantree.Item) {
	inside := map[string]bool{id: true}
	for more := true; more; {
		more = false
		for _, i := range items {
			if inside[i.Parent] && !inside[i.ID] {
				inside[i.ID], more = true, true
			}
		}
	}
	for _, i := range items {
		if inside[i.ID] {
			in = append(in, i)
		} else {
			out = append(out, i)
		}
	}
	return in, out
}

// Add adds an item with its parts. It returns an error for more of them than a plan has.
func Add(n Node, parent, before string) (Change, error) {
	if err := fits([]Node{n}); err != nil {
		return nil, err
	}
	return func(items []plantree.Item) ([]plantree.Item, string, error) {
		used := map[string]bool{}
		for _, i := range items {
			used[i.ID] = true
		}
		ids([]Node{n}, used)
		more := flat([]Node{n}, parent, used)
		items, err := insert(items, more, parent, before)
		return items, fmt.Sprintf("added %q as %s%s", more[0].Title, more[0].ID, place(parent, before)), err
	}, nil
}

func place(parent, before string) string {
	out := ""
	if parent != "" {
		out += ", a part of " + parent
	}
	if before != "" {
		out += ", before " + before
	}
	return out
}

// Remove removes an item with its parts, and the dependencies on them.
func Remove(id string) Change {
	return func(items []plantree.Item) ([]plantree.Item, string, error) {
		at, err := find(items, "id", id)
		if err != nil {
			return nil, "", err
		}
		title := items[at].Title
		gone, left := subtree(items, id)
		for i := range left {
			left[i].DependsOn = slices.DeleteFunc(slices.Clone(left[i].DependsOn), func(on string) bool {
				return slices.ContainsFunc(gone, func(g plantree.Item) bool { return g.ID == on })
			})
		}
		what := fmt.Sprintf("removed %s (%q)", id, title)
		if len(gone) > 1 {
			what += fmt.Sprintf(" with its %d parts", len(gone)-1)
		}
		return left, what, nil
	}
}

// Move moves an item with its parts.
func Move(id, parent, before string) Change {
	return func(items []plantree.Item) ([]plantree.Item, string, error) {
		at, err := find(items, "id", id)
		if err != nil {
			return nil, "", err
		}
		title := items[at].Title
		moved, left := subtree(items, id)
		if slices.ContainsFunc(moved, func(i plantree.Item) bool { return i.ID == parent || i.ID == before }) {
			return nil, "", fault.New(fault.Invalid, "item %q cannot be moved to itself or its own parts", id).WithFix("name another parent or place")
		}
		for i := range moved {
			if moved[i].ID == id {
				moved[i].Parent = parent
			}
		}
		items, err = insert(left, moved, parent, before)
		where := place(parent, before)
		if where == "" {
			where = " to the end"
		}
		return items, fmt.Sprintf("moved %s (%q)%s", id, title, where), err
	}
}

// Mark sets the status of an item.
func Mark(id, status string) Change {
	return func(items []plantree.Item) ([]plantree.Item, string, error) {
		at, err := find(items, "id", id)
		if err != nil {
			return nil, "", err
		}
		items[at].Status = status
		return items, fmt.Sprintf("marked %s (%q) as %s", id, items[at].Title, status), nil
	}
}

// Replace sets all items. It returns an error for more of them than a plan has.
func Replace(nodes []Node) (Change, error) {
	if err := fits(nodes); err != nil {
		return nil, err
	}
	return func([]plantree.Item) ([]plantree.Item, string, error) {
		used := map[string]bool{}
		ids(nodes, used)
		items := flat(nodes, "", used)
		return items, fmt.Sprintf("replaced the plan by one of %d items", len(items)), nil
	}, nil
}
