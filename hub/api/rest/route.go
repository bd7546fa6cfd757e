package rest

import (
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Prefix is how the paths begin that Handler serves.
const Prefix = "/v1/"

// Route is a path of a procedure.
type Route struct {
	// Method is that of HTTP.
	Method string
	// Path is a template such as "/v1/tasks/{task_id}:cancel".
	Path string
	// Procedure is the path of the RPC, such as "/deckhand.v1.TaskService/CancelTask".
	Procedure string
	RPC       protoreflect.MethodDescriptor
}

// Routes returns the paths of all procedures, ordered by path and method.
func Routes() []Route {
	var out []Route
	protoregistry.GlobalFiles.RangeFilesByPackage("deckhand.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				out = append(out, routesOf(methods.Get(j))...)
			}
		}
		return true
	})
	slices.SortFunc(out, func(a, b Route) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	return out
}

// routesOf returns the paths of a procedure; none if it has no annotation.
func routesOf(m protoreflect.MethodDescriptor) []Route {
	rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil
	}
	var out []Route
	for _, rule := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		r := Route{Procedure: "/" + string(m.Parent().FullName()) + "/" + string(m.Name()), RPC: m}
		switch p := rule.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			r.Method, r.Path = http.MethodGet, p.Get
		case *annotations.HttpRule_Put:
			r.Method, r.Path = http.MethodPut, p.Put
		case *annotations.HttpRule_Post:
			r.Method, r.Path = http.MethodPost, p.Post
		case *annotations.HttpRule_Delete:
			r.Method, r.Path = http.MethodDelete, p.Delete
		case *annotations.HttpRule_Patch:
			r.Method, r.Path = http.MethodPatch, p.Patch
		}
		out = append(out, r)
	}
	return out
}

// tree finds the procedure of a path. It matches as vanguard does: a literal segment goes
// before a variable, and the verb is what follows the first colon of the last segment.
type tree struct {
	children map[string]*tree
	// ends are the procedures by verb and HTTP method.
	ends map[string]map[string]string
}

// The names of the children that match any segment, and any rest of a path.
const (
	oneSegment = "*"
	anyRest    = "**"
)

func newTree(routes []Route) *tree {
	root := &tree{}
	for _, r := range routes {
		at := root
		segments, verb := split(r.Path)
		for _, s := range segments {
			switch {
			case strings.HasSuffix(s, "=**}"):
				s = anyRest
			case strings.HasPrefix(s, "{"):
				s = oneSegment
			}
			if at.children == nil {
				at.children = map[string]*tree{}
			}
			next := at.children[s]
			if next == nil {
				next = &tree{}
				at.children[s] = next
			}
			at = next
		}
		if at.ends == nil {
			at.ends = map[string]map[string]string{}
		}
		if at.ends[verb] == nil {
			at.ends[verb] = map[string]string{}
		}
		at.ends[verb][r.Method] = r.Procedure
	}
	return root
}

// split returns the segments of a path and its verb.
func split(path string) (segments []string, verb string) {
	segments = strings.Split(strings.TrimPrefix(path, "/"), "/")
	last := &segments[len(segments)-1]
	*last, verb, _ = strings.Cut(*last, ":")
	return segments, verb
}

// find returns the procedures of an escaped path by HTTP method; nil if there is no such
// path.
func (t *tree) find(path string) map[string]string {
	segments, verb := split(path)
	return t.walk(segments, verb)
}

func (t *tree) walk(segments []string, verb string) map[string]string {
	if t == nil {
		return nil
	}
	if len(segments) == 0 {
		return t.ends[verb]
	}
	if found := t.children[segments[0]].walk(segments[1:], verb); found != nil {
		return found
	}
	if found := t.children[oneSegment].walk(segments[1:], verb); found != nil {
		return found
	}
	return t.children[anyRest].walk(nil, verb)
}
