package httprule

import "slices"

// Scope is the requests to its hosts that a credential is inserted into: by method and path.
// The zero value covers all.
type Scope struct {
	methods []string
	paths   []Pattern
}

// ParseScope reads methods and path templates; none of either means all.
func ParseScope(methods, paths []string) (Scope, error) {
	out := Scope{methods: methods}
	for _, text := range paths {
		one, err := Parse(text)
		if err != nil {
			return Scope{}, err
		}
		out.paths = append(out.paths, one)
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
	return !s.ByPath() || slices.ContainsFunc(s.paths, func(one Pattern) bool { return one.Covers(method, path) })
}

// ByPath reports whether the path of a request decides.
func (s Scope) ByPath() bool { return len(s.paths) > 0 }
