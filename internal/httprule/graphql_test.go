package httprule_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/httprule"
)

func operations(method, target, contentType, body string) ([]string, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return httprule.Operations(method, u, header, []byte(body))
}

const jsonType = "application/json"

// object returns a GraphQL request in JSON.
func object(pairs ...string) string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		value, _ := json.Marshal(pairs[i+1])
		out = append(out, `"`+pairs[i]+`":`+string(value))
	}
	return "{" + strings.Join(out, ",") + "}"
}

func TestOperationsOfGraphQLRequests(t *testing.T) {
	t.Parallel()
	const several = "query A {a} mutation B {b} subscription C {c} fragment F on T {x}"
	sum := sha256.Sum256([]byte("{a}"))
	for name, c := range map[string]struct {
		method, target, contentType, body string
		want                              []string
	}{
		"shorthand":            {"POST", "/graphql", jsonType, object("query", "{a}"), []string{"query"}},
		"mutation":             {"POST", "/graphql", jsonType, object("query", "mutation {a}"), []string{"mutation"}},
		"with everything":      {"POST", "/graphql?pretty", jsonType + "; charset=UTF-8", `{"operationName":null,"variables":{"query":"mutation{x}","a":[{"id":1}]},"extensions":{"a":1},"query":"query($a:[I!]=[1]) @d {a(x:\"}\") ...F} fragment F on T {mutation}"}`, []string{"query"}},
		"a comment":            {"POST", "/", jsonType, object("query", "# mutation {a}\n{a} # }\r\n"), []string{"query"}},
		"a block string":       {"POST", "/", jsonType, object("query", `{a(x:"""} mutation {b} \""" """)}`), []string{"query"}},
		"an escaped document":  {"POST", "/", jsonType, `{"\u0071uery":"\u006dutation{a}"}`, []string{"mutation"}},
		"all without a choice": {"POST", "/", jsonType, object("query", several), []string{"mutation", "query", "subscription"}},
		"an empty choice":      {"POST", "/", jsonType, object("query", several, "operationName", ""), []string{"mutation", "query", "subscription"}},
		"the chosen one":       {"POST", "/", jsonType, object("query", several, "operationName", "A"), []string{"query"}},
		"another one":          {"POST", "/", jsonType, object("operationName", "B", "query", several), []string{"mutation"}},
		"named after a type":   {"POST", "/", jsonType, object("query", "query mutation {a}"), []string{"query"}},
		"a batch":              {"POST", "/", jsonType, "[" + object("query", "{a}") + "," + object("query", "mutation {a}") + "]", []string{"mutation", "query"}},
		"plain":                {"POST", "/", "application/graphql", "subscription {a}", []string{"subscription"}},
		"GET":                  {"GET", "/?access=1&query=mutation+M+%7Ba%7D&operationName=M&variables=%7B%7D", "", "", []string{"mutation"}},
		"persisted, with text": {"POST", "/", jsonType, `{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + hex.EncodeToString(sum[:]) + `"}}}`, []string{"query"}},
	} {
		got, err := operations(c.method, c.target, c.contentType, c.body)
		if assert.NoError(t, err, name) {
			assert.Equal(t, c.want, got, name)
		}
	}
}

func TestGraphQLRequestsThatCannotBeReadAreRefused(t *testing.T) {
	t.Parallel()
	ok := object("query", "{a}")
	for name, c := range map[string]struct{ method, target, contentType, body, why string }{
		"PUT":                   {"PUT", "/", jsonType, ok, "use POST"},
		"no type":               {"POST", "/", "", ok, "send application/json"},
		"text":                  {"POST", "/", "text/plain", ok, "send application/json"},
		"a form":                {"POST", "/", "application/x-www-form-urlencoded", "query={a}", "send application/json"},
		"multipart":             {"POST", "/", "multipart/form-data; boundary=a", "--a", "send application/json"},
		"UTF-16":                {"POST", "/", jsonType + "; charset=utf-16", ok, "use UTF-8"},
		"empty":                 {"POST", "/", jsonType, "", "not a JSON object"},
		"not JSON":              {"POST", "/", jsonType, "{", "not valid JSON"},
		"a trailing comma":      {"POST", "/", jsonType, `{"query":"{a}",}`, "JSON"},
		"a string":              {"POST", "/", jsonType, `"{a}"`, "not a JSON object"},
		"null":                  {"POST", "/", jsonType, `{"query":null}`, "has no query"},
		"a number":              {"POST", "/", jsonType, `{"query":1}`, "not a string"},
		"duplicate keys":        {"POST", "/", jsonType, `{"query":"{a}","query":"mutation{a}"}`, "duplicate"},
		"escaped duplicate":     {"POST", "/", jsonType, `{"query":"{a}","\u0071uery":"mutation{a}"}`, "duplicate"},
		"duplicate variables":   {"POST", "/", jsonType, `{"query":"{a}","variables":{"a":1,"a":2}}`, "duplicate"},
		"another case":          {"POST", "/", jsonType, `{"query":"{a}","Query":"mutation{a}"}`, "servers read in different ways"},
		"an unknown key":        {"POST", "/", jsonType, `{"query":"{a}","doc_id":"1"}`, "servers read in different ways"},
		"invalid UTF-8":         {"POST", "/", jsonType, "{\"query\":\"{a(b:\\\"\xff\\\")}\"}", "UTF-8"},
		"a byte order mark":     {"POST", "/", jsonType, "\ufeff" + ok, "JSON"},
		"two values":            {"POST", "/", jsonType, ok + ok, "after its JSON"},
		"rubbish after":         {"POST", "/", jsonType, ok + "x", "after its JSON"},
		"an empty batch":        {"POST", "/", jsonType, "[]", "batch"},
		"a batch of batches":    {"POST", "/", jsonType, "[[" + ok + "]]", "batch"},
		"a batch with null":     {"POST", "/", jsonType, "[" + ok + ",null]", "batch"},
		"a large batch":         {"POST", "/", jsonType, "[" + strings.Repeat(ok+",", 100) + ok + "]", "more than 100"},
		"an open batch":         {"POST", "/", jsonType, "[" + ok, "JSON"},
		"a query beside it":     {"POST", "/?query=mutation{a}", jsonType, ok, "prefer to the body"},
		"a name beside it":      {"POST", "/?operationName=B", "application/graphql", "{a}", "prefer to the body"},
		"in PHP's words":        {"POST", "/?query[]=x", jsonType, ok, "prefer to the body"},
		"a broken query":        {"POST", "/?a=%zz", jsonType, ok, "invalid escape"},
		"GET with a body":       {"GET", "/?query={a}", "", "{a}", "GET with a body"},
		"GET without query":     {"GET", "/", "", "", "has no query"},
		"GET with two":          {"GET", "/?query={a}&query=mutation{a}", "", "", "twice"},
		"GET in another case":   {"GET", "/?query={a}&QUERY=mutation{a}", "", "", "different ways"},
		"GET by id":             {"GET", "/?query={a}&queryId=1", "", "", "different ways"},
		"GET with a semicolon":  {"GET", "/?query={a};query=mutation{a}", "", "", "semicolon"},
		"persisted":             {"POST", "/", jsonType, `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"aa"}}}`, "persisted query"},
		"persisted by GET":      {"GET", `/?extensions={"persistedQuery":{"sha256Hash":"aa"}}`, "", "", "persisted query"},
		"persisted differently": {"POST", "/", jsonType, `{"query":"{a}","extensions":{"persistedQuery":{"sha256Hash":"aa"}}}`, "not that of the document"},
		"persisted oddly":       {"POST", "/", jsonType, `{"query":"{a}","extensions":{"persistedQuery":{"md5":"aa"}}}`, "without a sha256Hash"},
		"odd extensions":        {"POST", "/", jsonType, `{"query":"{a}","extensions":[]}`, "not an object"},
		"a lone carriage":       {"POST", "/", jsonType, object("query", "#\r query\n mutation {b}"), "U+000D"},
		"a line separator":      {"POST", "/", jsonType, object("query", "{a} #\u2028 mutation {b}"), "U+2028"},
		"NUL":                   {"POST", "/", jsonType, object("query", "{a}\x00"), "U+0000"},
		"no operation":          {"POST", "/", jsonType, object("query", "fragment F on T {a}"), "no operation"},
		"nothing in it":         {"POST", "/", jsonType, object("query", " "), "no operation"},
		"not a document":        {"POST", "/", jsonType, object("query", "type T {a: Int}"), "cannot be parsed"},
		"ends early":            {"POST", "/", jsonType, object("query", "{a"), "cannot be parsed"},
		"the same name twice":   {"POST", "/", jsonType, object("query", "query A {a} mutation A {a}"), "two operations with the name"},
		"no such name":          {"POST", "/", jsonType, object("query", "query A {a}", "operationName", "a"), "no operation with the name"},
		"many tokens":           {"POST", "/", jsonType, object("query", "{"+strings.Repeat("a ", 30_000)+"}"), "token limit"},
		"deep":                  {"POST", "/", jsonType, object("query", strings.Repeat("{a", 5_000)), "nesting depth"},
		"long":                  {"POST", "/", jsonType, object("query", "{a}"+strings.Repeat(" ", 300<<10)), "at most"},
	} {
		got, err := operations(c.method, c.target, c.contentType, c.body)
		assert.ErrorContains(t, err, c.why, name)
		assert.Empty(t, got, name)
	}
	header := http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"gzip"}}
	_, err := httprule.Operations("POST", &url.URL{}, header, []byte(ok))
	require.ErrorContains(t, err, "content encoding")
	header = http.Header{"Content-Type": {jsonType, "application/graphql"}}
	_, err = httprule.Operations("POST", &url.URL{}, header, []byte(ok))
	require.ErrorContains(t, err, "once")
}

