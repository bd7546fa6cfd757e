package destination

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// specFlags say what is sent, and where.
type specFlags struct {
	events, agents, email                      []string
	webhook, server, security, user, from, key string
	forAgents, recipients                      []string
	port, perHour                              int32
	slack, nats                                bool
}

func (f *specFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.events, "events", nil, "what is told: groups, types, or beginnings such as agent.*")
	flags.StringSliceVar(&f.agents, "agent", nil, "only of these agents")
	flags.StringVar(&f.webhook, "webhook", "", "send signed CloudEvents to this URL")
	flags.BoolVar(&f.slack, "slack", false, "send texts to an incoming webhook of Slack, whose URL is in --secret-file")
	flags.StringSliceVar(&f.email, "email", nil, "send mail to these addresses; with --smtp-host and --from")
	flags.BoolVar(&f.nats, "nats", false, "send CloudEvents on NATS")
	flags.StringVar(&f.server, "smtp-host", "", "the server that takes mail")
	flags.Int32Var(&f.port, "smtp-port", 0, "its port; 587, or 465 with tls, by default")
	flags.StringVar(&f.security, "smtp-security", "", "starttls (the default), tls or none")
	flags.StringVar(&f.user, "smtp-user", "", "the user at that server, whose password is in --secret-file")
	flags.StringVar(&f.from, "from", "", "the address that mail is from")
	flags.StringSliceVar(&f.forAgents, "for-agent", nil, "agents that may send there with their tools, or *; empty for none")
	flags.StringSliceVar(&f.recipients, "recipient", nil, "addresses, or domains such as @example.com, that send_email may write to from there")
	flags.Int32Var(&f.perHour, "calls-per-hour", 0, "calls that agents may make in an hour; 20 by default")
	flags.StringVar(&f.key, "secret-file", "", "file that holds the secret; - for standard input")
}

// apply changes what the flags name.
func (f *specFlags) apply(cmd *cobra.Command, spec *deckhandv1.DestinationSpec) error {
	changed := cmd.Flags().Changed
	if changed("events") {
		spec.Events = f.events
	}
	if changed("agent") {
		spec.Agents = f.agents
	}
	kinds := 0
	for _, is := range []bool{changed("webhook"), f.slack, changed("email"), f.nats} {
		if is {
			kinds++
		}
	}
	if kinds > 1 {
		return env.Usage(cmd, "give one of --webhook URL, --slack, --email ADDRESS and --nats")
	}
	switch {
	case changed("webhook"):
		spec.To = &deckhandv1.DestinationSpec_Webhook{Webhook: &deckhandv1.WebhookDestination{Url: f.webhook}}
	case f.slack:
		spec.To = &deckhandv1.DestinationSpec_Slack{Slack: &deckhandv1.SlackDestination{}}
	case f.nats:
		spec.To = &deckhandv1.DestinationSpec_Nats{Nats: &deckhandv1.NatsDestination{}}
	case changed("email") && spec.GetEmail() == nil:
		spec.To = &deckhandv1.DestinationSpec_Email{Email: &deckhandv1.EmailDestination{}}
	}
	m := spec.GetEmail()
	for name, set := range map[string]func(){
		"email":     func() { m.To = f.email },
		"smtp-host": func() { m.Host = f.server }, "smtp-port": func() { m.Port = f.port }, "smtp-security": func() { m.Security = f.security },
		"smtp-user": func() { m.Username = f.user }, "from": func() { m.From = f.from },
	} {
		if !changed(name) {
			continue
		}
		if m == nil {
			return env.Usage(cmd, "--%s goes with --email ADDRESS", name)
		}
		set()
	}
	return f.access(cmd, spec)
}

// access changes what agents may send there.
func (f *specFlags) access(cmd *cobra.Command, spec *deckhandv1.DestinationSpec) error {
	changed := cmd.Flags().Changed
	if changed("for-agent") {
		if len(f.forAgents) == 0 {
			spec.ForAgents = nil
		} else if spec.GetForAgents() == nil {
			spec.ForAgents = &deckhandv1.AgentAccess{}
		}
		if spec.GetForAgents() != nil {
			spec.ForAgents.Agents = f.forAgents
		}
	}
	if spec.GetForAgents() == nil {
		if changed("recipient") || changed("calls-per-hour") {
			return env.Usage(cmd, "--recipient and --calls-per-hour go with --for-agent AGENT")
		}
		return nil
	}
	if changed("recipient") {
		spec.ForAgents.Recipients = f.recipients
	}
	if changed("calls-per-hour") {
		spec.ForAgents.CallsPerHour = f.perHour
	}
	return nil
}

const eventsHelp = `--events takes groups (approvals, questions, failures, budgets, escalations,
security, lifecycle, stream), event types (see docs/events.md), or prefixes of types
that end in *. The default is everything that needs a person: the first six groups.
On NATS the default is all events. With "none" the destination gets no events, but what
agents send that --for-agent names.`
