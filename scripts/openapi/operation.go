package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
)

// document is the OpenAPI document in the making.
type document struct {
	schemas object
	paths   object
	tags    []object
	ids     map[string]bool
}

func newDocument() *document {
	return &document{schemas: object{}, paths: object{}, ids: map[string]bool{}}
}

// service adds the paths of a service.
func (d *document) service(s protoreflect.ServiceDescriptor) error {
	found := false
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
		if !ok || rule == nil {
			continue
		}
		found = true
		for n, rule := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			if err := d.operation(m, rule, n); err != nil {
				return fmt.Errorf("%s: %w", m.FullName(), err)
			}
		}
	}
	if found {
		d.tags = append(d.tags, object{"name": tagOf(s), "description": described(s)})
	}
	return nil
}

func tagOf(s protoreflect.Descriptor) string { return strings.TrimSuffix(string(s.Name()), "Service") }

// described returns a declaration's comment without the name at its beginning.
func described(s protoreflect.Descriptor) string {
	rest, ok := strings.CutPrefix(comment(s), string(s.Name())+" ")
	if ok && rest != "" {
		return strings.ToUpper(rest[:1]) + rest[1:]
	}
	return comment(s)
}

// sentence ends a summary.
var sentence = regexp.MustCompile(`[.:;] |\.$|\n`)

// variable is a variable of a path, with the segments that it matches.
var variable = regexp.MustCompile(`\{([a-z_.]+)(=\*\*)?\}`)

func lowerFirst(name string) string {
	r := []rune(name)
	r[0] = unicode.ToLower(r[0])
	return string(r)
}

// operation adds one path of a method; n is the number of its binding.
func (d *document) operation(m protoreflect.MethodDescriptor, rule *annotations.HttpRule, n int) error {
	method, path := pattern(rule)
	if path == "" {
		return errors.New("its annotation has no path")
	}
	procedure := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
	access, ok := auth.RuleOf(procedure)
	if !ok {
		return errors.New("it has no rule of who may call it")
	}
	id := lowerFirst(string(m.Name()))
	if n > 0 {
		id = fmt.Sprintf("%s%d", id, n+1)
	}
	if d.ids[id] {
		return fmt.Errorf("another service has a method of this name")
	}
	d.ids[id] = true

	var parameters []any
	inPath := map[protoreflect.Name]bool{}
	for _, match := range variable.FindAllStringSubmatch(path, -1) {
		f := m.Input().Fields().ByName(protoreflect.Name(match[1]))
		if f == nil {
			return fmt.Errorf("the path names %s, which is not a field", match[1])
		}
		inPath[f.Name()] = true
		parameters = append(parameters, d.parameter(f, f.JSONName(), "path"))
		path = strings.Replace(path, match[0], "{"+f.JSONName()+"}", 1)
	}
	text := described(m)
	summary := text
	if at := sentence.FindStringIndex(text); at != nil {
		summary = text[:at[0]]
	}
	op := object{
		"operationId": id, "tags": []string{tagOf(m.Parent())}, "summary": summary,
		"description": strings.TrimSpace(text + "\n\n" + who(access) + " The RPC is `" + procedure[1:] + "`."),
		"responses":   d.responses(m, method, access),
	}
	if access.Public {
		op["security"] = []any{}
	}
	if rule.GetBody() == "*" {
		op["requestBody"] = d.body(m, inPath)
	} else {
		query, err := d.query(m.Input(), "", inPath, 0)
		if err != nil {
			return err
		}
		parameters = append(parameters, query...)
	}
	if method != "get" && !access.Public {
		parameters = append(parameters, object{"$ref": "#/components/parameters/IdempotencyKey"})
	}
	if method == "get" {
		parameters = append(parameters, object{"$ref": "#/components/parameters/IfNoneMatch"})
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	item, _ := d.paths[path].(object)
	if item == nil {
		item = object{}
		d.paths[path] = item
	}
	item[method] = op
	return nil
}

// pattern returns the method and the template of an annotation.
func pattern(rule *annotations.HttpRule) (method, path string) {
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return "get", p.Get
	case *annotations.HttpRule_Put:
		return "put", p.Put
	case *annotations.HttpRule_Post:
		return "post", p.Post
	case *annotations.HttpRule_Delete:
		return "delete", p.Delete
	case *annotations.HttpRule_Patch:
		return "patch", p.Patch
	}
	return "", ""
}

// who says who may call a procedure.
func who(r auth.Rule) string {
	switch {
	case r.Public:
		return "Needs no token."
	case r.Operator:
		return "Needs the role `" + r.Role + "` in the hub's first organisation."
	default:
		return "Needs the role `" + r.Role + "` or a higher one."
	}
}

