package credential

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// programMay are the procedures that a program in a jail may call.
var programMay = []string{
	"EventService/ListEvents", "EventService/Watch", "TaskService/GetTask", "TaskService/ListSteps", "TaskService/SubmitTask", "TaskService/TellTask",
}

// inJail is what the program does: a subtask tells its parent something; the parent reads its
// task, gives work to a subtask, waits for it, and tries what it may not do.
const inJail = `json='Content-Type: application/json'
curl -sS "$DECKHAND_URL/v1/tasks/self" > self.json
if grep -Eq '"parentId": ?"task_' self.json; then
  curl -sS -H "$json" -d '{"text": "3 errors found"}' "$DECKHAND_URL/v1/tasks/parent/messages" > /dev/null
  exit 0
fi
field() { grep -Eo "\"$1\": ?\"[^\"]*\"" | head -1 | sed -E 's/.*: ?"(.*)"/\1/'; }
echo "SELF $(field id < self.json)"
submit() { curl -sS -H "$json" -d "$1" "$DECKHAND_URL/v1/tasks"; }
child=$(submit '{"goal": "Count the errors.", "idempotencyKey": "count"}' | field id)
again=$(submit '{"goal": "Count the errors.", "idempotencyKey": "count"}' | field id)
echo "CHILD $child $again"
state=
for i in $(seq 600); do
  state=$(curl -sS "$DECKHAND_URL/v1/tasks/$child" | field state)
  case $state in TASK_STATE_SUCCEEDED|TASK_STATE_FAILED|TASK_STATE_ESCALATED) break;; esac
  sleep 0.1
done
echo "STATE $state"
echo "PRIORITY $(submit '{"goal": "Go first.", "priority": 10}' | field code)"
echo "PARENT $(curl -sS -H "$json" -d '{"text": "hello"}' "$DECKHAND_URL/v1/tasks/parent/messages" | field detail)"
echo "OTHER $(curl -sS -o /dev/null -w '%{http_code}' "$DECKHAND_URL/v1/tasks/$OTHER")"
echo "PREFIX $(curl -sS -o /dev/null -w '%{http_code}' "$DECKHAND_URL/v1/tasks/task_")"
echo "TOKEN $(curl -sS -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $ADMIN" "$DECKHAND_URL/v1/tasks")"
echo "EVENTS $(curl -sS "$DECKHAND_URL/v1/events?task=self&follow=false" | grep -c '^event: task.submitted')"
echo "ALL $(curl -sS -o /dev/null -w '%{http_code}' "$DECKHAND_URL/v1/events?follow=false")"
echo "PATHS $(for p in /relay/anthropic/v1/messages /webhooks/x /terminals /oauth/token /; do curl -sS -o /dev/null -w '%{http_code} ' "$DECKHAND_URL$p"; done)"
echo "MCP $(curl -sS -H "$json" -H 'Accept: application/json, text/event-stream' -d '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "task_get", "arguments": {"task_id": "self"}}}' "$DECKHAND_URL/mcp" | grep -Eo '"id":"task_[a-z0-9]*"' | head -1)"
curl -sS -K walk.cfg
`

