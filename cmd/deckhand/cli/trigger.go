package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (a *app) triggerCommand() *cobra.Command {
	cmd := group("trigger", "Have agents start by webhooks, on a schedule, or in a loop", `
A trigger starts tasks of an agent without a person. Each firing is a delivery,
which is kept with what became of it, and can be tried and replayed.
`, `
deckhand trigger create nightly --agent log-triage --cron "30 2 * * *" --time-zone Europe/Berlin
deckhand trigger create reviews --agent log-triage --webhook github
deckhand trigger list
deckhand trigger deliveries reviews
`)
	cmd.AddCommand(
		a.triggerCreateCommand(), a.triggerUpdateCommand(), a.triggerListCommand(), a.triggerShowCommand(), a.triggerTestCommand(),
		a.triggerDeliveriesCommand(), a.triggerDeliveryCommand(), a.triggerReplayCommand(), a.triggerFireCommand(), a.triggerEnableCommand(),
		a.triggerDisableCommand(), a.triggerRotateCommand(), a.triggerDeleteCommand(),
	)
	return cmd
}

// senders are what --webhook takes: a preset, or a way to verify.
var (
	triggerPresets  = []string{"github", "gitlab", "slack", "alertmanager", "json"}
	triggerVerifies = []string{"token", "github", "gitlab", "standard", "slack", "jira", "stripe", "hmac"}
)

func (a *app) triggerCreateCommand() *cobra.Command {
	request := &deckhandv1.CreateTriggerRequest{Spec: &deckhandv1.TriggerSpec{}}
	flags := &triggerFlags{}
	var webhook, secretFile string
	var loop, manual bool
	cmd := &cobra.Command{
		Use: "create NAME --agent AGENT (--webhook SENDER | --cron SCHEDULE | --loop | --manual)", Short: "Make a trigger",
		Long: `SENDER is one that there is a mapping for (` + strings.Join(triggerPresets, ", ") + `), or how senders
prove themselves (` + strings.Join(triggerVerifies, ", ") + `). The secret of a webhook is
shown this once.`,
		Example: `deckhand trigger create reviews --agent log-triage --webhook github --filter "payload.action == 'opened'"
deckhand trigger create nightly --agent log-triage --cron "30 2 * * *" --time-zone Europe/Berlin
deckhand trigger create tidy --agent log-triage --loop --pause 10m --loop-budget 5
deckhand trigger create button --agent log-triage --manual`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.Name = args[0]
			if request.GetAgentId() == "" {
				return usage(cmd, "--agent is missing: name the agent that it starts")
			}
			if err := flags.apply(cmd, request.GetSpec()); err != nil {
				return err
			}
			kinds := 0
			for _, k := range []struct {
				is   bool
				kind deckhandv1.TriggerKind
			}{
				{webhook != "", deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK}, {cmd.Flags().Changed("cron"), deckhandv1.TriggerKind_TRIGGER_KIND_CRON},
				{loop, deckhandv1.TriggerKind_TRIGGER_KIND_LOOP}, {manual, deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL},
			} {
				if k.is {
					kinds++
					request.Kind = k.kind
				}
			}
			if kinds != 1 {
				return usage(cmd, "give one of --webhook SENDER, --cron SCHEDULE, --loop and --manual")
			}
			switch {
			case webhook == "":
			case slices.Contains(triggerPresets, webhook):
				request.Preset = webhook
			case slices.Contains(triggerVerifies, webhook):
				flags.webhook(request.GetSpec()).Verify = webhook
			default:
				return usage(cmd, "--webhook is %q, use one of %s", webhook, strings.Join(slices.Compact(slices.Sorted(slices.Values(slices.Concat(triggerPresets, triggerVerifies)))), ", "))
			}
			var err error
			if request.Secret, err = a.readKey(secretFile); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.CreateTrigger(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			a.tellSecret(client.URL(), res.Msg.GetTrigger(), res.Msg.GetSecret())
			return output.Brief(a.printer(), a.triggerNoun(), res.Msg.GetTrigger())
		},
	}
	cmd.Flags().StringVar(&request.AgentId, "agent", "", "the agent that it starts")
	cmd.Flags().StringVar(&webhook, "webhook", "", "take webhooks of this sender, or verified like this")
	cmd.Flags().BoolVar(&loop, "loop", false, "run again and again")
	cmd.Flags().BoolVar(&manual, "manual", false, "run by hand only")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file that holds the secret which the sender has issued; - for standard input")
	cmd.Flags().BoolVar(&request.Disabled, "disabled", false, "make it without letting it fire")
	flags.register(cmd)
	return cmd
}

