package handle_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/handle"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newExchange(c handle.Config) *handle.Exchange {
	if c.Intercepts == nil {
		c.Intercepts = func(host string, port uint16) bool { return host != "elsewhere.example.com" }
	}
	return handle.New(c)
}

const response = `{"transfer":"basic","hash_algo":"sha256","_links":{"secret":"top-secret"},"objects":[
 {"oid":"aa","size":5,"authenticated":true,"extra":"top-secret","actions":{
  "upload":{"href":"https://store.example.com:8443/put/aa?X-Amz-Signature=top-secret&x=1","header":{"authorization":"Basic top-secret","X-Amz-Date":"20260301T120000Z","Content-Type":"application/octet-stream","x-custom":"top-secret-2"},"expires_in":600},
  "verify":{"href":"https://git.example.com/a.git/info/lfs/verify","header":{"Authorization":"RemoteAuth top-secret"},"expires_at":"2026-03-01T12:10:00Z"}}},
 {"oid":"bb","size":6,"error":{"code":404,"message":"not here"}}]}`

type actions struct {
	Objects []struct {
		OID     string
		Actions map[string]struct {
			Href      string
			Header    map[string]string
			ExpiresIn int64 `json:"expires_in"`
		}
		Error struct{ Message string }
	}
}

func hide(t *testing.T, e *handle.Exchange, body string) actions {
	out, err := e.HideLFS([]byte(body), now)
	require.NoError(t, err)
	require.NotContains(t, string(out), "top-secret")
	var a actions
	require.NoError(t, json.Unmarshal(out, &a))
	return a
}

// request is one that a client makes of an action.
func request(method, href string, header map[string]string) *http.Request {
	r := httptest.NewRequest(method, href, nil)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return r
}

func TestSecretsOfLFSActionsAreHiddenAndRevealed(t *testing.T) {
	t.Parallel()
	e := newExchange(handle.Config{})
	a := hide(t, e, response)
	upload, verify := a.Objects[0].Actions["upload"], a.Objects[0].Actions["verify"]
	require.Equal(t, "not here", a.Objects[1].Error.Message)
	require.Equal(t, "application/octet-stream", upload.Header["Content-Type"])
	require.Equal(t, int64(600), upload.ExpiresIn)

	for range 2 { // a client may try again
		r := request("PUT", upload.Href, upload.Header)
		found, err := e.Reveal(r, now)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "X-Amz-Signature=top-secret&x=1", r.URL.RawQuery)
		require.Equal(t, "Basic top-secret", r.Header.Get("Authorization"))
		require.Equal(t, "top-secret-2", r.Header.Get("X-Custom"))
		require.Equal(t, "20260301T120000Z", r.Header.Get("X-Amz-Date"))
	}
	r := request("POST", verify.Href, verify.Header)
	_, err := e.Reveal(r, now)
	require.NoError(t, err)
	require.Equal(t, "RemoteAuth top-secret", r.Header.Get("Authorization"))

	plain := request("GET", "https://store.example.com:8443/other?a=b", map[string]string{"Authorization": "Basic dXNlcjpwYXNz"})
	found, err := e.Reveal(plain, now)
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, "Basic dXNlcjpwYXNz", plain.Header.Get("Authorization"))
}

