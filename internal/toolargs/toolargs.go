// Package toolargs validates the arguments of a tool call against the tool's
// JSON Schema (draft 2020-12). A model writes the arguments, so their size and
// depth are bounded, and errors are worded so that a model can correct its
// call.
package toolargs

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// MaxBytes bounds a call's arguments.
	MaxBytes = 4 << 20
	// MaxDepth bounds how deep they nest.
	MaxDepth = 64
	// maxProblems bounds an error's length.
	maxProblems = 10
)

// Check returns the arguments as a JSON object, numbers as float64. The error
// is a *fault.Error of kind Invalid with code AGENT_012 that names the fields
// at fault; it is Internal when the tool's own schema is no schema.
func Check(tool *deckhandv1.Tool, argumentsJSON string) (map[string]any, error) {
	if len(argumentsJSON) > MaxBytes {
		return nil, invalid(tool, "the arguments have %d bytes: at most %d are allowed", len(argumentsJSON), MaxBytes)
	}
	exact, err := decode(argumentsJSON)
	if err != nil {
		return nil, invalid(tool, "the arguments are not valid JSON: %s", err)
	}
	if _, ok := exact.(map[string]any); !ok {
		return nil, invalid(tool, "the arguments must be a JSON object, not %s", kindOf(exact))
	}
	schema, err := schemas.get(tool)
	if err != nil {
		return nil, fault.New(fault.Internal, "tool %s has a broken schema", tool.GetName()).WithCause(err)
	}
	if err := schema.Validate(exact); err != nil {
		var failed *jsonschema.ValidationError
		if !errors.As(err, &failed) {
			return nil, invalid(tool, "%s", err)
		}
		return nil, invalid(tool, "%s", strings.Join(problems(failed), "; "))
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(argumentsJSON), &out); err != nil {
		return nil, invalid(tool, "the arguments are not valid JSON: %s", err)
	}
	return out, nil
}

// Valid returns why a tool's schema cannot be used to check arguments, or nil.
func Valid(tool *deckhandv1.Tool) error {
	_, err := compile(tool)
	return err
}

func invalid(tool *deckhandv1.Tool, format string, args ...any) error {
	return fault.New(fault.Invalid, "wrong arguments for %s: %s", tool.GetName(), fmt.Sprintf(format, args...)).
		WithCode(fault.InvalidParameters).WithFix("call it with %s", signature(tool))
}

// decode reads one JSON value, numbers kept exact, no deeper than MaxDepth and
// with no key twice: of two, different readers take different ones.
func decode(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	value, err := decodeValue(dec, 0)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("the text ends before the value does")
		}
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more text behind the value")
	}
	return value, nil
}

func decodeValue(dec *json.Decoder, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("it nests deeper than %d levels", MaxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			item, err := decodeValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err := dec.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			if _, twice := object[name]; twice {
				return nil, fmt.Errorf("the key %s is there twice", quote(name))
			}
			if object[name], err = decodeValue(dec, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token()
		return object, err
	default:
		if number, ok := token.(json.Number); ok && !bounded(number) {
			return nil, fmt.Errorf("the number %s is out of range", quote(number.String()))
		}
		return token, nil
	}
}

// bounded reports whether a number is cheap to compare exactly: 1e999999999 has
// ten characters and a billion digits.
func bounded(n json.Number) bool {
	if len(n) > 64 {
		return false
	}
	_, exponent, ok := strings.Cut(strings.ToLower(n.String()), "e")
	if !ok {
		return true
	}
	e, err := strconv.Atoi(exponent)
	return err == nil && e >= -300 && e <= 300
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	default:
		return "a list"
	}
}

// problems returns the leaves of a validation error, one line each.
func problems(failed *jsonschema.ValidationError) []string {
	printer := message.NewPrinter(language.English)
	var out []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && len(out) < maxProblems {
			line := e.ErrorKind.LocalizedString(printer)
			if place := field(e.InstanceLocation); place != "" {
				line = place + ": " + line
			}
			const limit = 400
			line = textcut.Bytes(line, limit, "…")
			if !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(failed)
	return out
}

// field writes a place as people do: items[2].status.
func field(path []string) string {
	var out strings.Builder
	for _, part := range path {
		switch _, err := strconv.Atoi(part); {
		case err == nil:
			out.WriteString("[" + part + "]")
		case out.Len() > 0:
			out.WriteString("." + part)
		default:
			out.WriteString(part)
		}
	}
	return out.String()
}

// signature sums up what a tool takes: {command: string, cwd?: string}.
func signature(tool *deckhandv1.Tool) string {
	fields := tool.GetInputSchema().GetFields()
	var required []string
	for _, name := range fields["required"].GetListValue().GetValues() {
		required = append(required, name.GetStringValue())
	}
	properties := fields["properties"].GetStructValue().GetFields()
	var parts []string
	for name, property := range properties {
		optional := "?"
		if slices.Contains(required, name) {
			optional = ""
		}
		kind := property.GetStructValue().GetFields()["type"].GetStringValue()
		if kind == "" {
			kind = "any"
		}
		parts = append(parts, name+optional+": "+kind)
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ", ") + "}"
}

func quote(s string) string {
	const limit = 60
	return strconv.Quote(textcut.Bytes(s, limit, "…"))
}

// schemas remembers compiled schemas by their content: compiling one costs more
// than a thousand checks. It holds nothing that could not be computed again.
var schemas cache

// maxSchemas bounds the cache; past it, it starts again.
const maxSchemas = 1000

type cache struct {
	mu       sync.Mutex
	compiled map[[sha256.Size]byte]*jsonschema.Schema
	// known spares those who check many calls against one schema the digest.
	known map[*structpb.Struct]*jsonschema.Schema
}

func (c *cache) get(tool *deckhandv1.Tool) (*jsonschema.Schema, error) {
	c.mu.Lock()
	known := c.known[tool.GetInputSchema()]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	schema, err := c.byDigest(tool)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxSchemas {
		c.known = map[*structpb.Struct]*jsonschema.Schema{}
	}
	c.known[tool.GetInputSchema()] = schema
	return schema, nil
}

func (c *cache) byDigest(tool *deckhandv1.Tool) (*jsonschema.Schema, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(tool.GetInputSchema())
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	key := sha256.Sum256(encoded)
	c.mu.Lock()
	defer c.mu.Unlock()
	if schema, ok := c.compiled[key]; ok {
		return schema, nil
	}
	schema, err := compile(tool)
	if err != nil {
		return nil, err
	}
	if c.compiled == nil || len(c.compiled) >= maxSchemas {
		c.compiled = map[[sha256.Size]byte]*jsonschema.Schema{}
	}
	c.compiled[key] = schema
	return schema, nil
}

func compile(tool *deckhandv1.Tool) (*jsonschema.Schema, error) {
	text, err := json.Marshal(tool.GetInputSchema().AsMap())
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	const url = "tool.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	// A schema may refer to itself only: nothing is loaded from anywhere.
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("add the schema: %w", err)
	}
	schema, err := compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	return schema, nil
}

type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a tool's schema may not refer to %s", url)
}
