package trigger

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// testOptions are the flags of trigger test.
type testOptions struct {
	request *deckhandv1.TestTriggerRequest
	kind    kindFlags
	flags   *specFlags
	file    string
	headers []string
}

func testCommand(e *env.Env) *cobra.Command {
	o := testOptions{request: &deckhandv1.TestTriggerRequest{}, flags: &specFlags{}}
	cmd := &cobra.Command{
		Use: "test [TRIGGER] [--delivery ID | --payload FILE]", Short: "Test a trigger with a payload, without starting a task",
		Long: `Tries a delivery that was stored, of whatever trigger, or a payload of yours, and prints
what would start: the agent, the goal and the mapped values, or why nothing would. The
flags of update try something else than what the trigger has. With --agent and the flags
of create in place of TRIGGER, a trigger is tried before it exists. Exit code 1 when it
would fail. Only a webhook needs a payload.`,
		Example: `deckhand trigger test reviews --payload payload.json --header X-GitHub-Event=pull_request
deckhand trigger test reviews --delivery dlv_3q9 --filter "payload.action == 'closed'"
deckhand trigger test --agent log-triage --webhook github --payload payload.json`,
		Args: env.Args("[TRIGGER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.TriggerId = env.Optional(args, 0)
			if (o.request.GetTriggerId() == "") == (o.request.GetAgentId() == "") {
				return env.Usage(cmd, "give one of TRIGGER and --agent AGENT")
			}
			none := o.file == "" && o.request.GetDeliveryId() == ""
			if o.file != "" && o.request.GetDeliveryId() != "" || none && o.kind.webhook != "" {
				return env.Usage(cmd, "give one of --delivery ID and --payload FILE")
			}
			if err := readPayload(e, o.file, o.headers, o.request); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			switch {
			case o.request.GetTriggerId() == "":
				o.request.Spec = &deckhandv1.TriggerSpec{}
				if err := o.flags.apply(cmd, o.request.GetSpec()); err != nil {
					return err
				}
				if o.request.Kind, o.request.Preset, err = o.kind.read(cmd, o.flags, o.request.GetSpec()); err != nil {
					return err
				}
			case o.kind.given(cmd):
				return env.Usage(cmd, "--webhook, --loop and --manual are for a trigger that does not exist yet")
			case none || o.flags.changed(cmd):
				is, err := client.Triggers.GetTrigger(cmd.Context(), &deckhandv1.GetTriggerRequest{TriggerId: args[0]})
				if err != nil {
					return err
				}
				if none && is.GetTrigger().GetKind() == deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK {
					return env.Usage(cmd, "give one of --delivery ID and --payload FILE")
				}
				if !o.flags.changed(cmd) {
					break
				}
				o.request.Spec = is.GetTrigger().GetSpec()
				if err := o.flags.apply(cmd, o.request.GetSpec()); err != nil {
					return err
				}
			}
			res, err := client.Triggers.TestTrigger(cmd.Context(), o.request)
			if err != nil {
				return err
			}
			if err := output.One(e.Printer(), verdictNoun(), res); err != nil {
				return err
			}
			if res.GetState() == deckhandv1.DeliveryState_DELIVERY_STATE_FAILED {
				return env.Status(env.ExitFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.request.AgentId, "agent", "", "the agent of a trigger that does not exist yet")
	o.kind.register(cmd)
	cmd.Flags().StringVar(&o.request.DeliveryId, "delivery", "", "a delivery that was stored")
	cmd.Flags().StringVar(&o.file, "payload", "", "file that holds a body; - for standard input")
	cmd.Flags().StringArrayVar(&o.headers, "header", nil, "a header that goes with it, as NAME=VALUE")
	o.flags.register(cmd)
	return cmd
}

const maxPayloadFile = 25 << 20

func readPayload(e *env.Env, file string, headers []string, request *deckhandv1.TestTriggerRequest) (err error) {
	request.Headers = map[string]string{"Content-Type": "application/json"}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return fmt.Errorf("--header is %q: give NAME=VALUE", h)
		}
		request.Headers[name] = value
	}
	if file == "" {
		return nil
	}
	in := e.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("open the payload: %w", err)
		}
		defer f.Close()
		in = f
	}
	request.Body, err = env.ReadAtMost(in, maxPayloadFile)
	return err
}

func verdictNoun() output.Noun[*deckhandv1.TestTriggerResponse] {
	return output.Noun[*deckhandv1.TestTriggerResponse]{
		Name: func(x *deckhandv1.TestTriggerResponse) string { return output.EnumName(x.GetState()) },
		Columns: []output.Column[*deckhandv1.TestTriggerResponse]{
			{Header: "would be", Value: func(x *deckhandv1.TestTriggerResponse) string { return output.EnumName(x.GetState()) }},
			{Header: "reason", Value: (*deckhandv1.TestTriggerResponse).GetReason},
			{Header: "agent", Value: (*deckhandv1.TestTriggerResponse).GetAgentName},
			{Header: "git ref", Value: (*deckhandv1.TestTriggerResponse).GetGitRef},
			{Header: "overlap", Value: (*deckhandv1.TestTriggerResponse).GetOverlap},
			{Header: "event", Value: (*deckhandv1.TestTriggerResponse).GetEvent},
			{Header: "key", Value: (*deckhandv1.TestTriggerResponse).GetKey},
			{Header: "single flight", Value: (*deckhandv1.TestTriggerResponse).GetFlight},
			{Header: "mapped", Value: func(x *deckhandv1.TestTriggerResponse) string {
				if len(x.GetMapped().GetFields()) == 0 {
					return ""
				}
				return protojson.MarshalOptions{Multiline: true}.Format(x.GetMapped())
			}, Block: true},
			{Header: "prompt", Value: (*deckhandv1.TestTriggerResponse).GetPrompt, Block: true},
		},
	}
}
