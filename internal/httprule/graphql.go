package httprule

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// Limits of a GraphQL request that can be read.
const (
	maxBatch    = 100       // requests in one body
	maxDocument = 256 << 10 // bytes of a document
	maxTokens   = 20_000    // of a document
)

// graphqlRequest is what GraphQL over HTTP sends, as a JSON object or in a query.
type graphqlRequest struct {
	document  string
	operation string // operationName
	// documentID is the SHA-256 by which a persisted query is looked up, in hex.
	documentID string
}

// Operations returns the types of the operations that a GraphQL request may run:
// query, mutation or subscription, each once, in alphabetic order. These are the
// type of the operation that operationName chooses, and without a choice those
// of all operations in the document, of all requests in a batch.
//
// It reads POST with a body of application/json (an object, or an array of them)
// or application/graphql, and GET with the document in the query. It refuses
// what servers read in different ways, or what cannot be read: duplicate and
// misspelt JSON keys, parameters both in the URL and the body, persisted queries
// without a document, forms, and content encodings.
//
// Variables may have any size: the caller limits the body.
func Operations(method string, u *url.URL, header http.Header, body []byte) ([]string, error) {
	var requests []graphqlRequest
	var err error
	switch method {
	case http.MethodGet:
		if len(body) > 0 {
			return nil, errors.New("the GraphQL request is a GET with a body; send the document in the query, or use POST")
		}
		requests, err = fromQuery(u)
	case http.MethodPost:
		if err := noParameters(u); err != nil {
			return nil, err
		}
		requests, err = fromBody(header, body)
	default:
		return nil, fmt.Errorf("a GraphQL request with the method %.40q cannot be read; use POST", method)
	}
	if err != nil {
		return nil, err
	}
	var types []string
	for _, r := range requests {
		found, err := r.types()
		if err != nil {
			return nil, err
		}
		types = append(types, found...)
	}
	slices.Sort(types)
	return slices.Compact(types), nil
}

// parameters are the names of what a request may have; persisted are names by
// which servers look up a document that they have.
var (
	parameters = []string{"query", "operationName", "variables", "extensions"}
	persisted  = []string{"id", "queryid", "query_id", "documentid", "document_id", "doc_id", "docid", "hash", "operationid", "persistedquery", "operations", "map"}
)

// parameter returns which parameter a lenient server may take a name for: Go's
// JSON decoder does not care about case, and PHP trims names and cuts them.
func parameter(name string) string {
	name = strings.TrimLeft(name, " ")
	if i := strings.IndexAny(name, "[\x00"); i >= 0 {
		name = name[:i]
	}
	for _, p := range parameters {
		if strings.EqualFold(p, name) {
			return p
		}
	}
	if slices.Contains(persisted, strings.ToLower(name)) {
		return strings.ToLower(name)
	}
	return ""
}

func urlParameters(u *url.URL) (url.Values, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the query of the GraphQL request has an invalid escape or a semicolon in it; encode them")
	}
	return values, nil
}

func noParameters(u *url.URL) error {
	values, err := urlParameters(u)
	if err != nil {
		return err
	}
	for name := range values {
		if p := parameter(name); p != "" {
			return fmt.Errorf("the URL of the GraphQL request has the parameter %.40q, which some servers prefer to the body; send it in the body only", name)
		}
	}
	return nil
}

func fromQuery(u *url.URL) ([]graphqlRequest, error) {
	values, err := urlParameters(u)
	if err != nil {
		return nil, err
	}
	for name, list := range values {
		switch p := parameter(name); {
		case p == "":
		case !slices.Contains(parameters, name):
			return nil, unknownKey(name)
		case len(list) > 1:
			return nil, fmt.Errorf("the query of the GraphQL request has the parameter %s twice; send it once", name)
		}
	}
	out := graphqlRequest{document: values.Get("query"), operation: values.Get("operationName")}
	if extensions := values.Get("extensions"); extensions != "" {
		if out.documentID, err = persistedID(jsontext.Value(extensions)); err != nil {
			return nil, err
		}
	}
	return []graphqlRequest{out}, nil
}

func fromBody(header http.Header, body []byte) ([]graphqlRequest, error) {
	if len(header.Values("Content-Type")) != 1 {
		return nil, errors.New("the GraphQL request needs the header field Content-Type, once; send application/json")
	}
	media, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return nil, errors.New("the Content-Type of the GraphQL request cannot be read; send application/json")
	}
	if encoded := header.Get("Content-Encoding"); encoded != "" {
		return nil, fmt.Errorf("a GraphQL request with the content encoding %.40q cannot be read; send it without one", encoded)
	}
	if c, ok := params["charset"]; ok && !strings.EqualFold(c, "utf-8") {
		return nil, fmt.Errorf("a GraphQL request in the character set %.40q cannot be read; use UTF-8", c)
	}
	switch media {
	case "application/json":
		return fromJSON(body)
	case "application/graphql":
		return []graphqlRequest{{document: string(body)}}, nil
	}
	return nil, fmt.Errorf("a GraphQL request of the type %.40q cannot be read; send application/json", media)
}

