package models

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/worker"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

// death ends a worker as a killed process ends: at its nth call of a kind
// nothing more goes out, whether that call was served or not.
type death struct {
	call   string // the end of the path, or a part of it
	nth    int
	served bool
	died   chan struct{}

	base http.RoundTripper
	mu   sync.Mutex
	dead bool
}

var errDead = errors.New("this worker is dead")

// RoundTrip implements http.RoundTripper.
func (d *death) RoundTrip(req *http.Request) (*http.Response, error) {
	d.mu.Lock()
	if d.dead {
		d.mu.Unlock()
		return nil, errDead
	}
	last := false
	if strings.Contains(req.URL.Path, d.call) {
		d.nth--
		last = d.nth == 0
		d.dead = last
	}
	d.mu.Unlock()
	if !last {
		return d.base.RoundTrip(req)
	}
	defer close(d.died)
	if d.served {
		if res, err := d.base.RoundTrip(req); err == nil {
			_ = res.Body.Close() // it never gets to read it
		}
	}
	return nil, errDead
}

// ids and moments differ from run to run.
var varies = regexp.MustCompile(`(task|step|call)_[0-9a-z]{16,}|\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// conversationOf returns a part of a conversation without what each attempt adds to it: where
// it finds itself, and the marks of the provider's cache.
func conversationOf(v any) any {
	switch v := v.(type) {
	case []any:
		out := []any{}
		for _, item := range v {
			if m, ok := item.(map[string]any); ok {
				text, _ := m["text"].(string)
				content, _ := m["content"].(string)
				if strings.HasPrefix(text+content, "# Where you are") {
					continue
				}
			}
			out = append(out, conversationOf(item))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			if key != "cache_control" {
				out[key] = conversationOf(item)
			}
		}
		return out
	}
	return v
}

// transcriptOf returns the conversation in a request, in any format.
func transcriptOf(t *testing.T, body map[string]any) string {
	t.Helper()
	for _, key := range []string{"messages", "input", "contents"} {
		if body[key] != nil {
			data, err := json.Marshal(conversationOf(body[key]))
			require.NoError(t, err)
			return varies.ReplaceAllString(string(data), "$1")
		}
	}
	t.Error("a request without a conversation")
	return ""
}

// A task whose worker is killed in the middle of any phase is continued by another with
// the same transcript, in every wire format, and each command runs once.
func TestAKilledWorkersTaskGoesOnWithTheSameTranscript(t *testing.T) {
	t.Parallel()
	for name, f := range modeltest.Formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resumes(t, f)
		})
	}
}

// everywhere makes the test try each death in each format; otherwise those of every phase
// are tried in one format, and one of each phase in the others.
var everywhere = os.Getenv("DECKHAND_SOAK") != ""

func resumes(t *testing.T, f modeltest.Format) {
	t.Helper()
	transcript := func(t *testing.T, d *death) string {
		t.Helper()
		var mu sync.Mutex
		last := ""
		thought := block{Thinking: "First things first.", Signature: "c2ln"}
		if f == modeltest.Responses {
			thought.Signature, thought.Redacted = "rs_1", "sealed"
		}
		srv := modeltest.New(t, func(req modeltest.Request) modeltest.Answer {
			text := strings.Join(told(req.Body), "\n")
			mu.Lock()
			defer mu.Unlock()
			last = transcriptOf(t, req.Body)
			switch strings.Count(text, "<tool_output step=") {
			case 0:
				return answer(thought, block{Text: "I begin."}, block{Tool: "shell_exec", ID: "toolu_1", Input: `{"command": "make first"}`})
			case 1:
				return answer(block{Tool: "shell_exec", ID: "toolu_2", Input: `{"command": "make second"}`}, block{Tool: "file_read", ID: "toolu_3", Input: `{"path": "none"}`})
			default:
				return answer(done)
			}
		})
		r := newHub(t, func(c *hub.Config) { c.LeaseTTL = waittest.Limit(3 * time.Second) })
		r.connect(f, srv.URL)
		r.apply("tester", served[f][0], served[f][1], "")
		if d == nil {
			r.work(func(*worker.Config) {})
		} else {
			d.base, d.died = &http.Transport{}, make(chan struct{})
			t.Cleanup(d.base.(*http.Transport).CloseIdleConnections) //nolint:forcetypeassert // made above
			dying := r.work(func(c *worker.Config) { c.HTTPClient = &http.Client{Transport: d} })
			replaced := make(chan struct{})
			defer func() { <-replaced }()
			go func() {
				defer close(replaced)
				<-d.died
				dying.Stop()
				r.work(func(*worker.Config) {})
			}()
		}
		task := r.rested(r.submit("tester", "go"))
		require.Equal(t, succeeded, task.GetState(), "%s %s", task.GetReason(), task.GetErrorMessage())
		for _, command := range []string{"make first", "make second"} {
			require.Equal(t, 1, r.ran(command), command)
		}
		require.Equal(t, 4, row[int](r, "SELECT count(*) FROM steps WHERE task_id = $1", task.GetId()))
		require.Equal(t, 3, row[int](r, "SELECT count(*) FROM turns WHERE task_id = $1", task.GetId()))
		require.Eventually(t, func() bool {
			return row[bool](r, "SELECT t.cost_micros = sum(c.cost_micros) FROM tasks t JOIN model_calls c ON c.task_id = t.id WHERE t.id = $1 GROUP BY t.cost_micros", task.GetId())
		}, 30*time.Second, 50*time.Millisecond, "what was cut off is counted as well")
		mu.Lock()
		defer mu.Unlock()
		return last
	}
	want := transcript(t, nil)
	for phase, d := range map[string]*death{
		"before it began":                           {call: "/ClaimTask", nth: 1, served: true},
		"analyze_context, as its jail is made":      {call: "/StartTask", nth: 1, served: true},
		"think, before the model is asked":          {call: "/relay/", nth: 2},
		"think, while the model answers":            {call: "/relay/", nth: 2, served: true},
		"select_tool, the turn is not stored":       {call: "/RecordTurn", nth: 2},
		"select_tool, the turn is stored":           {call: "/RecordTurn", nth: 2, served: true},
		"execute_action, nothing is run":            {call: "/ExecuteStep", nth: 2},
		"execute_action, it has run":                {call: "/ExecuteStep", nth: 2, served: true},
		"observe_result, nothing is stored":         {call: "/SaveCheckpoint", nth: 2},
		"iterate, the checkpoint is stored":         {call: "/SaveCheckpoint", nth: 2, served: true},
		"iterate, the end of the run is not stored": {call: "/FinishTask", nth: 1},
		"iterate, the end of the run is stored":     {call: "/FinishTask", nth: 1, served: true},
	} {
		// The format matters when a turn is requested, stored or repeated.
		if f != modeltest.Messages && !everywhere && (!d.served || d.nth != 2) {
			continue
		}
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, transcript(t, d))
		})
	}
}
