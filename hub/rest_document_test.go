package hub_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/api/rest"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
)

// apiDocument is the OpenAPI document of a hub, with which requests and responses are
// compared.
type apiDocument struct {
	whole    map[string]any
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

func newAPIDocument(t *testing.T, h *hubtest.Hub) *apiDocument {
	t.Helper()
	res, body := restCall(t, http.MethodGet, h.URL()+"/openapi.json", "", nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	require.NoError(t, err)
	d := &apiDocument{whole: whole.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, d.compiler.AddResource("openapi.json", whole))
	return d
}

// at returns the value at a path of the document, or nil.
func (d *apiDocument) at(keys ...string) any {
	var at any = d.whole
	for _, key := range keys {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		if at = object[key]; at == nil {
			return nil
		}
		if object, ok = at.(map[string]any); ok {
			if ref, ok := object["$ref"].(string); ok {
				at = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
		}
	}
	return at
}

// valid compares a JSON text with the schema of a media type.
func (d *apiDocument) valid(t *testing.T, media any, text []byte, what string) {
	t.Helper()
	object, ok := media.(map[string]any)
	require.True(t, ok, "%s: the document has no such content", what)
	ref := object["schema"].(map[string]any)["$ref"].(string)
	schema := d.schemas[ref]
	if schema == nil {
		var err error
		schema, err = d.compiler.Compile("openapi.json" + ref)
		require.NoError(t, err)
		d.schemas[ref] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err, what)
	require.NoError(t, schema.Validate(value), "%s: %s", what, text)
}

var snake = regexp.MustCompile(`_([a-z])`)

// documented returns a route's operation.
func (d *apiDocument) documented(t *testing.T, route rest.Route) []string {
	t.Helper()
	path := strings.ReplaceAll(route.Path, "=**}", "}")
	path = snake.ReplaceAllStringFunc(path, func(s string) string { return strings.ToUpper(s[1:]) })
	keys := []string{"paths", path, strings.ToLower(route.Method)}
	require.NotNil(t, d.at(keys...), "%s %s is not in the document: run scripts/generate", route.Method, path)
	return keys
}

// A client that is generated from the document can read what the hub sends: every path is
// called, and each response, and each request that is accepted, is as the document says.
func TestRequestsAndResponsesAreAsDocumented(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s := openStore(t, h)
	own := organisation(t, h, s, "own")
	d := newAPIDocument(t, h)
	accepted, compared := 0, 0
	call := func(route rest.Route, token string, fields map[string]any) {
		t.Helper()
		what := fmt.Sprintf("%s %s", route.Method, route.Path)
		address, body := restRequest(t, h.URL(), route, fields)
		res, text := restCall(t, route.Method, address, token, body, nil)
		op := d.documented(t, route)
		require.Less(t, res.StatusCode, 600, what)
		response := d.at(append(op, "responses", fmt.Sprint(res.StatusCode), "content")...)
		if response == nil {
			response = d.at(append(op, "responses", "default", "content")...)
		}
		content, _ := response.(map[string]any)
		d.valid(t, content[res.Header.Get("Content-Type")], text, what+" returned "+res.Status)
		compared++
		if res.StatusCode != http.StatusOK {
			return
		}
		accepted++
		if sent, ok := body.(map[string]any); ok {
			// As a generated client sends it: in lower camel case.
			camel := map[string]any{}
			for name, value := range sent {
				camel[snake.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })] = value
			}
			request, err := json.Marshal(camel)
			require.NoError(t, err)
			content, _ := d.at(append(op, "requestBody", "content")...).(map[string]any)
			d.valid(t, content["application/json"], request, what+", its request")
			compared++
		}
	}
	for _, route := range rest.Routes() {
		fields := own.request(route.RPC.Input())
		call(route, "", fields)
		if rule, _ := auth.RuleOf(route.Procedure); rule.Public || !auth.Reads(route.Procedure) {
			continue
		}
		call(route, own.token, fields)
		// Lists of all, with the administrator of the hub.
		call(route, h.AdminToken, map[string]any{})
	}
	for _, route := range rest.Routes() {
		// What changes something comes last, and nothing that ends the caller's own rights.
		rule, _ := auth.RuleOf(route.Procedure)
		name := string(route.RPC.Name())
		if rule.Public || rule.Operator || auth.Reads(route.Procedure) || name == "RevokeToken" || name == "DeleteSession" || name == "UpdateUser" || name == "SetAccessRule" {
			continue
		}
		call(route, own.token, own.request(route.RPC.Input()))
	}
	t.Logf("%d requests were accepted, %d texts compared", accepted, compared)
	require.Greater(t, compared, 300)
	require.Greater(t, accepted, 80)
}
