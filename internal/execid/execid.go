// Package execid reads the exec ids of steps: the id of a command on a node is that of the
// step that it runs for, and from the second run on the number of the run after it.
package execid

import (
	"strconv"
	"strings"
)

// Step returns the id of the step that an exec id belongs to.
func Step(id string) string {
	kind, rest, _ := strings.Cut(id, "_")
	step, _, _ := strings.Cut(rest, "_")
	return kind + "_" + step
}

// Run returns the number of the step's run that an exec id belongs to.
func Run(id string) int32 {
	_, rest, _ := strings.Cut(id, "_")
	_, run, found := strings.Cut(rest, "_")
	n, err := strconv.ParseInt(run, 10, 32)
	if !found || err != nil {
		return 1
	}
	return int32(n)
}
