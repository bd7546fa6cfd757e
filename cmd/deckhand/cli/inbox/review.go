package inbox

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func reviewCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.ListInboxRequest{Order: deckhandv1.InboxOrder_INBOX_ORDER_TIME_LEFT, PageSize: env.PageSize}
	cmd := &cobra.Command{
		Use: "review", Short: "Decide what waits, one item after another",
		Long: `Shows each item that waits, what expires first at the beginning, and asks what to do
with it, as git add -p does. What is dangerous stands first. Each key says what
follows; v shows the whole in $PAGER, e opens a call in $EDITOR and shows the
difference before it is sent. A call that does not fit on the screen is approved
only after it was viewed. It needs a terminal.`,
		Example: `deckhand inbox review
deckhand inbox review --agent coder`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, ok := e.In.(term.File)
			if !ok || !term.IsTerminal(in.Fd()) || !output.IsTerminal(e.Out) {
				return env.Usage(cmd, "a review needs a terminal for input and output: for programs there are inbox list, approve and reject")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			r := &reviewer{e: e, client: client, in: bufio.NewReader(in), tty: in}
			return r.all(cmd.Context(), request)
		},
	}
	cmd.Flags().StringVar(&request.TaskId, "task", "", "only items of this task")
	cmd.Flags().StringVar(&request.AgentId, "agent", "", "only items of this agent's tasks")
	cmd.Flags().BoolVar(&request.Mine, "mine", false, "only items of your own tasks and agents")
	return cmd
}

// reviewer asks a person about one item after another.
type reviewer struct {
	e      *env.Env
	client *sdk.Client
	in     *bufio.Reader
	tty    term.File

	decided, skipped int
}

// errQuit ends a review.
var errQuit = errors.New("quit")

func (r *reviewer) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.e.Out, format, args...) }

