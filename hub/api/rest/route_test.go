package rest_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/deckhand-sh/deckhand/hub/api/rest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	_ "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1" // whose procedures are listed
)

// notForPeople are the services that workers and nodes call.
var notForPeople = []string{"WorkerService"}

// Every unary procedure for people and programs has a path below /v1, and no other has one.
func TestEveryUnaryProcedureForPeopleHasAPath(t *testing.T) {
	t.Parallel()
	paths := map[string]bool{}
	for _, r := range rest.Routes() {
		paths[r.Procedure] = true
	}
	found := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("deckhand.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				procedure := "/" + string(s.FullName()) + "/" + string(m.Name())
				want := !m.IsStreamingClient() && !m.IsStreamingServer() && !slices.Contains(notForPeople, string(s.Name()))
				if want {
					found++
				}
				require.Equal(t, want, paths[procedure], "%s: give it a google.api.http annotation in its proto", procedure)
			}
		}
		return true
	})
	require.Greater(t, found, 150)
}

var (
	literal  = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	variable = regexp.MustCompile(`^\{[a-z_]+(=\*\*)?\}$`)
)

// single are the resources that there is one of.
var single = []string{"plan", "policy", "quota", "session", "task-sharing", "usage", "vault", "push-key", "receipt", "log", "telemetry", "provider-catalogue", "retention", "feedback", "knowledge"}

// Paths are of plural nouns in lower case with a verb behind a colon; what only reads is a
// GET, and nothing else is.
func TestPathsAreResources(t *testing.T) {
	t.Parallel()
	// These read and need a body.
	withBody := []string{"CompareFiles", "TestTrigger"}
	seen := map[string]bool{}
	for _, r := range rest.Routes() {
		name := r.Method + " " + r.Path
		require.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
		require.True(t, strings.HasPrefix(r.Path, rest.Prefix), name)
		segments := strings.Split(strings.TrimPrefix(r.Path, rest.Prefix), "/")
		last := &segments[len(segments)-1]
		var verb string
		*last, verb, _ = strings.Cut(*last, ":")
		if verb != "" {
			require.Regexp(t, literal, verb, name)
		}
		for i, s := range segments {
			if variable.MatchString(s) {
				require.NotZero(t, i, "%s begins with a variable", name)
				require.Regexp(t, literal, segments[i-1], "%s: a variable is below its collection", name)
				continue
			}
			require.Regexp(t, literal, s, name)
			require.True(t, strings.HasSuffix(s, "s") || slices.Contains(single, s), "%s: %q is not plural", name, s)
		}
		method := string(r.RPC.Name())
		if auth.Reads(r.Procedure) && !slices.Contains(withBody, method) {
			require.Equal(t, http.MethodGet, r.Method, "%s reads", method)
		} else {
			require.NotEqual(t, http.MethodGet, r.Method, "%s changes something", method)
		}
		if verb == "" && strings.HasPrefix(method, "Delete") {
			require.Equal(t, http.MethodDelete, r.Method, name)
		}
	}
}
