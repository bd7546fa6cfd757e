// Package cli is Deckhand's command line: one file for each group of commands.
//
// Data goes to standard output in the format of -o, everything else to
// standard error. Nothing is ever asked for. Errors become one line and an
// exit code in errors.go. Commands that talk to a hub find it in settings.go;
// commands that run a role of Deckhand are made by roleCommand.
package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/fang/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/version"
)

// app is one run of the command line.
type app struct {
	in       io.Reader
	out, err io.Writer
	now      func() time.Time

	flags  clientFlags
	format output.Format

	// hubURL is the hub that was called, for messages; empty before.
	hubURL string
	// failure is what the command answered. It does not travel through cobra,
	// so that cobra's own errors are known to be about usage.
	failure error
}

// Execute runs the command line and answers the exit code. args leaves out the
// program's name. When ctx ends the command stops: a role in order and with 0,
// any other with 130.
func Execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr, now: time.Now, format: output.Table}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(plainWithoutColour(stdout))
	root.SetErr(stderr)
	err := fang.Execute(ctx, root,
		fang.WithVersion(version.Version),
		fang.WithoutManpage(),
		fang.WithErrorHandler(func(io.Writer, fang.Styles, error) {}),
	)
	if err == nil {
		err = a.failure
	}
	return a.report(ctx, err)
}

// plainWithoutColour keeps styling out of the help when NO_COLOR is set to
// whatever value.
func plainWithoutColour(w io.Writer) io.Writer {
	if output.Colours(w) == colorprofile.NoTTY {
		return &colorprofile.Writer{Forward: w, Profile: colorprofile.NoTTY}
	}
	return w
}

const (
	groupWork  = "work"
	groupFleet = "fleet"
	groupRoles = "roles"
)

func (a *app) root() *cobra.Command {
	root := group("deckhand", "Run AI agents on your own servers", `
Deckhand runs autonomous AI agents on a fleet of your own servers.
An agent is a Markdown file; a task is one run of it towards one goal.
`, `
# everything on this machine, for trying out
deckhand up
# make an agent and give it something to do
deckhand agent apply -f personas/
deckhand run log-triage "What went wrong last night?" --wait
`)
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "agents and tasks"},
		&cobra.Group{ID: groupFleet, Title: "machines and hubs"},
		&cobra.Group{ID: groupRoles, Title: "run Deckhand"},
	)
	a.flags.register(root.PersistentFlags())
	root.PersistentFlags().VarP(&a.format, "output", "o", "how data is shown: "+strings.Join(output.Formats, ", "))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%s", err) })
	root.SetCompletionCommandGroupID("")

	add := func(id string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	add(groupWork, a.agentCommand(), a.runCommand(), a.chatCommand(), a.taskCommand(), a.inboxCommand(), a.triggerCommand(), a.destinationCommand(), a.killCommand(), a.holdCommand(), a.auditCommand(), a.evalCommand())
	add(groupFleet, a.nodeCommand(), a.workersCommand(), a.providerCommand(), a.budgetCommand(), a.quotaCommand(), a.policyCommand(), a.organisationCommand(), a.userCommand(), a.teamCommand(), a.tokenCommand(), a.accessCommand(), a.vaultCommand(), a.openCommand(), a.contextCommand())
	add(groupRoles, a.upCommand(), a.hubCommand(), a.workerCommand())
	root.AddCommand(a.versionCommand())
	a.keepFailures(root)
	return root
}

// keepFailures has the commands' errors go round cobra.
func (a *app) keepFailures(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.failure = run(cmd, args)
			return nil
		}
	}
	for _, child := range cmd.Commands() {
		a.keepFailures(child)
	}
}

// group creates a command that only has subcommands: alone it shows its help.
func group(use, short, long, example string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: strings.TrimSpace(long), Example: strings.TrimSpace(example),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			// The largest edit distance of a suggestion.
			cmd.SuggestionsMinimumDistance = 2
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return failed(exitUsage, fault.New(fault.Invalid, "unknown command %q. Did you mean `%s %s`?", args[0], cmd.CommandPath(), near[0]))
			}
			return usage(cmd, "unknown command %q", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// takes makes an argument check: names in order, those in brackets optional,
// one that ends in "..." any number of times.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, name := range names {
			switch {
			case strings.HasSuffix(name, "...") && len(args) > i:
				return nil
			case len(args) <= i && !strings.HasPrefix(name, "["):
				return usage(cmd, "%s is missing", strings.TrimSuffix(name, "..."))
			}
		}
		if len(args) > len(names) {
			return usage(cmd, "unexpected argument %q (put text with spaces in quotes)", args[len(names)])
		}
		return nil
	}
}

// printer returns where data goes.
func (a *app) printer() *output.Printer {
	return &output.Printer{Format: a.format, Out: a.out, Colour: output.Colours(a.out)}
}

// notef writes a line of progress or advice to standard error.
func (a *app) notef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	// A note that cannot be written is not worth failing for.
	_, _ = fmt.Fprintln(&colorprofile.Writer{Forward: a.err, Profile: output.Colours(a.err)}, text)
}

var dim = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