func FuzzOperations(f *testing.F) {
	f.Add("POST", "", jsonType, object("query", "query A {a} mutation B {b}", "operationName", "A"))
	f.Add("POST", "", jsonType, `[{"query":"{a}","variables":{"a":1},"extensions":{"persistedQuery":{"sha256Hash":"aa"}}}]`)
	f.Add("POST", "a=b", "application/graphql", `{a(x:"""b""")} # c`)
	f.Add("GET", "query={a}&operationName=x", "", "")
	f.Fuzz(func(t *testing.T, method, query, contentType, body string) {
		got, err := httprule.Operations(method, &url.URL{Path: "/", RawQuery: query}, http.Header{"Content-Type": {contentType}}, []byte(body))
		if err != nil {
			require.Empty(t, got)
			return
		}
		require.NotEmpty(t, got)
		require.True(t, slices.IsSorted(got))
		for _, o := range got {
			require.Contains(t, []string{"query", "mutation", "subscription"}, o)
		}
		// A mutation is nowhere unless its word is, in the query or the body.
		if slices.Contains(got, "mutation") && !strings.Contains(body, `\u`) && method == "POST" {
			require.Contains(t, body, "mutation")
		}
		if method == "POST" && contentType == jsonType {
			// What encoding/json makes of the body is not another document.
			var one struct{ Query string }
			if json.Unmarshal([]byte(body), &one) == nil && one.Query != "" {
				again, err := operations("POST", "/", "application/graphql", one.Query)
				require.NoError(t, err)
				for _, o := range got {
					require.Contains(t, again, o)
				}
			}
		}
	})
}
