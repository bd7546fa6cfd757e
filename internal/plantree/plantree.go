// Package plantree is the form of a task's plan: a list of items with parents and
// dependencies, which the hub and the worker both check. Items are in the order in which
// they are shown; those of one parent follow each other in it.
package plantree

import "fmt"

// The states of an item.
const (
	Pending    = "pending"
	InProgress = "in_progress"
	Done       = "done"
	Skipped    = "skipped"
)

// Item is one part of a plan.
type Item struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"`
	// Parent is the item that this one is part of; empty for none.
	Parent string `json:"parent,omitempty"`
	// DependsOn are the items that must be done first.
	DependsOn []string `json:"depends_on,omitempty"`
}

// Check returns why items are not a tree with dependencies that can be met, or nil.
func Check(items []Item) error {
	byID := map[string]Item{}
	for _, item := range items {
		if _, twice := byID[item.ID]; twice {
			return fmt.Errorf("two items have the id %q", item.ID)
		}
		byID[item.ID] = item
	}
	for _, item := range items {
		for _, other := range append([]string{item.Parent}, item.DependsOn...) {
			if _, ok := byID[other]; !ok && other != "" {
				return fmt.Errorf("item %q refers to %q, which no item has as id", item.ID, other)
			}
		}
	}
	if at := cycle(items, byID, func(i Item) []string { return []string{i.Parent} }); at != "" {
		return fmt.Errorf("item %q is part of itself", at)
	}
	if at := cycle(items, byID, func(i Item) []string { return i.DependsOn }); at != "" {
		return fmt.Errorf("item %q depends on itself", at)
	}
	return nil
}

// cycle returns an item from which edges lead back to it, or "".
func cycle(items []Item, byID map[string]Item, edges func(Item) []string) string {
	const visiting, visited = 1, 2
	mark := map[string]int{}
	var visit func(id string) bool
	visit = func(id string) bool {
		switch mark[id] {
		case visiting:
			return true
		case visited:
			return false
		}
		mark[id] = visiting
		for _, next := range edges(byID[id]) {
			if next != "" && visit(next) {
				return true
			}
		}
		mark[id] = visited
		return false
	}
	for _, item := range items {
		if visit(item.ID) {
			return item.ID
		}
	}
	return ""
}

// Progress returns how much is done, from 0 to 1. It counts the items that have no parts of
// their own: done ones whole, ones in progress half, skipped ones not at all.
func Progress(items []Item) float64 {
	parents := map[string]bool{}
	for _, item := range items {
		parents[item.Parent] = true
	}
	var done, all float64
	for _, item := range items {
		if parents[item.ID] || item.Status == Skipped {
			continue
		}
		all++
		switch item.Status {
		case Done:
			done++
		case InProgress:
			done += 0.5
		}
	}
	if all == 0 {
		return 0
	}
	return done / all
}