// tellSecret says what the sender is to be given.
func (a *app) tellSecret(url string, t *deckhandv1.Trigger, secret string) {
	if secret == "" {
		return
	}
	if t.GetSpec().GetWebhook().GetVerify() == "token" {
		a.notef("give the sender this URL; its token is not shown again:\n%s%s?token=%s", url, t.GetPath(), secret)
		return
	}
	a.notef("give the sender this URL and secret; the secret is not shown again:\n%s%s\n%s", url, t.GetPath(), secret)
}

func (a *app) triggerUpdateCommand() *cobra.Command {
	flags := &triggerFlags{}
	cmd := &cobra.Command{
		Use: "update TRIGGER", Short: "Change what a trigger does",
		Long:    "Changes what the flags name; the rest stays as it is. Its kind and its agent stay.",
		Example: `deckhand trigger update reviews --filter "payload.action in ['opened', 'reopened']"`,
		Args:    takes("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			is, err := client.Triggers.GetTrigger(cmd.Context(), connect.NewRequest(&deckhandv1.GetTriggerRequest{TriggerId: args[0]}))
			if err != nil {
				return err
			}
			spec := is.Msg.GetTrigger().GetSpec()
			if err := flags.apply(cmd, spec); err != nil {
				return err
			}
			res, err := client.Triggers.UpdateTrigger(cmd.Context(), connect.NewRequest(&deckhandv1.UpdateTriggerRequest{
				TriggerId: is.Msg.GetTrigger().GetId(), Spec: spec,
			}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.triggerNoun(), res.Msg.GetTrigger())
		},
	}
	flags.register(cmd)
	return cmd
}

func (a *app) triggerListCommand() *cobra.Command {
	request := &deckhandv1.ListTriggersRequest{PageSize: 500}
	cmd := &cobra.Command{
		Use: "list", Short: "List triggers", Example: "deckhand trigger list -o wide", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			var all []*deckhandv1.Trigger
			for {
				res, err := client.Triggers.ListTriggers(cmd.Context(), connect.NewRequest(request))
				if err != nil {
					return err
				}
				all = append(all, res.Msg.GetTriggers()...)
				if request.PageToken = res.Msg.GetNextPageToken(); request.GetPageToken() == "" {
					break
				}
			}
			if len(all) == 0 {
				a.notef("there is no trigger: deckhand trigger create NAME --agent AGENT --cron \"30 2 * * *\"")
			}
			return output.List(a.printer(), a.triggerNoun(), all)
		},
	}
	cmd.Flags().StringVar(&request.AgentId, "agent", "", "only of this agent")
	return cmd
}

func (a *app) triggerShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show TRIGGER", Short: "Show a trigger, and when it fires next", Example: "deckhand trigger show nightly", Args: takes("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.GetTrigger(cmd.Context(), connect.NewRequest(&deckhandv1.GetTriggerRequest{TriggerId: args[0]}))
			if err != nil {
				return err
			}
			return output.One(a.printer(), a.triggerNoun(), res.Msg.GetTrigger())
		},
	}
}

func (a *app) triggerEnableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "enable TRIGGER", Short: "Let a trigger fire, from now on", Example: "deckhand trigger enable nightly", Args: takes("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.EnableTrigger(cmd.Context(), connect.NewRequest(&deckhandv1.EnableTriggerRequest{TriggerId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.triggerNoun(), res.Msg.GetTrigger())
		},
	}
}

