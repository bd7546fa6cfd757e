package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Submit a task and wait for its end.
func ExampleClient_WaitForTask() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{URL: os.Getenv("DECKHAND_URL"), Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	submitted, err := client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{
		AgentId: "line-counter",
		Goal:    "Count the lines of the report.",
		Inputs:  []*deckhandv1.InputFile{{Path: "input/report.txt", Content: []byte("one\ntwo\nthree\n")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	task, err := client.WaitForTask(ctx, submitted.GetTask().GetId())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.GetState(), task.GetSummary())
	// Output: TASK_STATE_SUCCEEDED The report has 3 lines.
}

// Watch a task's events as they happen. The watch survives broken connections and restarts of
// the hub, and ends with the task.
func ExampleClient_Watch() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{URL: os.Getenv("DECKHAND_URL"), Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	submitted, err := client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{
		AgentId: "line-counter",
		Inputs:  []*deckhandv1.InputFile{{Path: "input/report.txt", Content: []byte("one\n")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	watch := &deckhandv1.WatchRequest{
		TaskIds: []string{submitted.GetTask().GetId()},
		Types:   []string{"execution_started", "tool_completed", "execution_completed"},
		Follow:  true,
	}
	for response, err := range client.Watch(ctx, watch) {
		if err != nil {
			log.Fatal(err)
		}
		event := response.GetEvent()
		// response.GetCursor() is where another watch continues after this event.
		fmt.Printf("%s %q\n", event.GetType(), event.GetPayload().GetFields()["tool"].GetStringValue())
	}
	// Output:
	// execution_started ""
	// tool_completed "shell_exec"
	// tool_completed "complete_task"
	// execution_completed ""
}

// Approve what an agent asks for, after reading all of it.
func ExampleClient_Watch_approval() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{URL: os.Getenv("DECKHAND_URL"), Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	submitted, err := client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{
		AgentId: "first-agent", Goal: "Greet the reader.",
	})
	if err != nil {
		log.Fatal(err)
	}
	taskID := submitted.GetTask().GetId()
	watch := &deckhandv1.WatchRequest{TaskIds: []string{taskID}, Types: []string{"approval_requested"}, Follow: true}
	for response, err := range client.Watch(ctx, watch) {
		if err != nil {
			log.Fatal(err)
		}
		id := response.GetEvent().GetPayload().GetFields()["item_id"].GetStringValue()
		read, err := client.Inbox.GetInboxItem(ctx, &deckhandv1.GetInboxItemRequest{ItemId: id})
		if err != nil {
			log.Fatal(err)
		}
		item := read.GetItem()
		fmt.Println(item.GetTool(), item.GetArguments().GetFields()["command"].GetStringValue())
		// The hub refuses the approval if the call is no longer what was shown.
		_, err = client.Inbox.AnswerInboxItem(ctx, &deckhandv1.AnswerInboxItemRequest{
			ItemId:      id,
			ShownDigest: item.GetShownDigest(),
			Answer:      &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: &deckhandv1.AnswerInboxItemRequest_Approve{}},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	task, err := client.WaitForTask(ctx, taskID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.GetState())
	// Output:
	// shell_exec date >> greeting.txt
	// TASK_STATE_SUCCEEDED
}

// Give a task a file, and download one that it wrote.
func ExampleClient_DownloadFile() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{URL: os.Getenv("DECKHAND_URL"), Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	report := bytes.Repeat([]byte("a line\n"), 10_000)
	submitted, err := client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{
		AgentId: "line-counter",
		Inputs:  []*deckhandv1.InputFile{{Path: "input/report.txt", Content: report}},
	})
	if err != nil {
		log.Fatal(err)
	}
	task, err := client.WaitForTask(ctx, submitted.GetTask().GetId())
	if err != nil {
		log.Fatal(err)
	}
	var result bytes.Buffer
	if _, err := client.DownloadFile(ctx, task.GetId(), "result.txt", &result); err != nil {
		log.Fatal(err)
	}
	fmt.Print(result.String())
	// Output: 10000
}

// Receive notifications and verify their signatures.
func ExampleVerifyWebhook() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{URL: os.Getenv("DECKHAND_URL"), Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	var secret string
	received := make(chan *sdk.WebhookEvent, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		event, err := sdk.VerifyWebhook(secret, r.Header, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// Respond at once, and work afterwards. The hub may send an event twice.
		w.WriteHeader(http.StatusNoContent)
		received <- event
	}))
	defer receiver.Close()

	// The secret is shown once, when the destination is created.
	created, err := client.Destinations.CreateDestination(ctx, &deckhandv1.CreateDestinationRequest{
		Name: "go-receiver",
		Spec: &deckhandv1.DestinationSpec{
			Events: []string{"failures"},
			To:     &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: receiver.URL}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	secret = created.GetSecret()
	_, err = client.Destinations.TestDestination(ctx, &deckhandv1.TestDestinationRequest{
		DestinationId: created.GetDestination().GetId(),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-received).Type)
	// Output: deckhand.test
}

// List all tasks of an agent. Pages are read as they are needed.
func ExampleList() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{URL: os.Getenv("DECKHAND_URL"), Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	request := &deckhandv1.ListAgentsRequest{PageSize: 1}
	for agent, err := range sdk.List(ctx, client.Agents.ListAgents, request, (*deckhandv1.ListAgentsResponse).GetAgents) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(agent.GetName())
	}
	// Unordered output:
	// first-agent
	// line-counter
}

// Branch on what an error is.
func ExampleCodeOf() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{URL: os.Getenv("DECKHAND_URL"), Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Agents.ApplyAgent(ctx, &deckhandv1.ApplyAgentRequest{Filename: "broken.md", Markdown: "---\nname: broken\n---\n"})
	switch sdk.CodeOf(err) {
	case sdk.CodeTaskParsing:
		fmt.Println("the persona is not valid")
	case sdk.CodeBudgetLimit, sdk.CodeRateLimited:
		fmt.Println("later")
	}
	_, err = client.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: "task_none"})
	var e *sdk.Error
	if errors.As(err, &e) && e.Kind == sdk.KindNotFound {
		fmt.Println(e.Message)
	}
	// Output:
	// the persona is not valid
	// there is no task "task_none"
}

// Give a call a key of your own, which outlives the program: a second run finds the first
// one's task.
func ExampleWithIdempotencyKey() {
	ctx := sdk.WithIdempotencyKey(context.Background(), "report-of-2026-11-27")
	client, err := sdk.New(sdk.Config{URL: os.Getenv("DECKHAND_URL"), Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	var ids []string
	for range 2 {
		submitted, err := client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{
			AgentId: "line-counter",
			Inputs:  []*deckhandv1.InputFile{{Path: "input/report.txt", Content: []byte("one\n")}},
		})
		if err != nil {
			log.Fatal(err)
		}
		ids = append(ids, submitted.GetTask().GetId())
	}
	fmt.Println(ids[0] == ids[1])
	// Output: true
}
