// Package shortlist writes the first of many names for people and models.
package shortlist

import (
	"fmt"
	"strings"
)

// Of joins names, at most most of them, with commas, and says how many others there are of
// total, such as "a, b and 3 more".
func Of(names []string, most, total int) string {
	names = names[:min(len(names), most)]
	out := strings.Join(names, ", ")
	if more := total - len(names); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
