package hub_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/api/rest"
	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// restCall makes a REST request; body is sent as JSON unless it is nil.
func restCall(t *testing.T, method, address, token string, body any, header http.Header) (*http.Response, []byte) {
	t.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		data, err := json.Marshal(body)
		require.NoError(t, err)
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, address, reader)
	require.NoError(t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, all
}

// problem reads an error and checks what each of them has.
func problem(t *testing.T, res *http.Response, body []byte) rest.Problem {
	t.Helper()
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"), "%d %s", res.StatusCode, body)
	var p rest.Problem
	require.NoError(t, json.Unmarshal(body, &p), "%s", body)
	require.Equal(t, res.StatusCode, p.Status, "%s", body)
	require.NotEmpty(t, p.Type)
	require.NotEmpty(t, p.Title)
	require.NotEmpty(t, p.Detail, "%s", body)
	require.NotEmpty(t, p.RequestID, "%s", body)
	require.Equal(t, p.RequestID, res.Header.Get("Deckhand-Correlation-Id"))
	return p
}

// A program submits, reads, lists and cancels a task by REST. A read that has not changed
// is not sent again.
func TestATaskByREST(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	base, token := r.URL()+"/v1", r.AdminToken
	res, body := restCall(t, http.MethodPost, base+"/tasks", token, map[string]any{"agentId": "walker", "goal": "walk"}, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Empty(t, res.Header.Get("Etag"), "of a change")
	var submitted struct {
		Task struct {
			ID, State string
			Priority  int
		}
	}
	require.NoError(t, json.Unmarshal(body, &submitted))
	require.NotEmpty(t, submitted.Task.ID)
	require.Equal(t, 5, submitted.Task.Priority)

	res, body = restCall(t, http.MethodPost, base+"/tasks/"+submitted.Task.ID+":cancel", token, map[string]any{"reason": "a test"}, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	res, body = restCall(t, http.MethodPost, base+"/tasks/"+submitted.Task.ID+":cancel", token, nil, nil)
	require.Less(t, res.StatusCode, 500, "without a body: %s", body)

	one := base + "/tasks/" + submitted.Task.ID
	res, body = restCall(t, http.MethodGet, one, token, nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Contains(t, string(body), `"TASK_STATE_CANCELLED"`)
	require.Contains(t, string(body), `"messagesWaiting"`, "fields with their default value are sent")
	tag := res.Header.Get("Etag")
	require.NotEmpty(t, tag)
	res, body = restCall(t, http.MethodGet, one, token, nil, http.Header{"If-None-Match": {`"other", W/` + tag}})
	require.Equal(t, http.StatusNotModified, res.StatusCode)
	require.Empty(t, body)
	require.Equal(t, tag, res.Header.Get("Etag"))
	res, body = restCall(t, http.MethodHead, one, token, nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, tag, res.Header.Get("Etag"))
	require.Empty(t, body)

	res, body = restCall(t, http.MethodGet, base+"/tasks?states=TASK_STATE_CANCELLED&pageSize=1&agent_id=walker", token, nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Contains(t, string(body), submitted.Task.ID)

	// The task's page is the same as that of the RPC.
	res, body = restCall(t, http.MethodGet, one+"/events?pageSize=500", token, nil, http.Header{"Accept-Encoding": {"gzip"}})
	require.Equal(t, http.StatusOK, res.StatusCode)
	if res.Header.Get("Content-Encoding") == "gzip" {
		zipped, err := gzip.NewReader(bytes.NewReader(body))
		require.NoError(t, err)
		body, err = io.ReadAll(zipped)
		require.NoError(t, err)
	}
	require.Contains(t, string(body), `"task.submitted"`)
}

// Errors are problems: with a code, what to do, the fields at fault, and the request's id.
func TestErrorsByREST(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	base, token := r.URL()+"/v1", r.AdminToken
	get := func(method, path, token string, body any) (rest.Problem, *http.Response) {
		t.Helper()
		res, text := restCall(t, method, base+path, token, body, nil)
		return problem(t, res, text), res
	}
	p, _ := get(http.MethodGet, "/tasks/task_none", token, nil)
	require.Equal(t, http.StatusNotFound, p.Status)
	require.Equal(t, "not_found", p.Code)

	p, res := get(http.MethodGet, "/tasks", "", nil)
	require.Equal(t, http.StatusUnauthorized, p.Status)
	require.Contains(t, res.Header.Get("Www-Authenticate"), "Bearer")
	require.NotEmpty(t, p.Fix)

	p, _ = get(http.MethodPost, "/tasks", token, map[string]any{"agentId": strings.Repeat("x", 200), "priority": 11})
	require.Equal(t, http.StatusBadRequest, p.Status)
	fields := []string{}
	for _, e := range p.Errors {
		fields = append(fields, e.Field)
		require.NotEmpty(t, e.Message)
	}
	require.ElementsMatch(t, []string{"agent_id", "priority"}, fields)
	require.NotEmpty(t, p.Fix)

	p, _ = get(http.MethodPost, "/tasks", token, map[string]any{"agentId": "walker", "gaol": "walk"})
	require.Equal(t, http.StatusBadRequest, p.Status, "a field that does not exist")
	require.Contains(t, p.Detail, "gaol")
	// A request that cannot be read is not made as an empty one, which would be valid.
	before := r.sql("SELECT count(*)::text FROM join_tokens WHERE org_id = $1", r.OrgID)
	for _, body := range []string{`{"nope": 1}`, `{`, `[]`, `{"ttl": "soon"}`, "\xff"} {
		p, _ = get(http.MethodPost, "/join-tokens", token, body)
		require.Equal(t, http.StatusBadRequest, p.Status, "%q", body)
	}
	p, _ = get(http.MethodPost, "/join-tokens?nope=1", token, nil)
	require.Equal(t, http.StatusBadRequest, p.Status)
	require.Equal(t, before, r.sql("SELECT count(*)::text FROM join_tokens WHERE org_id = $1", r.OrgID))
	p, _ = get(http.MethodPost, "/tasks", token, `{"agentId": `)
	require.Equal(t, http.StatusBadRequest, p.Status, "half a body")
	p, _ = get(http.MethodGet, "/tasks?statse=x", token, nil)
	require.Equal(t, http.StatusBadRequest, p.Status, "a parameter that does not exist")
	require.Contains(t, p.Detail, "statse")
	p, _ = get(http.MethodGet, "/tasks?pageSize=many", token, nil)
	require.Equal(t, http.StatusBadRequest, p.Status)

	p, _ = get(http.MethodGet, "/nothing", token, nil)
	require.Equal(t, http.StatusNotFound, p.Status)
	require.Contains(t, p.Fix, "/openapi.json")
	p, res = get(http.MethodPut, "/tasks", token, map[string]any{})
	require.Equal(t, http.StatusMethodNotAllowed, p.Status)
	require.Equal(t, "GET, POST", res.Header.Get("Allow"))
	p, _ = get(http.MethodPost, "/tasks/task_none:dance", token, nil)
	require.Equal(t, http.StatusNotFound, p.Status)

	res, text := restCall(t, http.MethodPost, base+"/agents", token, map[string]any{"markdown": strings.Repeat("x", 50<<20)}, http.Header{"Expect": {"100-continue"}})
	p = problem(t, res, text)
	require.Equal(t, http.StatusRequestEntityTooLarge, p.Status, "%+v", p)
}

// Names with a colon or a slash are in a path as any others, escaped.
func TestNamesInPathsByREST(t *testing.T) {
	t.Parallel()
	h := hubtest.Shared(t)
	base, token := h.URL()+"/v1", h.AdminToken
	host := "registry.example.com:5000"
	res, body := restCall(t, http.MethodPut, base+"/registries/"+url.PathEscape(host), token, map[string]any{"mirror": "mirror.example.com"}, nil)
	if res.StatusCode == http.StatusOK {
		res, body = restCall(t, http.MethodGet, base+"/registries", token, nil, nil)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Contains(t, string(body), host)
		res, body = restCall(t, http.MethodDelete, base+"/registries/registry.example.com%3A5000", token, nil, nil)
		require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	} else {
		require.Contains(t, string(body), host, "the error names the host")
	}
	res, body = restCall(t, http.MethodPut, base+"/access-rules/NodeExecService/StartNodeExec", token, map[string]any{"networks": []string{"127.0.0.0/8"}}, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	res, body = restCall(t, http.MethodGet, base+"/access-rules", token, nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, string(body), "NodeExecService/StartNodeExec")
	res, body = restCall(t, http.MethodDelete, base+"/access-rules/NodeExecService/StartNodeExec", token, nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
}

// A token's rate is that of all its calls. What is left of it is in the headers.
func TestTheRateByREST(t *testing.T) {
	t.Parallel()
	cfg := hubtest.Config(t)
	cfg.APIRate = 3
	h := hubtest.Start(t, cfg)
	res, body := restCall(t, http.MethodGet, h.URL()+"/v1/session", h.AdminToken, nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Equal(t, `"token";q=3;w=1`, res.Header.Get("Ratelimit-Policy"))
	require.Equal(t, `"token";r=14;t=1`, res.Header.Get("Ratelimit"))
	for range 100 {
		if res, body = restCall(t, http.MethodGet, h.URL()+"/v1/session", h.AdminToken, nil, nil); res.StatusCode != http.StatusOK {
			break
		}
	}
	p := problem(t, res, body)
	require.Equal(t, http.StatusTooManyRequests, p.Status)
	require.Equal(t, "AGENT_011", p.Code)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
}

// restRequest returns the address and the body of a request to a path with the fields of a
// message by their names.
func restRequest(t *testing.T, base string, route rest.Route, fields map[string]any) (address string, body any) {
	t.Helper()
	left := map[string]any{}
	path := route.Path
	for name, value := range fields {
		before := path
		for _, form := range []string{"{" + name + "}", "{" + name + "=**}"} {
			path = strings.Replace(path, form, url.PathEscape(fmt.Sprint(value)), 1)
		}
		if path == before {
			left[name] = value
		}
	}
	// A variable that the walk has no value for.
	for strings.Contains(path, "{") {
		from, to := strings.Index(path, "{"), strings.Index(path, "}")
		path = path[:from] + "x" + path[to+1:]
	}
	if route.Method != http.MethodGet && route.Method != http.MethodDelete {
		return base + path, left
	}
	q := url.Values{}
	flatten(q, "", left)
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return base + path, nil
}

// flatten adds fields to a query.
func flatten(q url.Values, prefix string, fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case map[string]any:
			flatten(q, prefix+name+".", value)
		case []string:
			q[prefix+name] = value
		default:
			q.Set(prefix+name, fmt.Sprint(value))
		}
	}
}

// Every path without identity, with a wrong one, with one of the wrong kind or too small a
// role, and with another organisation's objects, as TestEveryProcedureRefusesTheWrongIdentity
// does for the RPCs.
func TestEveryPathRefusesTheWrongIdentity(t *testing.T) {
	if testing.Short() {
		t.Skip("calls come one after the other: there is no race in it")
	}
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	s := openStore(t, h)
	victim, intruder := organisation(t, h, s, "victim"), organisation(t, h, s, "intruder")
	viewer := userToken(t, s, intruder.org, "viewer", "viewer")
	worker, err := auth.NewTokens(s).Create(t.Context(), intruder.org, auth.Worker, "", "w", 0)
	require.NoError(t, err)
	cookie := login(t, h, viewer)
	scoped := func(name string, scope auth.Scope) string {
		admin, err := s.FindUsers(t.Context(), db.FindUsersParams{OrgID: intruder.org, Ref: "admin"})
		require.NoError(t, err)
		secret := auth.NewSecret(auth.User)
		require.NoError(t, s.CreateToken(t.Context(), db.CreateTokenParams{
			ID: ident.New("token"), OrgID: intruder.org, Kind: "user", UserID: &admin[0].ID, Name: name, Hash: ident.Hash(secret), Scope: scope.Encode(),
		}))
		return secret
	}
	onlyReads, onlyEvents, onlyTasks := scoped("reads", auth.Scope{ReadOnly: true}), scoped("events", auth.Scope{Services: []string{"EventService"}}), scoped("tasks", auth.Scope{Services: []string{"TaskService"}})

	check := func(t *testing.T, route rest.Route, fields map[string]any) {
		t.Helper()
		rule, ok := auth.RuleOf(route.Procedure)
		require.True(t, ok)
		address, body := restRequest(t, h.URL(), route, fields)
		refused := func(what, token string, want int, header http.Header) {
			t.Helper()
			res, text := restCall(t, route.Method, address, token, body, header)
			require.Equal(t, want, res.StatusCode, "%s: %s", what, text)
			problem(t, res, text)
		}
		if rule.Public {
			res, text := restCall(t, route.Method, address, "", body, nil)
			require.Less(t, res.StatusCode, 500, "%s", text)
			for _, id := range victim.ids() {
				require.NotContains(t, string(text), id)
			}
			return
		}
		refused("no token", "", http.StatusUnauthorized, nil)
		refused("a made-up token", ident.Secret("dhu"), http.StatusUnauthorized, nil)
		refused("a made-up cookie", "", http.StatusUnauthorized, http.Header{"Cookie": {auth.CookieName + "=" + ident.Secret("dhs")}, "Sec-Fetch-Site": {"same-origin"}})
		refused("a worker's token", worker, http.StatusForbidden, nil)
		if route.Method != http.MethodGet {
			refused("a cookie, from another site's page", "", http.StatusForbidden, http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"cross-site"}})
			refused("a cookie, and nothing that says where from", "", http.StatusForbidden, http.Header{"Cookie": {cookie}})
		}
		if rule.Role != "viewer" {
			refused("a viewer", viewer, http.StatusForbidden, nil)
			refused("a viewer's cookie", "", http.StatusForbidden, http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"same-origin"}})
		}
		if service := string(route.RPC.Parent().Name()); service != "SessionService" {
			if !auth.Reads(route.Procedure) {
				refused("a token for reading", onlyReads, http.StatusForbidden, nil)
			}
			elsewhere := onlyEvents
			if service == "EventService" {
				elsewhere = onlyTasks
			}
			refused("a token for another service", elsewhere, http.StatusForbidden, nil)
		}
		if rule.Operator {
			refused("an administrator who is no operator", intruder.token, http.StatusForbidden, nil)
			return
		}
		res, text := restCall(t, route.Method, address, intruder.token, body, nil)
		require.Less(t, res.StatusCode, 500, "%s", text)
		if slices.Contains(unfiltered, string(route.RPC.Name())) || res.StatusCode == http.StatusOK {
			require.True(t, res.StatusCode == http.StatusOK || res.StatusCode < 500)
			for _, id := range victim.ids() {
				// What is not found is named as it was asked for.
				if !strings.Contains(address+fmt.Sprint(body), id) || res.StatusCode == http.StatusOK {
					require.NotContains(t, string(text), id)
				}
			}
			return
		}
		require.Contains(t, []int{http.StatusNotFound, http.StatusConflict, http.StatusBadRequest}, res.StatusCode, "another organisation's objects: %s", text)
		require.NotEqual(t, http.StatusForbidden, res.StatusCode, "it is not said that it exists")
	}
	for _, route := range rest.Routes() {
		t.Run(route.Method+" "+route.Path, func(t *testing.T) {
			check(t, route, victim.request(route.RPC.Input()))
		})
	}
	victim.untouched(t, s)

	// Another site's page cannot log a browser in.
	for _, path := range []string{"/v1/sessions", "/v1/Sessions", "/v1/sessions/"} {
		res, text := restCall(t, http.MethodPost, h.URL()+path, "", map[string]any{"token": intruder.token}, http.Header{"Sec-Fetch-Site": {"cross-site"}})
		require.NotEqual(t, http.StatusOK, res.StatusCode, "%s: %s", path, text)
		require.Empty(t, res.Header.Get("Set-Cookie"))
	}
	res, _ := restCall(t, http.MethodPost, h.URL()+"/v1/sessions", "", map[string]any{"token": intruder.token}, http.Header{"Sec-Fetch-Site": {"same-origin"}})
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Set-Cookie"))

	// An administrator's: what it has is the caller's own.
	for token, status := range map[string]int{"": http.StatusUnauthorized, viewer: http.StatusForbidden, worker: http.StatusForbidden, onlyTasks: http.StatusForbidden, intruder.token: http.StatusOK} {
		res, text := restCall(t, http.MethodGet, h.URL()+"/v1/audit-entries:export", token, nil, nil)
		require.Equal(t, status, res.StatusCode, "%s", text)
		require.NotContains(t, string(text), victim.org)
	}

	// The streams: what their callers may not see is not there.
	for _, path := range []string{"/v1/events?task=" + victim.task, "/v1/events?agent=" + victim.agent, "/v1/tasks/" + victim.task + "/updates", "/v1/steps/" + victim.step + "/log",
		"/v1/tasks/" + victim.task + "/log", "/v1/node-execs/" + victim.exec + "/log", "/v1/tasks/" + victim.task + "/export", "/v1/tasks/" + victim.task + "/workspace",
		"/v1/agents/" + victim.agent + "/workspace", "/v1/tasks/" + victim.task + "/files/x", "/v1/agents/" + victim.agent + "/files/x"} {
		elsewhere := onlyTasks
		if strings.HasSuffix(path, "/log") {
			elsewhere = onlyEvents
		}
		upgrade := http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
		for what, c := range map[string]struct {
			token  string
			status int
		}{
			"no token":             {"", http.StatusUnauthorized},
			"a made-up token":      {ident.Secret("dhu"), http.StatusUnauthorized},
			"a worker's token":     {worker, http.StatusForbidden},
			"for another service":  {elsewhere, http.StatusForbidden},
			"another organisation": {intruder.token, http.StatusNotFound},
		} {
			header := http.Header{}
			if strings.HasSuffix(path, "updates") {
				header = upgrade
			}
			res, text := restCall(t, http.MethodGet, h.URL()+path, c.token, nil, header)
			require.Equal(t, c.status, res.StatusCode, "%s %s: %s", path, what, text)
			problem(t, res, text)
		}
	}
}

// A log is read in parts, by offsets that hold, as curl -C - does it.
func TestALogByREST(t *testing.T) {
	t.Parallel()
	var node ran
	r := newRig(t, hubtest.Shared(t), node.run)
	r.apply("free", "---\nname: free\ndescription: For tests.\nprovider: script\nscript: free.yaml\nlimits: {iterations: 5}\nmode: autonomous\ntools: [shell_exec]\n---\nGo on.\n")
	lease := r.begin(r.submit("free").GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"true"}`)
	require.NoError(t, err)
	done, err := r.execute(lease, step.GetId())
	require.NoError(t, err)
	want := "did it as " + step.GetId() + "\n"
	require.EqualValues(t, len(want), done.GetLogBytes())
	address := r.URL() + "/v1/steps/" + step.GetId() + "/log"
	part := func(rng string) (*http.Response, string) {
		header := http.Header{}
		if rng != "" {
			header.Set("Range", rng)
		}
		res, body := restCall(t, http.MethodGet, address, r.AdminToken, nil, header)
		return res, string(body)
	}
	res, body := part("")
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", body)
	require.Equal(t, want, body)
	require.Equal(t, "bytes", res.Header.Get("Accept-Ranges"))
	require.EqualValues(t, len(want), res.ContentLength)
	res, body = part("bytes=4-")
	require.Equal(t, http.StatusPartialContent, res.StatusCode)
	require.Equal(t, want[4:], body)
	require.Equal(t, fmt.Sprintf("bytes 4-%d/%d", len(want)-1, len(want)), res.Header.Get("Content-Range"))
	res, body = part("bytes=4-6")
	require.Equal(t, http.StatusPartialContent, res.StatusCode)
	require.Equal(t, want[4:7], body)
	res, body = part(fmt.Sprintf("bytes=%d-", len(want)))
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, res.StatusCode)
	require.Equal(t, fmt.Sprintf("bytes */%d", len(want)), res.Header.Get("Content-Range"))
	problem(t, res, []byte(body))
	res, body = part("bytes=-3,5-6")
	require.Equal(t, http.StatusOK, res.StatusCode, "several ranges are ignored")
	require.Equal(t, want, body)
}

// The document is served to anybody, and names the paths that there are.
func TestTheOpenAPIDocumentIsServed(t *testing.T) {
	t.Parallel()
	h := hubtest.Shared(t)
	res, body := restCall(t, http.MethodGet, h.URL()+"/openapi.json", "", nil, nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID, Summary, Description string
			Responses                         map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(body, &document))
	require.Equal(t, "3.1.0", document.OpenAPI)
	operations := 0
	for path, item := range document.Paths {
		for method, op := range item {
			operations++
			require.NotEmpty(t, op.Summary, "%s %s", method, path)
			require.NotEmpty(t, op.Description, "%s %s", method, path)
			require.NotEmpty(t, op.Responses["default"], "%s %s", method, path)
		}
	}
	require.Equal(t, len(rest.Routes())+11, operations, "run scripts/generate; events, updates, logs, files and exports are not transcoded")
	res, _ = restCall(t, http.MethodGet, h.URL()+"/openapi.json", "", nil, http.Header{"If-None-Match": {res.Header.Get("Etag")}})
	require.Equal(t, http.StatusNotModified, res.StatusCode)
}
