package httprule

import (
	"slices"
	"strings"
)

// Scope is the requests to its hosts that a credential is inserted into: by method and path.
// The zero value covers all.
type Scope struct {
	methods       []string
	paths, denied []Pattern
}

// DeniedMark begins the template of paths that a scope leaves out.
const DeniedMark = "!"

// ParseScope reads methods and path templates; none of either means all. Those that begin with
// DeniedMark are left out of the others.
func ParseScope(methods, paths []string) (Scope, error) {
	out := Scope{methods: methods}
	for _, text := range paths {
		text, denied := strings.CutPrefix(text, DeniedMark)
		one, err := Parse(text)
		switch {
		case err != nil:
			return Scope{}, err
		case denied:
			out.denied = append(out.denied, one)
		default:
			out.paths = append(out.paths, one)
		}
	}
	return out, nil
}

// Covers reports whether a request is in the scope.
func (s Scope) Covers(method string, path Path) bool {
	return s.CoversMethod(method) && s.CoversPath(method, path)
}

// CoversMethod reports whether requests with a method are in the scope, by some path.
func (s Scope) CoversMethod(method string) bool {
	return len(s.methods) == 0 || slices.Contains(s.methods, method)
}

// CoversPath reports whether a path is in the scope of a request whose method is known to be.
func (s Scope) CoversPath(method string, path Path) bool {
	return !s.Denies(method, path) && (len(s.paths) == 0 || slices.ContainsFunc(s.paths, func(one Pattern) bool { return one.Covers(method, path) }))
}

// Denies reports whether a path is left out of the scope, also where only a lenient server would
// take it for one that is.
func (s Scope) Denies(method string, path Path) bool {
	return slices.ContainsFunc(s.denied, func(one Pattern) bool { return one.Touches(method, path) })
}

// ByPath reports whether the path of a request decides.
func (s Scope) ByPath() bool { return len(s.paths)+len(s.denied) > 0 }
