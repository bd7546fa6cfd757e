// Package chat is the command "deckhand chat": it asks an agent questions; the
// agent does not act.
package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// options are the flags of chat.
type options struct {
	reply string
	goOn  bool
}

// Command returns the command "deckhand chat".
func Command(e *env.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: `chat AGENT ["message"]`, Short: "Ask an agent questions; it answers and does not act",
		Long: `Asks an agent, and prints its answer. It acts on nothing: it has none of its tools
and no workspace. Without a message each line of standard input is one, and the
next goes on with what was said.

--continue goes on with your newest chat with the agent, --reply-to with another.
To have it act, start a task with deckhand run.`,
		Example: `deckhand chat log-triage "Which logs do you look at?"
deckhand chat log-triage "And on web-1?" --continue
deckhand chat log-triage`,
		Args: env.Args("AGENT", "[MESSAGE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.goOn && o.reply != "" {
				return env.Usage(cmd, "give one of --continue and --reply-to")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if o.goOn {
				if o.reply, err = newestChat(ctx, client, args[0]); err != nil {
					return err
				}
			}
			if len(args) > 1 {
				_, err := ask(ctx, e, client, args[0], args[1], o.reply)
				return err
			}
			return converse(ctx, e, client, args[0], o.reply)
		},
	}
	cmd.Flags().StringVar(&o.reply, "reply-to", "", "continue this chat: the task of its newest answer")
	cmd.Flags().BoolVarP(&o.goOn, "continue", "c", false, "continue your newest chat with the agent")
	return cmd
}

// maxSaid bounds a message in bytes; the hub counts characters.
const maxSaid = 40_000

// newestChat returns the caller's newest chat with an agent.
func newestChat(ctx context.Context, client *sdk.Client, agent string) (string, error) {
	me, err := client.Sessions.GetSession(ctx, &deckhandv1.GetSessionRequest{})
	if err != nil {
		return "", err
	}
	request := &deckhandv1.ListTasksRequest{AgentId: agent, Chat: true, PageSize: env.PageSize}
	for {
		res, err := client.Tasks.ListTasks(ctx, request)
		if err != nil {
			return "", err
		}
		for _, t := range res.GetTasks() {
			if t.GetCreatedBy() == me.GetSession().GetUserName() {
				return t.GetId(), nil
			}
		}
		if request.PageToken = res.GetNextPageToken(); request.PageToken == "" {
			return "", env.Failed(env.ExitNotFound, fault.New(fault.NotFound, "you have no chat with %s to go on with", agent).WithFix("leave --continue out"))
		}
	}
}

// converse asks what each line says, until there is no more.
func converse(ctx context.Context, e *env.Env, client *sdk.Client, agent, reply string) error {
	in := bufio.NewReader(io.LimitReader(e.In, env.MaxInput))
	for said := 0; ; {
		if output.IsTerminal(e.Err) {
			fmt.Fprint(e.Err, "> ")
		}
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return env.Unreadable("standard input", err)
		}
		if text := strings.TrimSpace(line); text != "" {
			said++
			if reply, err = ask(ctx, e, client, agent, text, reply); err != nil {
				return err
			}
			continue
		}
		if err != nil { // its end
			if said == 0 {
				return env.Failed(env.ExitUsage, fault.New(fault.Invalid, "nothing was said").WithFix(`give a message, or lines on standard input`))
			}
			return nil
		}
	}
}

// ask sends a message to an agent, prints the reply, and returns the task that replied.
func ask(ctx context.Context, e *env.Env, client *sdk.Client, agent, text, reply string) (string, error) {
	if len(text) > maxSaid {
		return "", env.Failed(env.ExitUsage, fault.New(fault.Invalid, "the message is longer than %d bytes", maxSaid).WithFix("say it shorter"))
	}
	res, err := client.Tasks.SubmitTask(ctx, &deckhandv1.SubmitTaskRequest{
		AgentId: agent, Goal: text, Chat: true, ReplyTo: reply, IdempotencyKey: ident.New("chat"),
	})
	if err != nil {
		return "", err
	}
	id := res.GetTask().GetId()
	for _, err := range client.Watch(ctx, &deckhandv1.WatchRequest{TaskIds: []string{id}, Follow: true, Types: []string{"state_changed"}}) {
		if err != nil && ctx.Err() != nil {
			return id, env.Failed(env.ExitInterrupted, fault.New(fault.Canceled, "interrupted, but the answer %s is on its way", id).
				WithFix("read it with `deckhand task show %s`", id))
		}
		if err != nil {
			return id, err
		}
	}
	tasks, err := task.Get(ctx, client, []string{id})
	if err != nil {
		return id, err
	}
	if !e.Format.ForPeople() {
		err = output.One(e.Printer(), task.Noun(e), tasks[0])
	} else {
		_, err = fmt.Fprintln(e.Out, strings.TrimSpace(termsafe.Text(tasks[0].GetSummary())))
		e.Notef("%s", output.Dim.Render("go on: deckhand chat "+termsafe.Line(agent)+` "…" --reply-to `+termsafe.Line(id)))
	}
	if err != nil {
		return id, err
	}
	return id, task.Outcome(tasks[0])
}