func TestAHandleUsedElsewhereIsAnError(t *testing.T) {
	t.Parallel()
	e := newExchange(handle.Config{})
	a := hide(t, e, response)
	upload, verify := a.Objects[0].Actions["upload"], a.Objects[0].Actions["verify"]
	word := upload.Header["x-custom"]
	require.NotEmpty(t, word)
	for name, r := range map[string]*http.Request{
		"another host":         request("PUT", strings.Replace(upload.Href, "store.", "evil.", 1), upload.Header),
		"another port":         request("PUT", strings.Replace(upload.Href, ":8443", "", 1), upload.Header),
		"another path":         request("PUT", strings.Replace(upload.Href, "/put/aa", "/put/bb", 1), upload.Header),
		"another case of path": request("PUT", strings.Replace(upload.Href, "/put/aa", "/put/AA", 1), upload.Header),
		"escaped path":         request("PUT", strings.Replace(upload.Href, "/put/aa", "/put/%61a", 1), upload.Header),
		"another method":       request("GET", upload.Href, upload.Header),
		"no TLS":               request("PUT", strings.Replace(upload.Href, "https:", "http:", 1), upload.Header),
		"another header field": request("PUT", upload.Href, map[string]string{"X-Other": word}),
		"within a value":       request("PUT", upload.Href, map[string]string{"X-Custom": "a" + word}),
		"as a bearer token":    request("PUT", upload.Href, map[string]string{"X-Custom": "Bearer " + word}),
		"longer handle":        request("PUT", upload.Href, map[string]string{"X-Custom": word + "0"}),
		"two handles":          request("PUT", upload.Href, map[string]string{"X-Custom": word + "," + word}),
		"in a header's name":   request("PUT", upload.Href, map[string]string{word: "a"}),
		"further in the query": request("PUT", upload.Href+"&b="+word, nil),
		"query of another":     request("POST", verify.Href+"?handle="+verify.Header["Authorization"], nil),
		"in the path":          request("PUT", "https://store.example.com:8443/"+word, nil),
		"in the host":          request("PUT", "https://"+word+".example.com/", nil),
		"of the other action":  request("POST", verify.Href, map[string]string{"Authorization": word}),
		"unknown":              request("POST", verify.Href, map[string]string{"Authorization": "dhhandle_000"}),
		"in basic credentials": request("POST", verify.Href, map[string]string{"Authorization": "Basic " + encode("a:"+verify.Header["Authorization"])}),
	} {
		before := r.Header.Clone()
		_, err := e.Reveal(r, now)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "top-secret", name)
		require.Equal(t, before, r.Header, name)
		require.NotContains(t, r.URL.String(), "top-secret", name)
	}
	r := request("PUT", upload.Href, upload.Header)
	r.Host = "evil.example.com"
	_, err := e.Reveal(r, now)
	require.Error(t, err, "the host in the header is another one")
	_, err = e.Reveal(request("PUT", upload.Href, upload.Header), now.Add(10*time.Minute))
	require.ErrorContains(t, err, "has expired")
	e.Forget()
	_, err = e.Reveal(request("PUT", upload.Href, upload.Header), now)
	require.ErrorContains(t, err, "is unknown")
}

func TestAnLFSResponseThatCannotBeHiddenIsAnError(t *testing.T) {
	t.Parallel()
	object := func(action string) string {
		return `{"objects":[{"oid":"aa","size":1,"actions":{` + action + `}}]}`
	}
	for body, want := range map[string]string{
		`hello`:                         "not the JSON",
		`{"objects":[],"objects":[{}]}`: "not the JSON",
		`{"objects":[{"oid":"aa","size":1,"actions":{"upload":{"href":["top-secret"]}}}]}`:           "not the JSON",
		`{"transfer":"tus","objects":[]}`:                                                            `transfer "tus" is not supported`,
		object(`"sync":{"href":"https://a.example.com/"}`):                                           `action "sync"`,
		object(`"upload":{"href":"http://a.example.com/"}`):                                          "not an https URL",
		object(`"upload":{"href":"/relative"}`):                                                      "not an https URL",
		object(`"upload":{"href":"https://a.example.com:99999/"}`):                                   "port is not valid",
		object(`"upload":{"href":"https://me:top-secret@a.example.com/"}`):                           "contains a user name",
		object(`"upload":{"href":"https://a.example.com/#top-secret"}`):                              "contains a fragment",
		object(`"upload":{"href":"https://elsewhere.example.com/?top-secret"}`):                      "elsewhere.example.com:443 cannot be hidden",
		object(`"upload":{"href":"https://a.example.com/","header":{"Host":"b.example.com"}}`):       "not valid",
		object(`"upload":{"href":"https://a.example.com/","header":{"A":"top-secret\r\nB: c"}}`):     "not valid",
		object(`"upload":{"href":"https://a.example.com/","header":{"A":"top-secret","a":"b"}}`):     "occurs twice",
		object(`"upload":{"href":"https://a.example.com/","expires_at":"top-secret"}`):               "not a time",
		object(`"upload":{"href":"https://a.example.com/","expires_in":-5}`):                         "negative",
		`{"objects":[` + strings.Repeat(`{"oid":"aa","size":1},`, 1<<19) + `{"oid":"aa","size":1}]}`: "more than 8388608",
	} {
		_, err := newExchange(handle.Config{}).HideLFS([]byte(body), now)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "top-secret")
	}
}

