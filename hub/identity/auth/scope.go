package auth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Scope is what a token leaves of its user's rights. The zero value leaves all.
type Scope struct {
	// Role is the most that the token may; empty for the user's own.
	Role string `json:"role,omitempty"`
	// ReadOnly leaves procedures that change nothing.
	ReadOnly bool `json:"read_only,omitempty"`
	// Services, such as TaskService, are the only ones that may be called; empty
	// for all.
	Services []string `json:"services,omitempty"`
	// Decide lets the token decide on approvals through MCP, where programs decide on
	// nothing without it. Calls outside MCP do not need it.
	Decide bool `json:"decide,omitempty"`
	// MCP restricts the token to the MCP server: it is of a program that was connected by
	// OAuth.
	MCP bool `json:"mcp,omitempty"`
	// Pools are the only ones that a worker with the token may be of; empty for
	// all. They leave a worker's token all that a worker may do.
	Pools []string `json:"pools,omitempty"`
}

// Pool refuses a worker's token for a pool that it is not for.
func (s Scope) Pool(name string) error {
	if len(s.Pools) == 0 || slices.Contains(s.Pools, name) {
		return nil
	}
	return fault.New(fault.Denied, "this worker's token is for pool %s, not for %q", strings.Join(s.Pools, " or "), name).
		WithCode(fault.PermissionDenied).WithFix("start the worker with --pool %s, or make a token for the pool: deckhand token create NAME --worker --pool %s", s.Pools[0], name)
}

// All reports whether a scope leaves all rights.
func (s Scope) All() bool { return s.Role == "" && !s.ReadOnly && len(s.Services) == 0 && !s.MCP }

// Check refuses a scope with an unknown name.
func (s Scope) Check() error {
	for _, service := range s.Services {
		if !slices.Contains(Services(), service) {
			return fault.New(fault.Invalid, "services has %q, which is no service of users", service).WithFix("use %s", strings.Join(Services(), ", "))
		}
	}
	return nil
}

// Services returns the names of the services that users call.
func Services() []string {
	var out []string
	for procedure, rule := range rules {
		if service, _ := split(procedure); rule.Kind == User {
			out = append(out, service)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Encode returns a scope as it is stored.
func (s Scope) Encode() json.RawMessage {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and a bool
	}
	return data
}

// Narrow gives an identity a stored scope.
func (id *Identity) Narrow(stored json.RawMessage) error {
	if err := json.Unmarshal(stored, &id.Scope); err != nil {
		return fmt.Errorf("read scope: %w", err)
	}
	if id.Scope.Role != "" && !AtLeast(id.Scope.Role, id.Role) {
		id.Role = id.Scope.Role
	}
	return nil
}

// sessionService is the service that every token may call: it only returns the caller's
// identity, logs out, and creates sessions with the same rights.
const sessionService = "SessionService"

// split returns a procedure's service and method.
func split(procedure string) (service, method string) {
	full, method, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	return full[strings.LastIndex(full, ".")+1:], method
}

// Reads reports whether a procedure changes nothing: its proto gives it the idempotency level
// NO_SIDE_EFFECTS. A procedure that is unknown changes something.
func Reads(procedure string) bool {
	name := strings.ReplaceAll(strings.TrimPrefix(procedure, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	options, _ := found.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// allow refuses a procedure that is out of scope.
func (s Scope) allow(procedure string) error {
	service, _ := split(procedure)
	if service == sessionService {
		return nil
	}
	denied := func(why string, args ...any) error {
		return fault.New(fault.Denied, why, args...).WithCode(fault.PermissionDenied).WithFix("use a token with a wider scope: deckhand token create --help")
	}
	if len(s.Services) > 0 && !slices.Contains(s.Services, service) {
		return denied("this token may call %s only, and not %s", strings.Join(s.Services, ", "), service)
	}
	if s.ReadOnly && !Reads(procedure) {
		return denied("this token may only read, and %s changes something", procedure)
	}
	return nil
}
