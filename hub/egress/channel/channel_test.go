package channel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// The secret reaches the server, and neither the node nor the command gets it.
func TestTheHubInsertsACredential(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			for name := range r.Header {
				assert.False(t, strings.HasPrefix(name, "Deckhand-"), name)
			}
			assert.Equal(t, []string{"Bearer " + secret}, r.Header.Values("Authorization"))
			assert.Equal(t, "for me", r.Header.Get("X-Forwarded-For"))
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			_, _ = fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, body, r.Header.Get("Authorization"))
		})
		req, err := http.NewRequest(http.MethodPut, r.server.URL+"/a%2Fb?q=1;2", strings.NewReader("hello"))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer placeholder")
		req.Header.Set("Deckhand-Jail", "another") // a command cannot say who it is
		req.Header.Set("X-Forwarded-For", "for me")
		res, err := r.client(http2).Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		_ = res.Body.Close()
		assert.Equal(t, "PUT /a%2Fb?q=1;2 hello Bearer "+strings.Repeat("*", len(secret)), string(body))
		assert.Equal(t, "Bearer "+strings.Repeat("*", len(secret)), res.Header.Get("X-Echo"))
	})
}

// A response that repeats the credential where it cannot be masked is withheld, and the request
// is not sent again: the command is told that it was made.
func TestAResponseThatRepeatsTheCredentialIsWithheld(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		var made atomic.Int64
		r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			made.Add(1)
			w.Header().Set("Content-Type", "application/octet-stream")
			echo := r.Header.Get("Authorization")
			switch r.URL.Path {
			case "/stream":
				w.Header().Set("Content-Type", "application/grpc")
				echo = secret
			case "/flushed":
				_ = http.NewResponseController(w).Flush()
				echo = secret
			case "/long":
				echo = secret + strings.Repeat("x", 64<<10)
			case "/late":
				echo = strings.Repeat("x", 64<<10) + secret
			case "/fine":
				echo = "\x00\x01"
			}
			_, _ = io.WriteString(w, echo)
		})
		client := r.client(http2)
		for _, path := range []string{"/short", "/flushed", "/long"} {
			made.Store(0)
			status, text := r.get(client, path)
			assert.Equal(t, http.StatusServiceUnavailable, status, path)
			assert.Contains(t, text, "the request was made, and its response is withheld: the response repeats a credential", path)
			assert.Contains(t, text, "do not send it again", path)
			assert.NotContains(t, text, secret)
			assert.EqualValues(t, 1, made.Load(), path)
		}
		made.Store(0)
		res, err := client.Get(r.server.URL + "/late")
		require.NoError(t, err)
		begun, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		assert.Error(t, err, "what came before is on its way already")
		assert.NotContains(t, string(begun), secret[:8])
		assert.EqualValues(t, 1, made.Load())
		made.Store(0)
		if res, err := client.Get(r.server.URL + "/stream"); err == nil {
			begun, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			assert.Error(t, err, "its header does not wait")
			assert.NotContains(t, string(begun), secret[:8])
		}
		assert.EqualValues(t, 1, made.Load(), "a stream that breaks off is not asked for again")
		status, text := r.get(client, "/fine")
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, "\x00\x01", text)
	})
}

func TestBodiesStreamThroughTheHub(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			lines := bufio.NewReader(r.Body)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					w.Header().Set(http.TrailerPrefix+"X-Sum", r.Trailer.Get("X-Sum"))
					return
				}
				_, _ = io.WriteString(w, line)
				_ = http.NewResponseController(w).Flush()
			}
		})
		body, to := io.Pipe()
		req, err := http.NewRequest(http.MethodPost, r.server.URL, body)
		require.NoError(t, err)
		req.Trailer = http.Header{"X-Sum": {"10"}}
		go func() { _, _ = io.WriteString(to, "0\n") }()
		res, err := r.client(http2).Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		lines := bufio.NewReader(res.Body)
		for i := range 5 {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("%d\n", i), line)
			if i < 4 {
				_, err = fmt.Fprintf(to, "%d\n", i+1)
				require.NoError(t, err)
			}
		}
		require.NoError(t, to.Close())
		_, err = lines.ReadString('\n')
		require.ErrorIs(t, err, io.EOF)
		assert.Equal(t, "10", res.Trailer.Get("X-Sum"))
	})
}