func TestTheNumberAndTheAgeOfSecretsAreBounded(t *testing.T) {
	t.Parallel()
	e := newExchange(handle.Config{Max: 3, MaxAge: time.Minute})
	first := hide(t, e, response).Objects[0].Actions["upload"]
	require.Equal(t, int64(60), first.ExpiresIn, "the client learns that it is forgotten sooner")
	for range 5 {
		hide(t, e, response)
		require.LessOrEqual(t, e.Len(), 3)
	}
	e = newExchange(handle.Config{Max: 1})
	long := hide(t, e, `{"objects":[{"oid":"aa","size":1,"actions":{"download":{"href":"https://a.example.com/aa?top-secret","expires_in":5}}}]}`)
	_, err := e.HideLFS([]byte(`{"objects":[{"oid":"aa","size":1,"actions":{"download":{"href":"https://a.example.com/aa?top-secret"}}}]}`), now.Add(6*time.Second))
	require.NoError(t, err)
	require.Equal(t, 1, e.Len())
	_, err = e.Reveal(request("GET", long.Objects[0].Actions["download"].Href, nil), now)
	require.Error(t, err)
}

func TestManyGoroutinesUseAnExchange(t *testing.T) {
	t.Parallel()
	e := newExchange(handle.Config{Max: 50})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				out, err := e.HideLFS([]byte(response), now)
				if err != nil {
					t.Error(err)
					return
				}
				var a actions
				_ = json.Unmarshal(out, &a)
				u := a.Objects[0].Actions["upload"]
				_, _ = e.Reveal(request("PUT", u.Href, u.Header), now) // another goroutine may have made it go
			}
		})
	}
	wg.Wait()
	require.Equal(t, 50, e.Len())
}

// lfsServer is a Git LFS server behind an Exchange: it issues a secret for each action
// and wants it back.
type lfsServer struct {
	exchange *handle.Exchange
	url      string

	mu     sync.Mutex
	stored map[string][]byte
	issued int
	errs   []string
	leaked bool
}

const lfsSecret = "very-secret/+="