func (a *app) triggerDisableCommand() *cobra.Command {
	request := &deckhandv1.DisableTriggerRequest{}
	cmd := &cobra.Command{
		Use: "disable TRIGGER", Short: "Keep a trigger from firing",
		Long: "What it has started goes on. To end that too: deckhand kill trigger.", Example: `deckhand trigger disable nightly --reason "the disk is full"`,
		Args: takes("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.TriggerId = args[0]
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.DisableTrigger(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.triggerNoun(), res.Msg.GetTrigger())
		},
	}
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why, for others to read")
	return cmd
}

func (a *app) triggerRotateCommand() *cobra.Command {
	request := &deckhandv1.RotateTriggerSecretRequest{}
	var secretFile string
	cmd := &cobra.Command{
		Use: "rotate TRIGGER", Short: "Give a webhook another secret",
		Long:    "The previous secret stays valid for a day, or for as long as --keep says.",
		Example: "deckhand trigger rotate reviews --keep 1h", Args: takes("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			request.TriggerId = args[0]
			if cmd.Flags().Changed("keep") {
				keep, err := cmd.Flags().GetDuration("keep")
				if err != nil {
					return err
				}
				request.Keep = durationpb.New(keep)
			}
			if request.Secret, err = a.readKey(secretFile); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.RotateTriggerSecret(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			a.tellSecret(client.URL(), res.Msg.GetTrigger(), res.Msg.GetSecret())
			return output.Brief(a.printer(), a.triggerNoun(), res.Msg.GetTrigger())
		},
	}
	cmd.Flags().Duration("keep", 0, "how long the secret before counts, such as 1h; 0s ends it at once")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file that holds the secret which the sender has issued; - for standard input")
	return cmd
}

func (a *app) triggerDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete TRIGGER", Short: "Delete a trigger for good",
		Long: "Its deliveries are kept as long as any. What it has started goes on.", Example: "deckhand trigger delete nightly", Args: takes("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			if _, err := client.Triggers.DeleteTrigger(cmd.Context(), connect.NewRequest(&deckhandv1.DeleteTriggerRequest{TriggerId: args[0]})); err != nil {
				return err
			}
			a.notef("trigger %s is deleted", args[0])
			return nil
		},
	}
}

