package forge_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const secret = "token-4b7f0e1d92ac"

// thing is a pull request or a comment that a server has.
type thing struct {
	number                  int64
	head, base, title, body string
	draft, closed           bool
}

// host is a server with the API of GitHub or of GitLab. It takes only requests as those take
// them.
type host struct {
	*httptest.Server

	t        *testing.T
	mu       sync.Mutex
	requests []thing // guarded by mu, as those below
	comments []thing
	// next handles the next request that creates something, instead of the API: it may have
	// been created before.
	next    func(w http.ResponseWriter)
	records []egresslink.Record
}

func newHost(t *testing.T, api forge.API) *host {
	t.Helper()
	h := &host{t: t}
	serve := h.gitHub
	if api == forge.GitLab {
		serve = h.gitLab
	}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		serve(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *host) access(api forge.API) forge.Access {
	a := forge.Access{
		API: api, BaseURL: h.URL, Credential: "forge", Roots: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})),
		Insert: func(_ context.Context, req *http.Request) ([]string, error) {
			if api == forge.GitLab {
				req.Header.Set("Private-Token", secret)
			} else {
				req.Header.Set("Authorization", "Bearer "+secret)
			}
			return []string{secret}, nil
		},
		Record: func(_ context.Context, r egresslink.Record) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.records = append(h.records, r)
			return nil
		},
		Dial: (&net.Dialer{}).DialContext,
	}
	if api == forge.GitHub {
		a.BaseURL += "/api/v3"
	}
	return a
}

func (h *host) client(api forge.API) *forge.Client {
	h.t.Helper()
	c, err := forge.New(h.access(api), "acme/web")
	require.NoError(h.t, err)
	return c
}

