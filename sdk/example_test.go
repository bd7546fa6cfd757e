package sdk_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"connectrpc.com/connect"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Submit a task, watch it until it has ended, and approve what it asks for.
// docs/api.md shows this function.
func Example() {
	ctx := context.Background()
	client, err := sdk.New(sdk.Config{URL: "https://hub.example.com", Token: os.Getenv("DECKHAND_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	submitted, err := client.Tasks.SubmitTask(ctx, connect.NewRequest(&deckhandv1.SubmitTaskRequest{
		AgentId: "first-agent", Goal: "Greet the reader.", IdempotencyKey: "greeting-1",
	}))
	if err != nil {
		log.Fatal(err)
	}

	watch := &deckhandv1.WatchRequest{TaskIds: []string{submitted.Msg.GetTask().GetId()}, Follow: true}
	for response, err := range client.Watch(ctx, watch) {
		if err != nil {
			log.Fatal(err)
		}
		event := response.GetEvent()
		fmt.Println(event.GetSeq(), event.GetType())
		if event.GetType() != "approval_requested" {
			continue
		}
		id := event.GetPayload().GetFields()["item_id"].GetStringValue()
		item, err := client.Inbox.GetInboxItem(ctx, connect.NewRequest(&deckhandv1.GetInboxItemRequest{ItemId: id}))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("approving", item.Msg.GetItem().GetArguments())
		_, err = client.Inbox.AnswerInboxItem(ctx, connect.NewRequest(&deckhandv1.AnswerInboxItemRequest{
			ItemId:      id,
			ShownDigest: item.Msg.GetItem().GetShownDigest(),
			Answer:      &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: &deckhandv1.AnswerInboxItemRequest_Approve{}},
		}))
		if err != nil {
			log.Fatal(err)
		}
	}
}