// A program in a jail reads its own task, gives work to a subtask and sends its parent a
// message, by REST and by MCP. Every other procedure, path and task is refused to it, whatever
// token it sends.
func TestAProgramCallsTheHubForItsTask(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	agent := func(name, script string, keys ...string) {
		t.Helper()
		var lines strings.Builder
		for line := range strings.Lines(script) {
			lines.WriteString("            " + line)
		}
		f.Persona(name, `
turns:
  - text: I call.
    calls:
      - tool: shell_exec
        arguments:
          command: |
`+lines.String()+`
  - text: All done.
    calls:
      - {tool: complete_task, arguments: {summary: called}}
`, append(keys, "mode: autonomous", "approvals: {categories: []}", "workspace: {scope: task}")...)
	}
	agent("plain", "curl -sS https://deckhand.internal/v1/tasks/self; echo \"URL [$DECKHAND_URL]\"\n")
	other := f.Submit("plain")
	agent("caller", strings.NewReplacer("$OTHER", other, "$ADMIN", f.Token("admin-token")).Replace(inJail), "hub_access: true")

	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit(2*time.Minute))
	defer cancel()
	c := f.Client()
	res, err := c.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{
		AgentId: "caller", Goal: "Call the hub.", Inputs: []*deckhandv1.InputFile{{Path: "walk.cfg", Content: walk(t)}},
	})
	require.NoError(t, err)
	id := f.Ended(res.GetTask().GetId())
	f.Ended(other)

	steps, err := c.Steps(ctx, id)
	require.NoError(t, err)
	out := steps[0].GetObservation()
	assert.Contains(t, out, "SELF "+id+"\n")
	children, err := c.Tasks.ListTasks(ctx, &deckhandv1.ListTasksRequest{ParentId: id})
	require.NoError(t, err)
	require.Len(t, children.GetTasks(), 1, "%s", out)
	child := children.GetTasks()[0]
	assert.Contains(t, out, fmt.Sprintf("CHILD %[1]s %[1]s\n", child.GetId()))
	for _, want := range []string{
		"STATE TASK_STATE_SUCCEEDED\n", "PRIORITY AGENT_002\n", "has no parent to send a message to", "OTHER 404\n", "PREFIX 404\n", "TOKEN 403\n", "EVENTS 1\n", "ALL 403\n",
		`MCP "id":"` + id + `"`,
	} {
		assert.Contains(t, out, want)
	}
	assert.Contains(t, out, "PATHS 403 403 403 403 403")
	for _, line := range strings.Split(out, "\n") {
		if status, url, found := strings.Cut(line, " walked "); found {
			assert.Equal(t, "403", status, url)
		}
	}
	assert.Equal(t, procedures(t), strings.Count(out, " walked "))

	// It is recorded: the message, and who submitted the subtask.
	events := func(task string) (types []string, said string) {
		list, err := c.Events.ListEvents(ctx, &deckhandv1.ListEventsRequest{TaskId: task, PageSize: 500})
		require.NoError(t, err)
		for _, e := range list.GetEvents() {
			types = append(types, e.GetType())
			if e.GetType() == "message_received" {
				said = e.GetPayload().GetFields()["by"].GetStringValue() + ": " + e.GetPayload().GetFields()["text"].GetStringValue()
			}
		}
		return types, said
	}
	types, said := events(id)
	assert.NotContains(t, types, "credential_used", "a program that follows its task would lengthen its history")
	assert.Equal(t, "program of "+child.GetId()+": 3 errors found", said)
	audited := f.CLI(0, "audit", "list", "-o", "json").Out
	assert.Contains(t, audited, "program of "+id)

	// Without the key in its persona a program does not reach the hub.
	steps, err = c.Steps(ctx, other)
	require.NoError(t, err)
	assert.Contains(t, steps[0].GetObservation(), "URL []")
	assert.Contains(t, steps[0].GetObservation(), "no rule allows deckhand.internal:443")
}

// walk returns a curl configuration that calls each procedure that programs may not call.
func walk(t *testing.T) []byte {
	t.Helper()
	var out strings.Builder
	each(func(procedure string) {
		fmt.Fprintf(&out, "url = \"https://deckhand.internal/deckhand.v1.%s\"\nheader = \"Content-Type: application/json\"\ndata = \"{}\"\noutput = /dev/null\nsilent\nwrite-out = \"%%{http_code} walked %[1]s\\n\"\nnext\n", procedure)
	})
	return []byte(strings.TrimSuffix(out.String(), "next\n"))
}

func procedures(t *testing.T) (n int) {
	t.Helper()
	each(func(string) { n++ })
	require.Greater(t, n, 150)
	return n
}

func each(visit func(procedure string)) {
	protoregistry.GlobalFiles.RangeFilesByPackage("deckhand.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				if procedure := string(service.Name()) + "/" + string(service.Methods().Get(j).Name()); !slices.Contains(programMay, procedure) {
					visit(procedure)
				}
			}
		}
		return true
	})
}