// body decodes a request's body, which may have these fields and no others.
func body(w http.ResponseWriter, r *http.Request, into any) bool {
	if r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return false
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"message":%q}`, err.Error())
		return false
	}
	return true
}

func write(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// created replies to a request that has created something.
func (h *host) created(w http.ResponseWriter, v any) {
	if next := h.next; next != nil {
		h.next = nil
		next(w)
		return
	}
	write(w, http.StatusCreated, v)
}

func (h *host) gitHub(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+secret {
		write(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials: " + r.Header.Get("Authorization")})
		return
	}
	if r.Header.Get("Accept") != "application/vnd.github+json" || r.Header.Get("X-GitHub-Api-Version") != "2022-11-28" || r.Header.Get("User-Agent") == "" {
		write(w, http.StatusBadRequest, map[string]any{"message": "headers"})
		return
	}
	shown := func(p thing) map[string]any {
		state := "open"
		if p.closed {
			state = "closed"
		}
		return map[string]any{"id": 9000 + p.number, "number": p.number, "html_url": fmt.Sprintf("https://github.test/acme/web/pull/%d", p.number), "body": p.body, "state": state}
	}
	path, found := strings.CutPrefix(r.URL.Path, "/api/v3/repos/acme/web")
	switch q := r.URL.Query(); {
	case !found:
		write(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
	case r.Method == http.MethodGet && path == "/pulls":
		out := []any{}
		for i := len(h.requests) - 1; i >= 0; i-- {
			if p := h.requests[i]; "acme:"+p.head == q.Get("head") && p.base == q.Get("base") && (q.Get("state") == "all" || q.Get("state") == "open" && !p.closed) {
				out = append(out, shown(p))
			}
		}
		write(w, http.StatusOK, out)
	case r.Method == http.MethodPost && path == "/pulls":
		var in struct {
			Title, Head, Base, Body string
			Draft                   bool
		}
		if !body(w, r, &in) {
			return
		}
		if in.Head == "gone" {
			write(w, http.StatusUnprocessableEntity, map[string]any{"message": "Validation Failed", "errors": []any{map[string]any{"resource": "PullRequest", "field": "head", "code": "invalid"}}})
			return
		}
		for _, p := range h.requests {
			if p.head == in.Head && p.base == in.Base && !p.closed {
				write(w, http.StatusUnprocessableEntity, map[string]any{"message": "Validation Failed", "errors": []any{map[string]any{"resource": "PullRequest", "code": "custom", "message": "A pull request already exists for acme:" + in.Head + "."}}})
				return
			}
		}
		p := thing{number: int64(len(h.requests) + 1), head: in.Head, base: in.Base, title: in.Title, body: in.Body, draft: in.Draft}
		h.requests = append(h.requests, p)
		h.created(w, shown(p))
	case r.Method == http.MethodGet && path == "/pulls/1" && len(h.requests) > 0:
		write(w, http.StatusOK, shown(h.requests[0]))
	case r.Method == http.MethodGet && path == "/issues/1/comments":
		assert.NotEmpty(h.t, q.Get("since"))
		out := []any{}
		var page int
		_, _ = fmt.Sscan(q.Get("page"), &page)
		for i := (page - 1) * 100; i < min(page*100, len(h.comments)); i++ {
			out = append(out, shown(h.comments[i]))
		}
		write(w, http.StatusOK, out)
	case r.Method == http.MethodPost && path == "/issues/1/comments":
		var in struct{ Body string }
		if !body(w, r, &in) {
			return
		}
		c := thing{number: int64(len(h.comments) + 1), body: in.Body}
		h.comments = append(h.comments, c)
		h.created(w, shown(c))
	default:
		write(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
	}
}

func (h *host) gitLab(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Private-Token") != secret {
		write(w, http.StatusUnauthorized, map[string]any{"message": "401 Unauthorized"})
		return
	}
	shown := func(p thing) map[string]any {
		return map[string]any{"id": 9000 + p.number, "iid": p.number, "web_url": fmt.Sprintf("https://gitlab.test/acme/web/-/merge_requests/%d", p.number), "description": p.body, "state": "opened"}
	}
	path, found := strings.CutPrefix(r.URL.EscapedPath(), "/api/v4/projects/acme%2Fweb")
	switch q := r.URL.Query(); {
	case !found:
		write(w, http.StatusNotFound, map[string]any{"message": "404 Project Not Found"})
	case r.Method == http.MethodGet && path == "/merge_requests":
		out := []any{}
		for i := len(h.requests) - 1; i >= 0; i-- {
			if p := h.requests[i]; p.head == q.Get("source_branch") && p.base == q.Get("target_branch") {
				out = append(out, shown(p))
			}
		}
		write(w, http.StatusOK, out)
	case r.Method == http.MethodPost && path == "/merge_requests":
		var in struct {
			Source      string `json:"source_branch"`
			Target      string `json:"target_branch"`
			Title       string
			Description string
		}
		if !body(w, r, &in) {
			return
		}
		for _, p := range h.requests {
			if p.head == in.Source {
				write(w, http.StatusConflict, map[string]any{"message": []any{"Another open merge request already exists for this source branch: !1"}})
				return
			}
		}
		p := thing{number: int64(len(h.requests) + 1), head: in.Source, base: in.Target, title: in.Title, body: in.Description}
		h.requests = append(h.requests, p)
		h.created(w, shown(p))
	case r.Method == http.MethodGet && path == "/merge_requests/1/notes":
		out := []any{}
		for i := len(h.comments) - 1; i >= 0; i-- {
			out = append(out, map[string]any{"id": h.comments[i].number, "body": h.comments[i].body, "created_at": time.Now()})
		}
		write(w, http.StatusOK, out)
	case r.Method == http.MethodPost && path == "/merge_requests/1/notes":
		var in struct{ Body string }
		if !body(w, r, &in) {
			return
		}
		c := thing{number: int64(len(h.comments) + 1), body: in.Body}
		h.comments = append(h.comments, c)
		h.created(w, map[string]any{"id": c.number, "body": c.body})
	default:
		write(w, http.StatusNotFound, map[string]any{"message": "404 Not found"})
	}
}

// lost breaks the connection, as when the hub or the way dies before the response is there.
func lost(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// failed is a server that fails after it has done its work.
func failed(w http.ResponseWriter) {
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, "<html>bad gateway</html>")
}

func request(marker string) forge.PullRequest {
	return forge.PullRequest{Head: "deckhand/fix", Base: "main", Title: "Fix it", Body: "Because.", Draft: true, Marker: forge.Marker(marker)}
}

func TestAPullRequestIsOpenedOnceForAMarker(t *testing.T) {
	t.Parallel()
	for _, api := range []forge.API{forge.GitHub, forge.GitLab} {
		for name, next := range map[string]func(http.ResponseWriter){"answered": nil, "lost": lost, "failed": failed} {
			t.Run(string(api)+" "+name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, api)
				h.next = next
				for range 2 { // the second is what a hub does that died before it stored the first
					w, err := h.client(api).Open(t.Context(), request("step_1"))
					require.NoError(t, err)
					assert.Equal(t, int64(1), w.Number)
					assert.False(t, w.Existed)
					assert.Contains(t, w.URL, "/acme/web/")
				}
				require.Len(t, h.requests, 1)
				p := h.requests[0]
				assert.Equal(t, "Because.\n\n<!-- deckhand:step_1 -->", p.body)
				assert.Equal(t, "deckhand/fix", p.head)
				assert.Equal(t, "main", p.base)
				assert.True(t, p.draft || p.title == "Draft: Fix it")
				for _, r := range h.records {
					assert.NotContains(t, r.Path, "fix", "values of queries are masked")
					assert.True(t, r.Status > 0 || r.Problem != "")
				}
				assert.NotEmpty(t, h.records)
			})
		}
	}
}

// Somebody else's, or that of another step, is returned and stays as it is.
func TestAPullRequestThatExistsIsReturned(t *testing.T) {
	t.Parallel()
	for _, api := range []forge.API{forge.GitHub, forge.GitLab} {
		h := newHost(t, api)
		h.requests = []thing{{number: 1, head: "deckhand/fix", base: "main", body: "a person's"}}
		w, err := h.client(api).Open(t.Context(), request("step_1"))
		require.NoError(t, err, api)
		assert.True(t, w.Existed)
		assert.Equal(t, int64(1), w.Number)
		assert.Equal(t, "a person's", h.requests[0].body)
	}
}

// A closed pull request of the same branch, without the marker, does not count.
func TestAClosedPullRequestOfTheBranchDoesNotCount(t *testing.T) {
	t.Parallel()
	h := newHost(t, forge.GitHub)
	h.requests = []thing{{number: 1, head: "deckhand/fix", base: "main", closed: true}}
	w, err := h.client(forge.GitHub).Open(t.Context(), request("step_1"))
	require.NoError(t, err)
	assert.Equal(t, int64(2), w.Number)
	h.requests[1].closed = true
	w, err = h.client(forge.GitHub).Open(t.Context(), request("step_1"))
	require.NoError(t, err)
	assert.Equal(t, int64(2), w.Number, "the step's own counts, closed or not")
}

func TestACommentIsWrittenOnceForAMarker(t *testing.T) {
	t.Parallel()
	for _, api := range []forge.API{forge.GitHub, forge.GitLab} {
		for name, next := range map[string]func(http.ResponseWriter){"answered": nil, "lost": lost, "failed": failed} {
			t.Run(string(api)+" "+name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, api)
				h.requests = []thing{{number: 1, head: "x", base: "main"}}
				const others = 101
				for i := range others {
					h.comments = append(h.comments, thing{number: int64(i + 1), body: "another"})
				}
				h.next = next
				for range 2 {
					w, err := h.client(api).Comment(t.Context(), 1, "Done.", forge.Marker("step_2"), time.Now())
					require.NoError(t, err)
					assert.Positive(t, w.Number)
					assert.NotEmpty(t, w.URL)
				}
				require.Len(t, h.comments, others+1)
				assert.Equal(t, "Done.\n\n<!-- deckhand:step_2 -->", h.comments[others].body)
			})
		}
	}
}

// What a server refuses is said, without the secret that it repeats, and with what to do.
func TestRefusalsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	answer := func(status int, text string, headers ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for name, c := range map[string]struct {
		api  forge.API
		next func(http.ResponseWriter)
		kind fault.Kind
		says []string
	}{
		"a bad token":        {forge.GitHub, answer(401, `{"message":"Bad credentials `+secret+`"}`), fault.Denied, []string{"Bad credentials ****", "deckhand credential rotate forge"}},
		"a permission":       {forge.GitHub, answer(403, `{"message":"Resource not accessible by integration"}`, "X-Accepted-GitHub-Permissions", "pull_requests=write"), fault.Denied, []string{"not accessible", "pull_requests: write"}},
		"a scope":            {forge.GitLab, answer(403, `{"error":"insufficient_scope","error_description":"needs higher privileges","scope":"api"}`), fault.Denied, []string{"insufficient_scope", "the scope api"}},
		"no repository":      {forge.GitHub, answer(404, `{"message":"Not Found"}`), fault.NotFound, []string{"Not Found", "acme/web"}},
		"a field":            {forge.GitHub, answer(422, `{"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"base","code":"invalid"}]}`), fault.Invalid, []string{"Validation Failed; base: invalid"}},
		"a field of GitLab":  {forge.GitLab, answer(400, `{"message":{"target_branch":["can't be blank"]}}`), fault.Invalid, []string{"target_branch: can't be blank"}},
		"a limit":            {forge.GitHub, answer(403, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Remaining", "0", "Retry-After", "90"), fault.Exhausted, []string{"limits requests", "1m30s"}},
		"a limit of GitLab":  {forge.GitLab, answer(429, `Retry later`, "Retry-After", "7"), fault.Exhausted, []string{"7s"}},
		"a page for people":  {forge.GitHub, answer(418, "<html>\x1b[2Jteapot</html>"), fault.Precondition, []string{"teapot"}},
		"a redirect":         {forge.GitHub, answer(307, `{"message":"Moved"}`, "Location", "https://elsewhere.test/"), fault.NotFound, []string{"redirects are not followed"}},
		"a success of other": {forge.GitHub, answer(201, `[]`), fault.Unavailable, []string{"no JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, c.api)
			h.next = func(w http.ResponseWriter) {
				h.requests = nil // it was not created
				c.next(w)
			}
			_, err := h.client(c.api).Open(t.Context(), request("step_1"))
			e := fault.As(err)
			require.NotNil(t, e, "%v", err)
			assert.Equal(t, c.kind, e.Kind, "%v", e)
			text := e.Message + ": " + e.Fix
			for _, says := range c.says {
				assert.Contains(t, text, says)
			}
			assert.NotContains(t, text, secret)
			assert.NotContains(t, text, "\x1b")
		})
	}
}

func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "web", "acme/", "acme/..", "acme/we b", "acme/web/../x", "acme/web?x", "a/b/c", "acme/%2e"} {
		assert.Error(t, forge.CheckRepository(forge.GitHub, name), name)
	}
	assert.NoError(t, forge.CheckRepository(forge.GitHub, "acme/web.js"))
	assert.NoError(t, forge.CheckRepository(forge.GitLab, "acme/group/web"))
	for _, name := range []string{"", "-x", "a..b", "a b", "refs/heads/x", "other:x", "x.lock", "a\x00", "x~1"} {
		assert.Error(t, forge.CheckBranch("head", name), name)
	}
	assert.NoError(t, forge.CheckBranch("head", "deckhand/fix-1"))
}