func fromJSON(body []byte) ([]graphqlRequest, error) {
	// The decoder refuses duplicate keys and invalid UTF-8, at any depth.
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	var out []graphqlRequest
	batch := d.PeekKind() == '['
	if batch {
		if _, err := d.ReadToken(); err != nil {
			return nil, jsonError(err)
		}
	}
	for !batch || d.PeekKind() == '{' {
		r, err := fromObject(d)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
		if !batch {
			break
		}
		if len(out) > maxBatch {
			return nil, fmt.Errorf("the GraphQL request is a batch of more than %d; send smaller ones", maxBatch)
		}
	}
	if batch {
		switch t, err := d.ReadToken(); {
		case err != nil:
			return nil, jsonError(err)
		case t.Kind() != ']' || len(out) == 0:
			return nil, errors.New("the GraphQL request is a batch with something that is not an object, or empty; send an array of objects")
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the GraphQL request has something after its JSON; send one JSON value")
	}
	return out, nil
}

func jsonError(err error) error {
	return fmt.Errorf("the GraphQL request is not valid JSON without duplicate keys: %w", err)
}

func unknownKey(name string) error {
	return fmt.Errorf("the GraphQL request has the parameter %.40q, which servers read in different ways; send query, operationName, variables and extensions", name)
}

func fromObject(d *jsontext.Decoder) (graphqlRequest, error) {
	var out graphqlRequest
	if d.PeekKind() != '{' {
		return out, errors.New("the GraphQL request is not a JSON object with a query")
	}
	if _, err := d.ReadToken(); err != nil {
		return out, jsonError(err)
	}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return out, jsonError(err)
		}
		name := key.String()
		if !slices.Contains(parameters, name) {
			return out, unknownKey(name)
		}
		value, err := d.ReadValue()
		if err != nil {
			return out, jsonError(err)
		}
		switch name {
		case "query":
			out.document, err = jsonString(name, value)
		case "operationName":
			out.operation, err = jsonString(name, value)
		case "extensions":
			out.documentID, err = persistedID(value)
		}
		if err != nil {
			return out, err
		}
	}
	_, err := d.ReadToken()
	return out, err
}

// jsonString returns a string, "" for null.
func jsonString(name string, value jsontext.Value) (string, error) {
	if value.Kind() == 'n' {
		return "", nil
	}
	if value.Kind() != '"' {
		return "", fmt.Errorf("the parameter %s of the GraphQL request is not a string", name)
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err
}

// persistedID returns extensions.persistedQuery.sha256Hash; "" without a
// persisted query.
func persistedID(extensions jsontext.Value) (string, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(extensions))
	if d.PeekKind() != '{' {
		if extensions.Kind() == 'n' {
			return "", nil
		}
		return "", errors.New("the extensions of the GraphQL request are not an object")
	}
	hash, found := "", false
	for {
		t, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && found && hash == "":
			return "", errors.New("the GraphQL request is for a persisted query without a sha256Hash, which cannot be read; send the document")
		case errors.Is(err, io.EOF):
			return hash, nil
		case err != nil:
			return "", jsonError(err)
		}
		kind, _ := d.StackIndex(d.StackDepth())
		switch {
		case kind != '{' || t.Kind() != '"':
			continue
		case d.StackDepth() == 1 && strings.EqualFold(t.String(), "persistedQuery"):
			found = true
		case d.StackDepth() == 2 && strings.EqualFold(t.String(), "sha256Hash"):
			if d.PeekKind() == '"' {
				value, err := d.ReadToken()
				if err != nil {
					return "", jsonError(err)
				}
				hash = value.String()
			}
		}
	}
}

// types returns the types of the operations that a request may run.
func (r graphqlRequest) types() ([]string, error) {
	switch {
	case r.document == "" && r.documentID != "":
		return nil, errors.New("the GraphQL request is for a persisted query, whose document is not in it; send the document")
	case r.document == "":
		return nil, errors.New("the GraphQL request has no query; send the document as query")
	case len(r.document) > maxDocument:
		return nil, fmt.Errorf("the GraphQL document has %d bytes; at most %d are read", len(r.document), maxDocument)
	}
	if sum := sha256.Sum256([]byte(r.document)); r.documentID != "" && !strings.EqualFold(r.documentID, hex.EncodeToString(sum[:])) {
		return nil, errors.New("the hash of the persisted query is not that of the document; send the document only")
	}
	if err := checkDocument(r.document); err != nil {
		return nil, err
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: r.document}, maxTokens)
	if err != nil {
		return nil, fmt.Errorf("the GraphQL document cannot be parsed: %w", err)
	}
	var types, names []string
	for _, o := range doc.Operations {
		if o.Name != "" && slices.Contains(names, o.Name) {
			return nil, fmt.Errorf("the GraphQL document has two operations with the name %.40q; give each its own", o.Name)
		}
		names = append(names, o.Name)
		if r.operation != "" && o.Name == r.operation {
			types = []string{string(o.Operation)}
		}
	}
	switch {
	case len(doc.Operations) == 0:
		return nil, errors.New("the GraphQL document has no operation")
	case r.operation != "" && types == nil:
		return nil, fmt.Errorf("the GraphQL document has no operation with the name %.40q, which operationName chooses", r.operation)
	case types == nil:
		for _, o := range doc.Operations {
			types = append(types, string(o.Operation))
		}
	}
	return types, nil
}

// checkDocument refuses characters about which lexers differ: some end a line,
// and with it a comment, at a lone carriage return or at U+2028.
func checkDocument(document string) error {
	if !utf8.ValidString(document) {
		return errors.New("the GraphQL document is not valid UTF-8")
	}
	for i, c := range document {
		switch {
		case c == '\t' || c == '\n' || c == '\r' && strings.HasPrefix(document[i:], "\r\n"):
		case c < ' ' || c == 0x7f || c == 0x85 || c == '\u2028' || c == '\u2029' || c == '\ufeff':
			return fmt.Errorf("the GraphQL document has the character %U in it; send text in variables", c)
		}
	}
	return nil
}