// parameter returns a parameter for a field.
func (d *document) parameter(f protoreflect.FieldDescriptor, name, in string) object {
	schema := d.field(f)
	out := object{"name": name, "in": in, "schema": schema}
	if text, ok := schema["description"]; ok {
		out["description"] = text
		delete(schema, "description")
	}
	if in == "path" || needed(f) {
		out["required"] = true
	}
	return out
}

// query returns parameters for the fields of a request that are not in its path. A field of
// a message within is named by its path: jail.nodeId.
func (d *document) query(m protoreflect.MessageDescriptor, prefix string, without map[protoreflect.Name]bool, depth int) ([]any, error) {
	var out []any
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name := prefix + f.JSONName()
		switch {
		case without[f.Name()]:
		case f.IsMap() || f.IsList() && f.Kind() == protoreflect.MessageKind:
			return nil, fmt.Errorf("%s cannot be a parameter: give the method a body", name)
		case f.Kind() == protoreflect.MessageKind && wellKnown[f.Message().FullName()] == nil:
			if depth > 2 {
				return nil, fmt.Errorf("%s is too deep to be a parameter", name)
			}
			inner, err := d.query(f.Message(), name+".", nil, depth+1)
			if err != nil {
				return nil, err
			}
			for _, p := range inner {
				delete(p.(object), "required") //nolint:forcetypeassert // query returns objects
			}
			out = append(out, inner...)
		default:
			out = append(out, d.parameter(f, name, "query"))
		}
	}
	return out, nil
}

// body returns the request's body: its fields but for those in the path.
func (d *document) body(m protoreflect.MethodDescriptor, inPath map[protoreflect.Name]bool) object {
	name := nameOf(m.Input())
	schema := d.message(m.Input(), inPath)
	if len(inPath) > 0 {
		name = string(m.Name()) + "Body"
	}
	d.schemas[name] = schema
	media := object{"schema": ref(name)}
	if example, ok := examples[string(m.Name())]; ok {
		media["example"] = example
	}
	_, required := schema["required"]
	return object{"required": required, "content": object{"application/json": media}}
}

// responses returns the responses of a method.
func (d *document) responses(m protoreflect.MethodDescriptor, method string, access auth.Rule) object {
	d.add(m.Output())
	text := comment(m.Output())
	if text == "" {
		text = "The result."
	}
	ok := object{"description": text, "content": object{"application/json": object{"schema": ref(nameOf(m.Output()))}}}
	headers := object{"Deckhand-Correlation-Id": object{"$ref": "#/components/headers/CorrelationId"}}
	codes := []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
	if !access.Public {
		codes = append(codes, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict)
		headers["RateLimit"] = object{"$ref": "#/components/headers/RateLimit"}
		headers["RateLimit-Policy"] = object{"$ref": "#/components/headers/RateLimitPolicy"}
	}
	out := object{}
	switch {
	case method == "get":
		headers["ETag"] = object{"$ref": "#/components/headers/ETag"}
		out["304"] = object{"$ref": "#/components/responses/NotModified"}
	case !access.Public:
		headers["Idempotency-Replayed"] = object{"$ref": "#/components/headers/IdempotencyReplayed"}
		codes = append(codes, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge)
	}
	ok["headers"] = headers
	out["200"] = ok
	for _, code := range codes {
		out[fmt.Sprint(code)] = object{"$ref": "#/components/responses/" + responseName(code)}
	}
	out["default"] = object{"$ref": "#/components/responses/Problem"}
	return out
}

// responseName is the name of an error's response.
func responseName(code int) string {
	return strings.ReplaceAll(http.StatusText(code), " ", "")
}

// finish returns the whole document.
func (d *document) finish() object {
	slices.SortFunc(d.tags, func(a, b object) int { return strings.Compare(a["name"].(string), b["name"].(string)) }) //nolint:forcetypeassert // set here
	for path, item := range streams() {
		d.paths[path] = item
	}
	d.schemas["Problem"], d.schemas["FieldError"] = problem, fieldError
	d.stream()
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Deckhand API", "version": "v1",
			"description": "The API of a Deckhand hub as REST with JSON. Every path is also an RPC (Connect, gRPC and gRPC-Web) with the same rights and limits.\n\n" +
				"Field names are lower camel case, and the names of the protos are accepted as well. 64-bit integers are strings. Fields with their default value are sent, except for messages that are not set. " +
				"A field or parameter that does not exist is refused. Ids may be shortened to a unique prefix.",
			"license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":    []any{object{"url": "/", "description": "This hub"}},
		"security":   []any{object{"token": []any{}}, object{"session": []any{}}},
		"tags":       d.tags,
		"paths":      d.paths,
		"components": components(d.schemas),
	}
}