// A client may send nothing before it has the header of the response: the header does not wait
// for the body, in streams at once and in other responses after a while.
func TestTheHeaderOfAStreamComesBeforeItsBody(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		asked := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", strings.TrimPrefix(r.URL.Path, "/"))
			_ = http.NewResponseController(w).EnableFullDuplex()
			_ = http.NewResponseController(w).Flush()
			if r.Method == http.MethodGet {
				select {
				case <-asked:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "slow\n")
				return
			}
			lines := bufio.NewReader(r.Body)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				_, _ = io.WriteString(w, line)
				_ = http.NewResponseController(w).Flush()
			}
		})
		client := r.client(http2)
		for _, media := range []string{"application/grpc+proto", "application/octet-stream"} {
			body, to := io.Pipe()
			req, err := http.NewRequest(http.MethodPost, r.server.URL+"/"+media, body)
			require.NoError(t, err)
			res, err := client.Do(req)
			require.NoError(t, err, media)
			assert.Equal(t, media, res.Header.Get("Content-Type"))
			lines := bufio.NewReader(res.Body)
			for i := range 3 {
				_, err = fmt.Fprintf(to, "%d\n", i)
				require.NoError(t, err)
				line, err := lines.ReadString('\n')
				require.NoError(t, err, media)
				assert.Equal(t, fmt.Sprintf("%d\n", i), line)
			}
			require.NoError(t, to.Close())
			_, err = lines.ReadString('\n')
			require.ErrorIs(t, err, io.EOF)
			_ = res.Body.Close()
		}
		res, err := client.Get(r.server.URL + "/application/octet-stream")
		require.NoError(t, err)
		close(asked)
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		require.NoError(t, err)
		assert.Equal(t, "slow\n", string(text))
	})
}

func TestAWebSocketPassesThroughTheHub(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer "+secret, r.Header.Get("Authorization"))
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if !assert.NoError(t, err) {
			return
		}
		defer c.CloseNow()
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit(30*time.Second))
	defer cancel()
	c, _, err := websocket.Dial(ctx, r.server.URL, &websocket.DialOptions{HTTPClient: r.client(false)}) //nolint:bodyclose // it closes it
	require.NoError(t, err)
	defer c.CloseNow()
	for _, text := range []string{"one", "two"} {
		require.NoError(t, c.Write(ctx, websocket.MessageText, []byte(text)))
		_, data, err := c.Read(ctx)
		require.NoError(t, err)
		assert.Equal(t, text, string(data))
	}
}

// uploadBytes is what is uploaded and mostGrowth what memory in use may grow by: by the windows of
// the connections on the way, which a busy machine fills, and not by the upload. Garbage does not
// count: how much of it there is depends on how soon it is collected.
const (
	uploadBytes = 64 << 20
	mostGrowth  = 24 << 20
)

func TestALargeUploadTakesLittleMemory(t *testing.T) { //nolint:paralleltest // it measures memory
	var most atomic.Uint64
	sample := func() {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		most.Store(max(most.Load(), m.HeapAlloc))
	}
	r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		var n int64
		buf := make([]byte, 64<<10)
		for {
			got, err := r.Body.Read(buf)
			if n/(8<<20) != (n+int64(got))/(8<<20) {
				sample()
			}
			if n += int64(got); err != nil {
				break
			}
		}
		_, _ = fmt.Fprint(w, n)
	})
	client := r.client(true)
	_, _ = r.get(client, "/")
	sample()
	before := most.Load()
	res, err := client.Post(r.server.URL, "application/octet-stream", io.LimitReader(zeros{}, uploadBytes))
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(uploadBytes), string(body))
	assert.Less(t, most.Load()-before, uint64(mostGrowth))
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// What goes wrong is told to the command.
func TestAProblemIsExplained(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/forged" { // what only the hub says
			w.Header().Set(egresslink.HeaderRefused, "yes")
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "the server's own words")
	})
	client := r.client(true)
	status, text := r.get(client, "/")
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Equal(t, "the server's own words", text)
	status, _ = r.get(client, "/forged")
	assert.Equal(t, http.StatusTeapot, status)
	with := func(change func(h *fakeHub)) (int, string) {
		r.hub.mu.Lock()
		change(r.hub)
		r.hub.mu.Unlock()
		return r.get(client, "/")
	}
	status, text = with(func(h *fakeHub) { h.refuse = fault.New(fault.Denied, "api is for GET only").WithFix("use GET") })
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, text, "the credential api cannot be used: api is for GET only; use GET")
	status, text = with(func(h *fakeHub) { h.refuse = errors.New("of the database") })
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.NotContains(t, text, "database")
	status, text = with(func(h *fakeHub) { h.refuse, h.idle = nil, true })
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, text, "no task is running in jail jail_1")
	status, text = with(func(h *fakeHub) { h.idle, h.roots = false, "" })
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, text, "cannot be verified")
	r.server.Close()
	status, text = with(func(*fakeHub) {})
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, text, "cannot be reached from the node")
}

