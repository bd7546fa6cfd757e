// Package cli is Deckhand's command line. It puts together the commands of the
// packages below it: one package for each noun, with one file for each verb.
//
// Data goes to standard output in the format of -o, everything else to
// standard error. No command asks for input on a terminal. Errors become a
// message, a fix and an exit code (package env); names and flags are completed, and
// wrong ones corrected, by package complete. Only package role links the hub, the
// worker and the node: it holds the commands that run them.
package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"charm.land/fang/v2"
	"github.com/charmbracelet/colorprofile"
	mango "github.com/muesli/mango-cobra"
	"github.com/muesli/roff"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/access"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/agent"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/audit"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/backup"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/budget"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/chat"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/complete"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/credential"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/destination"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/doctor"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/eval"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/feedback"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/hold"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/hubcontext"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/inbox"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/insight"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/kill"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/knowledge"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/logs"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/mcp"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/memory"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/node"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/open"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/organisation"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/passkey"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/pattern"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/policy"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/provider"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/quota"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/registry"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/retention"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/role"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/run"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/search"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/task"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/team"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/token"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/tool"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/trigger"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/user"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/vault"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/worker"
	"github.com/deckhand-sh/deckhand/internal/version"
)

// Execute runs the command line and returns the exit code. args are without the
// program's name. When ctx ends the command stops: a role in order and with 0,
// any other with 130.
func Execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env.Env{In: stdin, Out: stdout, Err: stderr, Now: time.Now, Format: output.Table}
	root := newRoot(e)
	completer := complete.Register(e, root)
	e.Correct = func(ctx context.Context, err error) string {
		return completer.Correct(ctx, e.Failed.Command, args, e.Failed.Args, err)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(plainWithoutColour(stdout))
	root.SetErr(stderr)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = version.Version
	root.SetHelpFunc(env.Help(func(cmd *cobra.Command, args []string) { fangHelp(ctx)(cmd, args) }))
	root.AddCommand(manCommand(e))
	return e.Report(ctx, root.ExecuteContext(ctx))
}

// fangHelp returns fang's function for help. Fang sets it on a command that it runs, so this
// runs one that does nothing and cannot fail.
func fangHelp(ctx context.Context) func(*cobra.Command, []string) {
	idle := &cobra.Command{Use: "deckhand", Run: func(*cobra.Command, []string) {}}
	idle.SetArgs([]string{})
	_ = fang.Execute(ctx, idle, fang.WithoutManpage(), fang.WithoutCompletions())
	return idle.HelpFunc()
}

// manCommand prints a man page of all commands.
func manCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Print the man page", Hidden: true, DisableFlagsInUseLine: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := mango.NewManPage(1, cmd.Root())
			if err != nil {
				return fmt.Errorf("make the man page: %w", err)
			}
			_, err = io.WriteString(e.Out, page.Build(roff.NewDocument()))
			return err
		},
	}
}

// plainWithoutColour returns w without colours where NO_COLOR is set, to any
// value: the help obeys it too.
func plainWithoutColour(w io.Writer) io.Writer {
	if output.Colours(w) == colorprofile.NoTTY {
		return &colorprofile.Writer{Forward: w, Profile: colorprofile.NoTTY}
	}
	return w
}

const (
	groupStart = "start"
	groupWork  = "work"
	groupFleet = "fleet"
	groupRoles = "roles"
	groupOther = "other"
)

// unsorted has commands stand in the order in which they are added: first what a
// newcomer needs. It is a variable of cobra's, and set once.
var unsorted sync.Once

func newRoot(e *env.Env) *cobra.Command {
	root := env.Group("deckhand", "Run AI agents on your own servers", `
Deckhand runs autonomous AI agents on a fleet of your own servers.
An agent is a Markdown file; a task is one run of it towards one goal.
`, `
# everything on this machine, for trying out
deckhand up
# make an agent and give it something to do
deckhand agent apply -f personas/
deckhand run log-triage "What went wrong last night?" --wait
`)
	unsorted.Do(func() { cobra.EnableCommandSorting = false })
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "start here"},
		&cobra.Group{ID: groupWork, Title: "agents and tasks"},
		&cobra.Group{ID: groupFleet, Title: "machines and hubs"},
		&cobra.Group{ID: groupRoles, Title: "run Deckhand"},
		&cobra.Group{ID: groupOther, Title: "other"},
	)
	e.Flags.Register(root.PersistentFlags())
	root.PersistentFlags().VarP(&e.Format, "output", "o", "how data is shown: "+strings.Join(output.Formats, ", "))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		e.Failed.Command = cmd
		return env.UsageOf(cmd, err)
	})
	root.SetCompletionCommandGroupID(groupOther)
	root.SetHelpCommandGroupID(groupOther)

	add := func(id string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	keys := vault.Command(e)
	// It works on the hub's database, not through its API.
	keys.AddCommand(role.RotateRootCommand(e), role.NewKeysetCommand(e))

	add(groupStart, role.UpCommand(e), open.Command(e), agent.Command(e), run.Command(e), task.Command(e), inbox.Command(e), doctor.Command(e))
	add(groupWork, search.Command(e), knowledge.Command(e), chat.Command(e), trigger.Command(e), destination.Command(e), kill.Command(e), hold.Command(e), audit.Command(e), eval.Command(e), pattern.Command(e), feedback.Command(e), insight.Command(e), mcp.Command(e))
	add(groupFleet, provider.Command(e), node.Command(e), worker.Command(e), registry.Command(e), credential.Command(e), budget.Command(e), quota.Command(e), policy.Command(e), tool.Command(e), organisation.Command(e), retention.Command(e), memory.Command(e), user.Command(e), team.Command(e), token.Command(e), passkey.Command(e), access.Command(e), keys, hubcontext.Command(e))
	add(groupRoles, role.HubCommand(e), role.WorkerCommand(e), backup.Command(e), logs.Command(e))
	add(groupOther, versionCommand(e))
	e.KeepErrors(root)
	return root
}
