// Package nearest finds the names that a misspelt name most probably stands for, by
// Levenshtein distance in bytes, without regard to case.
//
// First returns the one name that is near enough to be suggested alone; Sort returns all
// names, the nearest first.
package nearest

import (
	"slices"
	"strings"
)

// First returns the candidate that word most probably stands for, or "" if none differs
// from it in at most a third of its bytes, or one.
func First(word string, candidates []string) string {
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, candidate := range candidates {
		if d := distance(word, candidate, bestDistance); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// Sort returns the candidates in the order of their distance from word. Those that are
// equally far stay in their order.
func Sort(word string, candidates []string) []string {
	sorted := slices.Clone(candidates)
	slices.SortStableFunc(sorted, func(a, b string) int {
		return distance(word, a, len(word)+len(a)+1) - distance(word, b, len(word)+len(b)+1)
	})
	return sorted
}

// distance returns the Levenshtein distance, or limit if the words differ by at
// least that much.
func distance(a, b string, limit int) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return min(row[len(b)], limit)
}