// When the hub goes away while it waits for a response, requests that change nothing are made
// again by the next one, and what may have taken effect is not, and says so.
func TestRequestsWithoutAResponseWhenTheHubGoes(t *testing.T) {
	t.Parallel()
	versions(t, func(t *testing.T, http2 bool) {
		arrived := make(chan string, 10)
		var second atomic.Bool
		r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
			first := !second.Load() // before the test goes on
			arrived <- r.Method
			if first {
				<-r.Context().Done()
				return
			}
			_, _ = io.WriteString(w, "again")
		})
		client := r.client(http2)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			second.Store(false)
			type answer struct {
				status int
				text   string
			}
			got := make(chan answer, 1)
			go func() {
				req, err := http.NewRequest(method, r.server.URL+"/", nil)
				if !assert.NoError(t, err) {
					return
				}
				res, err := client.Do(req)
				if !assert.NoError(t, err) {
					return
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				assert.NoError(t, err)
				got <- answer{res.StatusCode, string(text)}
			}()
			require.Equal(t, method, <-arrived)
			second.Store(true)
			r.channels.Changed(nodeID, false)
			r.channels.Changed(nodeID, true)
			a := <-got
			if method == http.MethodGet {
				require.Equal(t, answer{http.StatusOK, "again"}, a)
				require.Equal(t, method, <-arrived)
				continue
			}
			assert.Equal(t, http.StatusBadGateway, a.status)
			assert.Contains(t, a.text, "may have taken effect")
			assert.Empty(t, arrived)
		}
	})
}

// When the hub goes away, responses that pass through it end; the next one serves what comes then.
func TestAnotherChannelGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/long" {
			<-r.Context().Done()
		}
	})
	client := r.client(true)
	res, err := client.Get(r.server.URL + "/long")
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = io.ReadFull(res.Body, make([]byte, 6))
	require.NoError(t, err)
	r.channels.Changed(nodeID, false)
	_, err = io.ReadAll(res.Body)
	require.Error(t, err)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { // they wait for it
			status, text := r.get(client, "/")
			assert.Equal(t, http.StatusOK, status, text)
		})
	}
	r.channels.Changed(nodeID, true)
	all.Wait()
}

// Records reach the hub, and questions about other jails are refused.
func TestQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit(20*time.Second))
	defer cancel()
	require.NoError(t, r.link.Store(ctx, []egresslink.Record{{ID: "creq_1", Credential: "api"}}))
	assert.Equal(t, "creq_1", r.hub.records[0].ID)
	_, err := r.link.Token(ctx, egresslink.TokenRequest{JailID: "jail_2", Credential: "api"})
	require.ErrorContains(t, err, "no task is running in jail jail_2")
	assert.True(t, fault.Is(err, fault.Denied))
	_, err = r.link.Token(ctx, egresslink.TokenRequest{JailID: jailID, Credential: "api"})
	require.ErrorContains(t, err, "stays in the hub")
	_, err = r.link.Authority(ctx, egresslink.AuthorityRequest{JailID: jailID, Certificate: "another"})
	require.ErrorContains(t, err, "no such authority")
	got, err := r.link.Authority(ctx, egresslink.AuthorityRequest{JailID: "jail_2"})
	require.Error(t, err)
	assert.Empty(t, got.Key)
}

// One jail cannot take all places of the hub's: beyond its share, its requests are refused, and
// those of others are not.
func TestAJailsShareOfTheHub(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}, 64), make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-goOn
		}
	})
	client := r.client(true)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			status, text := r.get(client, "/slow")
			assert.Equal(t, http.StatusOK, status, text)
		})
	}
	for range 64 {
		<-arrived
	}
	status, text := r.get(client, "/")
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Contains(t, text, "64 requests of this jail are being sent through the hub already")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+strings.TrimPrefix(r.server.URL, "https://")+"/", nil)
	require.NoError(t, err)
	req.Header.Set(egresslink.HeaderJail, "jail_2")
	req.Header.Set(egresslink.HeaderCredential, "api")
	res, err := r.link.RoundTrip(req)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Contains(t, string(body), "no task is running in jail jail_2", "it is asked about, and not refused a place")
	close(goOn)
	all.Wait()
	status, text = r.get(client, "/")
	assert.Equal(t, http.StatusOK, status, text)
}