func (a *app) triggerFireCommand() *cobra.Command {
	request := &deckhandv1.FireTriggerRequest{}
	cmd := &cobra.Command{
		Use: `fire TRIGGER ["goal"]`, Short: "Start a run of a trigger by hand", Example: `deckhand trigger fire nightly
deckhand trigger fire nightly "Only look at the disks."`,
		Args: takes("TRIGGER", "[GOAL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.TriggerId = args[0]
			if len(args) > 1 {
				request.Goal = args[1]
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.FireTrigger(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.deliveryNoun(), res.Msg.GetDelivery())
		},
	}
	cmd.Flags().StringVar(&request.IdempotencyKey, "idempotency-key", "", "makes repeating it harmless")
	return cmd
}

func (a *app) triggerTestCommand() *cobra.Command {
	request := &deckhandv1.TestTriggerRequest{}
	flags := &triggerFlags{}
	var file string
	var headers []string
	cmd := &cobra.Command{
		Use: "test TRIGGER (--delivery ID | --payload FILE)", Short: "Say what would become of a payload, and start nothing",
		Long: `Tries a delivery that was stored, of whatever trigger, or a payload of yours. The
flags of update try something else than what the trigger has. Exit code 1 when
it would fail.`,
		Example: `deckhand trigger test reviews --payload payload.json --header X-GitHub-Event=pull_request
deckhand trigger test reviews --delivery dlv_3q9 --filter "payload.action == 'closed'"`,
		Args: takes("TRIGGER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request.TriggerId = args[0]
			if (file == "") == (request.GetDeliveryId() == "") {
				return usage(cmd, "give one of --delivery ID and --payload FILE")
			}
			if err := a.readPayload(file, headers, request); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if flags.changed(cmd) {
				is, err := client.Triggers.GetTrigger(cmd.Context(), connect.NewRequest(&deckhandv1.GetTriggerRequest{TriggerId: args[0]}))
				if err != nil {
					return err
				}
				request.Spec = is.Msg.GetTrigger().GetSpec()
				if err := flags.apply(cmd, request.GetSpec()); err != nil {
					return err
				}
			}
			res, err := client.Triggers.TestTrigger(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			if err := output.One(a.printer(), verdictNoun(), res.Msg); err != nil {
				return err
			}
			if res.Msg.GetState() == deckhandv1.DeliveryState_DELIVERY_STATE_FAILED {
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&request.DeliveryId, "delivery", "", "a delivery that was stored")
	cmd.Flags().StringVar(&file, "payload", "", "file that holds a body; - for standard input")
	cmd.Flags().StringArrayVar(&headers, "header", nil, "a header that goes with it, as NAME=VALUE")
	flags.register(cmd)
	return cmd
}

const maxPayloadFile = 25 << 20

func (a *app) readPayload(file string, headers []string, request *deckhandv1.TestTriggerRequest) (err error) {
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
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("open the payload: %w", err)
		}
		defer f.Close()
		in = f
	}
	request.Body, err = readAtMost(in, maxPayloadFile)
	return err
}

func (a *app) triggerDeliveriesCommand() *cobra.Command {
	request := &deckhandv1.ListDeliveriesRequest{}
	var states []string
	cmd := &cobra.Command{
		Use: "deliveries [TRIGGER]", Short: "List what came in, and what became of it", Example: `deckhand trigger deliveries reviews
deckhand trigger deliveries --state failed -o wide`,
		Args: takes("[TRIGGER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				request.TriggerId = args[0]
			}
			for _, state := range states {
				value, ok := deckhandv1.DeliveryState_value["DELIVERY_STATE_"+strings.ToUpper(state)]
				if !ok || value == 0 {
					return usage(cmd, "--state is %q, use accepted, started, filtered, failed or duplicate", state)
				}
				request.States = append(request.States, deckhandv1.DeliveryState(value))
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.ListDeliveries(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			if res.Msg.GetNextPageToken() != "" {
				a.notef("there are older ones: --page-token %s", res.Msg.GetNextPageToken())
			}
			return output.List(a.printer(), a.deliveryNoun(), res.Msg.GetDeliveries())
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only those that are accepted, started, filtered, failed or duplicate")
	cmd.Flags().Int32Var(&request.PageSize, "limit", 50, "at most this many")
	cmd.Flags().StringVar(&request.PageToken, "page-token", "", "go on where a list ended")
	return cmd
}

func (a *app) triggerDeliveryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delivery DELIVERY", Short: "Show a delivery with what was sent", Example: "deckhand trigger delivery dlv_3q9", Args: takes("DELIVERY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.GetDelivery(cmd.Context(), connect.NewRequest(&deckhandv1.GetDeliveryRequest{DeliveryId: args[0]}))
			if err != nil {
				return err
			}
			return output.One(a.printer(), a.deliveryNoun(), res.Msg.GetDelivery())
		},
	}
}

func (a *app) triggerReplayCommand() *cobra.Command {
	return &cobra.Command{
		Use: "replay DELIVERY", Short: "Have a delivery come in once more",
		Long:    "It goes through filter and mapping as they are now, and is marked as a replay.",
		Example: "deckhand trigger replay dlv_3q9", Args: takes("DELIVERY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Triggers.ReplayDelivery(cmd.Context(), connect.NewRequest(&deckhandv1.ReplayDeliveryRequest{DeliveryId: args[0]}))
			if err != nil {
				return err
			}
			return output.Brief(a.printer(), a.deliveryNoun(), res.Msg.GetDelivery())
		},
	}
}
