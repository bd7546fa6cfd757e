package cli_test

import (
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// silentServer accepts connections and never answers.
func silentServer(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return "http://" + listener.Addr().String()
}

// advice is the first command of an error.
var advice = regexp.MustCompile("`deckhand ([^`]*)`")

// wrong are commands that people type, and the command that the error must advise
// ("" for any).
var wrong = []struct{ typed, want string }{
	{"tsk", "task"}, {"tasks", "task list"}, {"ps", "task list"}, {"status", "task list"}, {"task lst", "task list"}, {"task ls", "task list"},
	{"agents", "agent list"}, {"agent ls", "agent list"}, {"agent lst", "agent list"}, {"nodes", "node list"}, {"node ls", "node list"}, {"inbox ls", "inbox list"},
	{"approvals", "inbox list"}, {"logs task_aaa", "task logs task_aaa"}, {"watch task_bbb", "task watch task_bbb"}, {"task tail task_aaa", "task logs task_aaa"},
	{"login", "open"}, {"console", "open"}, {"ui", "open"}, {"users", "user list"}, {"providers", ""}, {"tokens", ""}, {"check", "doctor"},
	{"task get task_aaa", "task show task_aaa"}, {"task describe task_aaa", "task show task_aaa"}, {"agent get coder", "agent show coder"}, {"agent describe coder", "agent show coder"},
	{"task run coder", "run coder"}, {"agent run coder", "run coder"}, {"task stop task_aaa", "task cancel task_aaa"}, {"cancel task_aaa", "task cancel task_aaa"},
	{"agent show coder1", "agent show coder"}, {"agent show Coder", "agent show coder"}, {"agent show log-triag", "agent show log-triage"},
	{"task list --state done", "task list --state succeeded"}, {"task list --state running,done", "task list --state running,succeeded"}, {"task list --state=error", "task list --state=failed"},
	{"task list --state runing", "task list --state running"}, {"task list --state canceled", "task list --state cancelled"},
	{"task list -o yml", "task list -o yaml"}, {"task list -o jsn", "task list -o json"}, {"task list --output ids", "task list --output name"},
	{"task list --json", "task list -o json"}, {"task list --format json", "task list --output json"}, {"task list --stat running", "task list --state running"},
	{"task list --status running", "task list --state running"}, {"task list --agnt coder", "task list --agent coder"}, {"task list --fast", ""}, {"task list --count 3", "task list --limit 3"},
	{"inbox list --kind approvals", "inbox list --kind approval"}, {"inbox list --kind questin", "inbox list --kind question"},
	{"task list -q", "task list -o name"}, {"agent list --yaml", "agent list -o yaml"}, {"task logs task_bbb --tail", "task logs task_bbb --follow"},
	{"agent show", ""}, {"task cancel", ""}, {"run coder look here", ""}, {"run coder --timeout 1s", ""}, {"agent apply", ""}, {"agent apply -f nofile.md", "agent apply -f personas/"},
	{"agent show nothing-like-it", "agent list"}, {"task show task_zzz", "task list"}, {"task logs task_aaa --offset 5", "task steps task_aaa"}, {"node token --for ever", ""},
	{"node drain", ""}, {"task watch task_aaa -o name", ""}, {"worker --hub http://x", ""},
	{"-o yml task list", "-o yaml task list"}, {"task --json list", ""},
}

// Each error of a wrong command advises a command that works when it is typed.
//
//nolint:paralleltest // it changes into the root of the repository, as a reader of the README does
func TestTheAdviceOfWrongCommandsWorks(t *testing.T) {
	t.Chdir("../../..")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	require.GreaterOrEqual(t, len(wrong), 60)
	for _, c := range wrong {
		t.Run(c.typed, func(t *testing.T) {
			h := newHub(t)
			h.agents = []*deckhandv1.Agent{{Name: "coder"}, {Name: "log-triage"}}
			h.tasks = []*deckhandv1.Task{
				{Id: "task_aaa", AgentName: "coder", State: deckhandv1.TaskState_TASK_STATE_RUNNING},
				{Id: "task_bbb", AgentName: "coder", State: deckhandv1.TaskState_TASK_STATE_SUCCEEDED},
			}
			with := func(words []string) []string {
				if words[0] == "worker" || strings.Contains(strings.Join(words, " "), "--hub") {
					return words
				}
				return append([]string{"--hub", h.url, "--token", testToken}, words...)
			}
			got := execute(t.Context(), with(strings.Fields(c.typed))...)
			require.NotEqual(t, 0, got.code)
			found := advice.FindStringSubmatch(got.stderr)
			require.NotNil(t, found, "it advises nothing: %s", got.stderr)
			said := strings.TrimSpace(strings.ReplaceAll(found[1], "--hub "+h.url+" ", ""))
			said = strings.TrimSuffix(said, " --hub "+h.url)
			if c.want != "" {
				require.Equal(t, c.want, said)
			}
			require.NotContains(t, got.stderr, testToken, "advice does not repeat secrets")
			then := execute(t.Context(), with(strings.Fields(said))...)
			// Of some services the test's hub has nothing but the address.
			if !strings.Contains(then.stderr, "is not implemented") && !strings.Contains(then.stderr, "404 Not Found") && said != "doctor" {
				require.Equal(t, 0, then.code, "%q fails: %s", said, then.stderr)
			}
		})
	}
}