// all goes through the open items that the caller may answer.
func (r *reviewer) all(ctx context.Context, request *deckhandv1.ListInboxRequest) error {
	var ids []string
	for {
		res, err := r.client.Inbox.ListInbox(ctx, request)
		if err != nil {
			return err
		}
		for _, item := range res.GetItems() {
			if item.GetMayAnswer() {
				ids = append(ids, item.GetId())
			}
		}
		if request.PageToken = res.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if len(ids) == 0 {
		r.printf("No open items that you may decide.\n")
		return nil
	}
	for i, id := range ids {
		err := r.one(ctx, id, fmt.Sprintf("%d/%d", i+1, len(ids)))
		if errors.Is(err, errQuit) {
			break
		}
		if err != nil {
			return err
		}
	}
	r.printf("\n%d answered, %d left.\n", r.decided, len(ids)-r.decided)
	return nil
}

// choice is what a person may do with an item.
type choice struct {
	key string
	// name is what the key does, and follows what happens then.
	name, follows string
	// words asks for a text; optional reports that it may be empty.
	words    string
	optional bool
	// runs reports that the item must have been shown completely.
	runs    bool
	request func(item *deckhandv1.InboxItem, text string) *deckhandv1.AnswerInboxItemRequest
}

// one shows an item and asks until it is answered or skipped.
func (r *reviewer) one(ctx context.Context, id, place string) error {
	item, err := wholeItem(ctx, r.client, id)
	if err != nil {
		return err
	}
	if item.GetState() != deckhandv1.InboxState_INBOX_STATE_OPEN {
		r.printf("\n(%s) %s is %s meanwhile.\n", place, item.GetId(), itemState(item))
		return nil
	}
	text := sheetOf(r.e, item)
	seen := r.show(place, text)
	choices := choicesOf(item)
	for {
		key, err := r.ask("%s [%s,v,s,q,?] ", question(item), keysOf(choices))
		if err != nil {
			return err
		}
		at := slices.IndexFunc(choices, func(c choice) bool { return c.key == key })
		switch {
		case key == "q":
			return errQuit
		case key == "s" || key == "":
			r.skipped++
			return nil
		case key == "v":
			r.page(text)
			seen = true
		case at < 0:
			r.help(choices)
		default:
			done, err := r.answer(ctx, item, choices[at], seen)
			if err != nil || done {
				return err
			}
		}
	}
}

// show prints an item, and reports whether all of it was printed.
func (r *reviewer) show(place, text string) bool {
	_, height, err := term.GetSize(r.tty.Fd())
	if err != nil || height < 10 {
		height = 24
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	r.printf("\n(%s) ", place)
	if room := max(height-6, 10); len(lines) > room {
		r.printf("%s\n… %d more lines: v shows all of it\n", strings.Join(lines[:room], "\n"), len(lines)-room)
		return false
	}
	r.printf("%s\n", strings.Join(lines, "\n"))
	return true
}

// ask prompts, and returns a line without spaces around it. The end of the input quits.
func (r *reviewer) ask(format string, args ...any) (string, error) {
	r.printf(format, args...)
	line, err := r.in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return "", errQuit
	}
	return strings.TrimSpace(line), err
}

func (r *reviewer) help(choices []choice) {
	for _, c := range choices {
		r.printf("%s - %s: %s\n", c.key, c.name, c.follows)
	}
	r.printf("v - view all of it in $PAGER\ns - skip: it keeps waiting\nq - quit: what is left keeps waiting\n? - this help\n")
}

// answer sends a choice. It reports whether the item is done with.
func (r *reviewer) answer(ctx context.Context, item *deckhandv1.InboxItem, c choice, seen bool) (bool, error) {
	if c.runs && !seen {
		r.printf("You have not seen all of it: view it with v first.\n")
		return false, nil
	}
	var text string
	var err error
	dangers := dangerKinds(item.GetDecision())
	var changed *editedCall
	if c.key == "e" {
		if changed, err = r.edit(ctx, item); errors.Is(err, errQuit) {
			return false, err
		}
		if err != nil {
			r.problem(err)
		}
		if changed == nil {
			return false, nil // the item is asked about again
		}
		text, dangers = changed.arguments, changed.dangers
	}
	if c.runs && len(dangers) > 0 {
		word, err := r.ask("This call is dangerous (%s). Type yes to have it run: ", strings.Join(dangers, ", "))
		if err != nil || word != "yes" {
			return false, err
		}
	}
	if c.words != "" {
		if text, err = r.ask("%s ", c.words); err != nil {
			return false, err
		}
		if text == "" && !c.optional {
			return false, nil
		}
	}
	request := c.request(item, text)
	request.ItemId, request.ShownDigest = item.GetId(), item.GetShownDigest()
	if changed != nil {
		request.GetApprove().JudgedDigest = changed.digest
	}
	if _, err := r.client.Inbox.AnswerInboxItem(ctx, request); err != nil {
		// Somebody else answered, or what was shown has changed: the others still wait.
		if e := fault.As(fault.FromConnect(err)); e != nil {
			r.problem(e)
			return e.Kind == fault.Precondition && changed == nil, nil
		}
		return false, err
	}
	r.decided++
	return true, nil
}

// problem shows what is wrong, and what to do. The item is asked about again.
func (r *reviewer) problem(err error) {
	if e := fault.As(err); e != nil {
		r.printf("%s. %s\n", literal.Line(e.Message), literal.Line(e.Fix))
		return
	}
	r.printf("%s\n", literal.Line(err.Error()))
}

// page shows a text in $PAGER, or prints it if there is none.
func (r *reviewer) page(text string) {
	if err := r.run(pager(), "", strings.NewReader(text)); err != nil {
		r.printf("%s\n", text)
	}
}

// pager returns the command of the pager; "" for none.
func pager() string {
	if p, ok := os.LookupEnv("PAGER"); ok {
		return p
	}
	if _, err := exec.LookPath("less"); err == nil {
		return "less"
	}
	return ""
}

// run runs a command line of the person's environment on the terminal, with a file as its
// argument or a text as its input.
func (r *reviewer) run(command, file string, input ...io.Reader) error {
	return runOn(r.e, r.tty, command, file, input...)
}

func runOn(e *env.Env, tty io.Reader, command, file string, input ...io.Reader) error {
	if command == "" {
		return errors.New("there is no such program")
	}
	args := []string{"-c", command + ` "$@"`, command}
	if file == "" {
		args = []string{"-c", command}
	} else {
		args = append(args, file)
	}
	//nolint:gosec,noctx // $PAGER and $EDITOR are the person's own, who may interrupt them
	cmd := exec.Command("/bin/sh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, e.Out, e.Err
	if len(input) > 0 {
		cmd.Stdin = input[0]
	}
	cmd.Env = append(os.Environ(), "LESS="+cmp.Or(os.Getenv("LESS"), "FX"))
	return cmd.Run()
}
