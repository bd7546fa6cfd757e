package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// maxSaid bounds a message in bytes; the hub counts characters.
const maxSaid = 40_000

func (a *app) chatCommand() *cobra.Command {
	var reply string
	var goOn bool
	cmd := &cobra.Command{
		Use: `chat AGENT ["message"]`, Short: "Talk with an agent, which answers and does nothing",
		Long: `Asks an agent, and prints its answer. It acts on nothing: it has none of its tools
and no workspace. Without a message each line of standard input is one, and the
next goes on with what was said.

--continue goes on with your newest chat with the agent, --reply-to with another.
To have it act, start a task with deckhand run.`,
		Example: `deckhand chat log-triage "Which logs do you look at?"
deckhand chat log-triage "And on web-1?" --continue
deckhand chat log-triage`,
		Args: takes("AGENT", "[MESSAGE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if goOn && reply != "" {
				return usage(cmd, "give one of --continue and --reply-to")
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if goOn {
				if reply, err = newestChat(ctx, client, args[0]); err != nil {
					return err
				}
			}
			if len(args) > 1 {
				_, err := a.ask(ctx, client, args[0], args[1], reply)
				return err
			}
			return a.converse(ctx, client, args[0], reply)
		},
	}
	cmd.Flags().StringVar(&reply, "reply-to", "", "go on with this chat: the task of its newest answer")
	cmd.Flags().BoolVarP(&goOn, "continue", "c", false, "go on with your newest chat with the agent")
	return cmd
}

// newestChat returns the caller's newest chat with an agent.
func newestChat(ctx context.Context, client *sdk.Client, agent string) (string, error) {
	me, err := client.Sessions.GetSession(ctx, connect.NewRequest(&deckhandv1.GetSessionRequest{}))
	if err != nil {
		return "", err
	}
	request := &deckhandv1.ListTasksRequest{AgentId: agent, Chat: true, PageSize: pageSize}
	for {
		res, err := client.Tasks.ListTasks(ctx, connect.NewRequest(request))
		if err != nil {
			return "", err
		}
		for _, t := range res.Msg.GetTasks() {
			if t.GetCreatedBy() == me.Msg.GetSession().GetUserName() {
				return t.GetId(), nil
			}
		}
		if request.PageToken = res.Msg.GetNextPageToken(); request.PageToken == "" {
			return "", failed(exitNotFound, fault.New(fault.NotFound, "you have no chat with %s to go on with", agent).WithFix("leave --continue out"))
		}
	}
}

// converse asks what each line says, until there is no more.
func (a *app) converse(ctx context.Context, client *sdk.Client, agent, reply string) error {
	in := bufio.NewReader(io.LimitReader(a.in, maxInput))
	for said := 0; ; {
		if output.IsTerminal(a.err) {
			fmt.Fprint(a.err, "> ")
		}
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return unreadable("standard input", err)
		}
		if text := strings.TrimSpace(line); text != "" {
			said++
			if reply, err = a.ask(ctx, client, agent, text, reply); err != nil {
				return err
			}
			continue
		}
		if err != nil { // its end
			if said == 0 {
				return failed(exitUsage, fault.New(fault.Invalid, "nothing was said").WithFix(`give a message, or lines on standard input`))
			}
			return nil
		}
	}
}

// ask has an agent answer, prints that, and answers the task that it is in.
func (a *app) ask(ctx context.Context, client *sdk.Client, agent, text, reply string) (string, error) {
	if len(text) > maxSaid {
		return "", failed(exitUsage, fault.New(fault.Invalid, "the message is longer than %d bytes", maxSaid).WithFix("say it shorter"))
	}
	res, err := client.Tasks.SubmitTask(ctx, connect.NewRequest(&deckhandv1.SubmitTaskRequest{
		AgentId: agent, Goal: text, Chat: true, ReplyTo: reply, IdempotencyKey: ident.New("chat"),
	}))
	if err != nil {
		return "", err
	}
	id := res.Msg.GetTask().GetId()
	for _, err := range client.Watch(ctx, &deckhandv1.WatchRequest{TaskIds: []string{id}, Follow: true, Types: []string{"state_changed"}}) {
		if err != nil && ctx.Err() != nil {
			return id, failed(exitInterrupted, fault.New(fault.Canceled, "interrupted, but the answer %s is on its way", id).
				WithFix("read it with `deckhand task show %s`", id))
		}
		if err != nil {
			return id, err
		}
	}
	tasks, err := getTasks(ctx, client, []string{id})
	if err != nil {
		return id, err
	}
	if !a.format.ForPeople() {
		err = output.One(a.printer(), a.taskNoun(), tasks[0])
	} else {
		_, err = fmt.Fprintln(a.out, strings.TrimSpace(termsafe.Text(tasks[0].GetSummary())))
		a.notef("%s", dim.Render("go on: deckhand chat "+termsafe.Line(agent)+` "…" --reply-to `+termsafe.Line(id)))
	}
	if err != nil {
		return id, err
	}
	return id, outcome(tasks[0])
}
