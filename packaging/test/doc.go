// Package test checks what Docker and Kubernetes would be given: that the compose file
// and the chart can be rendered, are valid, and say what they should. It runs neither: it
// is a module of its own, so that their libraries do not weigh on ours, and pins the
// tools of a release (see the tool lines of go.mod).
package test
