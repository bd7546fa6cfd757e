package tool

import "strings"

// exampleMark begins the call that a description shows, which is its end.
const exampleMark = "Example: "

// Example returns the arguments of the call that a tool's description shows, a JSON object;
// empty for a description without one.
func Example(description string) string {
	_, example, _ := strings.Cut(description, exampleMark)
	return strings.TrimSuffix(strings.TrimSuffix(example, asksFirst), ".")
}