func (s *lfsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(fmt.Sprint(r.Header, r.URL), "very-secret") {
		s.leaked = true // the client has what it should not have
	}
	if _, err := s.exchange.Reveal(r, time.Now()); err != nil {
		s.errs = append(s.errs, err.Error())
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	oid := filepath.Base(r.URL.Path)
	if r.URL.Path == "/app.git/info/lfs/objects/batch" {
		s.batch(w, r)
		return
	}
	if r.Header.Get("Authorization") != "Token "+lfsSecret || r.URL.Query().Get("signature") != lfsSecret {
		s.errs = append(s.errs, r.Method+" "+r.URL.Path+" without its secret")
		http.Error(w, "no secret", http.StatusForbidden)
		return
	}
	switch r.Method {
	case http.MethodPut:
		body, _ := io.ReadAll(r.Body)
		s.stored[oid] = body
	case http.MethodPost: // verify
	case http.MethodGet:
		_, _ = w.Write(s.stored[oid])
	}
}

func (s *lfsServer) batch(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Operation string
		Objects   []struct {
			OID  string
			Size int64
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&ask)
	var out []any
	for _, o := range ask.Objects {
		action := func(path string) any {
			s.issued++
			return map[string]any{
				"href":   s.url + path + o.OID + "?signature=" + url.QueryEscape(lfsSecret),
				"header": map[string]string{"Authorization": "Token " + lfsSecret}, "expires_in": 300,
			}
		}
		all := map[string]any{"download": action("/store/")}
		if ask.Operation == "upload" {
			all = map[string]any{"upload": action("/store/"), "verify": action("/verify/")}
		}
		out = append(out, map[string]any{"oid": o.OID, "size": o.Size, "authenticated": true, "actions": all})
	}
	body, _ := json.Marshal(map[string]any{"transfer": "basic", "objects": out})
	hidden, err := s.exchange.HideLFS(body, time.Now())
	if err != nil {
		s.errs = append(s.errs, err.Error())
	}
	w.Header().Set("Content-Type", handle.LFSType)
	_, _ = w.Write(hidden)
}

func TestGitLFSUploadsAndDownloadsWithHandles(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git-lfs"); err != nil {
		t.Skip("git-lfs is not installed: apt-get install git-lfs")
	}
	s := &lfsServer{exchange: newExchange(handle.Config{}), stored: map[string][]byte{}}
	listener := httptest.NewTLSServer(s)
	t.Cleanup(listener.Close)
	s.url = listener.URL
	folder := t.TempDir()
	authority := filepath.Join(folder, "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listener.Certificate().Raw}), 0o644))
	git := func(dir string, arguments ...string) {
		t.Helper()
		cmd := exec.Command("git", arguments...)
		cmd.Dir = dir
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_SSL_CAINFO=" + authority,
			"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %s: %s; the server says %v", strings.Join(arguments, " "), out, s.errs)
	}
	git(folder, "lfs", "install", "--skip-repo")
	git(folder, "config", "--global", "lfs.url", s.url+"/app.git/info/lfs")
	git(folder, "config", "--global", "lfs.locksverify", "false")
	git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "bare")
	git(folder, "clone", "--quiet", "bare", "work")
	work := filepath.Join(folder, "work")
	git(work, "checkout", "--quiet", "-b", "main")
	git(work, "lfs", "track", "*.bin")
	content := bytes.Repeat([]byte("content "), 10_000)
	require.NoError(t, os.WriteFile(filepath.Join(work, "a.bin"), content, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(work, "b.bin"), content[1:], 0o644))
	git(work, "add", ".")
	git(work, "commit", "--quiet", "--message", "files")
	git(work, "push", "--quiet", "origin", "main")
	require.Len(t, s.stored, 2)
	sum := sha256.Sum256(content)
	require.Equal(t, content, s.stored[hex.EncodeToString(sum[:])])
	git(folder, "clone", "--quiet", "bare", "again")
	got, err := os.ReadFile(filepath.Join(folder, "again", "a.bin"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))
	require.Empty(t, s.errs)
	require.False(t, s.leaked)
	require.GreaterOrEqual(t, s.issued, 6)
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// What servers issue is kept up to a number of bytes too, and one secret that is very long is
// not taken.
func TestSecretsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	e := newExchange(handle.Config{MaxBytes: 100 << 10})
	body := func(n int) string {
		return fmt.Sprintf(`{"objects":[{"oid":"aa","size":5,"actions":{"download":{"href":"https://store.example.com/aa","header":{"Authorization":%q}}}}]}`, strings.Repeat("x", n))
	}
	first := hide(t, e, body(40<<10)).Objects[0].Actions["download"]
	second := hide(t, e, body(40<<10)).Objects[0].Actions["download"]
	third := hide(t, e, body(40<<10)).Objects[0].Actions["download"]
	assert.Equal(t, 2, e.Len(), "the one that expires first is dropped")
	known := 0
	for _, a := range []struct{ Authorization string }{{first.Header["Authorization"]}, {second.Header["Authorization"]}, {third.Header["Authorization"]}} {
		if _, err := e.Reveal(request("GET", "https://store.example.com/aa", map[string]string{"Authorization": a.Authorization}), now); err == nil {
			known++
		}
	}
	assert.Equal(t, 2, known)
	_, err := e.HideLFS([]byte(body(70<<10)), now)
	require.ErrorContains(t, err, "more than 65536")
	e.Forget()
	hide(t, e, body(60<<10))
	assert.Equal(t, 1, e.Len())
}
