// Command goclient submits, watches and answers a task with the client that oapi-codegen
// generated in the package api.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"deckhand.test/goclient/api"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	token := api.WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+os.Getenv("DECKHAND_TOKEN"))
		return nil
	})
	client, err := api.NewClientWithResponses(os.Getenv("DECKHAND_URL"), token)
	if err != nil {
		return err
	}
	agent, goal, key := "first-agent", "Greet the reader.", "generated-go"
	submitted, err := client.SubmitTaskWithResponse(ctx, &api.SubmitTaskParams{IdempotencyKey: &key}, api.SubmitTaskRequest{AgentId: &agent, Goal: &goal})
	if err != nil {
		return err
	}
	if submitted.JSON200 == nil {
		return errors.New(string(submitted.Body))
	}
	taskID := *submitted.JSON200.Task.Id
	itemID, err := asked(ctx, client, taskID)
	if err != nil {
		return err
	}
	read, err := client.GetInboxItemWithResponse(ctx, itemID, nil)
	if err != nil {
		return err
	}
	item := read.JSON200.Item
	fmt.Println(*item.Tool, (*item.Arguments)["command"])
	answer := api.AnswerInboxItemBody{ShownDigest: item.ShownDigest, Approve: &api.AnswerInboxItemRequestApprove{}}
	answered, err := client.AnswerInboxItemWithResponse(ctx, itemID, nil, answer)
	if err != nil {
		return err
	}
	if answered.JSON200 == nil {
		return errors.New(string(answered.Body))
	}
	for {
		got, err := client.GetTaskWithResponse(ctx, taskID, nil)
		if err != nil {
			return err
		}
		switch state := string(*got.JSON200.Task.State); state {
		case "TASK_STATE_SUCCEEDED", "TASK_STATE_FAILED", "TASK_STATE_ESCALATED", "TASK_STATE_CANCELLED", "TASK_STATE_TIMED_OUT":
			fmt.Println(state)
			none, err := client.GetTaskWithResponse(ctx, "task_none", nil)
			if err != nil {
				return err
			}
			var problem api.Problem
			if err := json.Unmarshal(none.Body, &problem); err != nil {
				return err
			}
			fmt.Println(none.StatusCode(), *problem.Detail)
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// asked waits until the task asks for an approval, and returns its id in the inbox.
func asked(ctx context.Context, client *api.ClientWithResponses, taskID string) (string, error) {
	kinds := "approval_requested"
	res, err := client.StreamEvents(ctx, &api.StreamEventsParams{Task: &taskID, Kinds: &kinds})
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event api.Event
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return "", err
		}
		if id, ok := (*event.Payload)["item_id"].(string); ok {
			return id, nil
		}
	}
	return "", fmt.Errorf("the stream ended: %w", lines.Err())
}
