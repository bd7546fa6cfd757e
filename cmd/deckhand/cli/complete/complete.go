// Package complete completes what people begin to type: the names of positional
// arguments and the values of flags.
//
// Register walks the commands once and gives every positional argument and every
// flag its completion, by the placeholder in the command's usage line ("TASK",
// "NODE") and by the flag's name. What has no names completes to nothing, and
// only what is a file completes to files.
//
// A completion calls the hub for at most 100 ms. When the hub is away, slow or
// refuses, there is nothing to complete, and nothing is printed.
package complete

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/sdk"
)

// patience is how long a completion may wait for the hub: a person who presses
// Tab notices more than 150 ms, which the start of the program is part of.
const patience = 100 * time.Millisecond

// value is one thing that may be typed, with what a shell shows beside it.
type value struct{ name, about string }

// lister returns the values of a noun. args are the positional arguments before.
type lister func(ctx context.Context, client *sdk.Client, args []string) ([]value, error)

// completion says how one argument or flag is completed: by names of the hub, by
// fixed words, or by files.
type completion struct {
	list  lister
	words []string
	files bool
}

// Completer completes the commands of one program.
type Completer struct {
	e *env.Env
	// flags and positional are what was registered, for corrections.
	flags      map[*pflag.Flag]completion
	positional map[*cobra.Command][]completion
}

// Register gives all commands below root their completions.
func Register(e *env.Env, root *cobra.Command) *Completer {
	c := &Completer{e: e, flags: map[*pflag.Flag]completion{}, positional: map[*cobra.Command][]completion{}}
	c.walk(root)
	return c
}

func (c *Completer) walk(cmd *cobra.Command) {
	path := strings.Join(strings.Fields(cmd.CommandPath())[1:], " ")
	if cmd.Runnable() && !cmd.HasSubCommands() {
		for _, name := range placeholders(cmd.Use) {
			c.positional[cmd] = append(c.positional[cmd], positional(path, name))
		}
		cmd.ValidArgsFunction = c.arguments(cmd, repeats(cmd.Use))
	}
	each := func(flag *pflag.Flag) {
		if flag.Value.Type() == "bool" || c.flags[flag].list != nil {
			return
		}
		found := flagCompletion(path, flag.Name)
		c.flags[flag] = found
		// The only error is of a flag that does not exist or has a completion.
		_ = cmd.RegisterFlagCompletionFunc(flag.Name, func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return c.complete(cmd.Context(), found, args, begun, nil)
		})
	}
	cmd.LocalNonPersistentFlags().VisitAll(each)
	cmd.PersistentFlags().VisitAll(each)
	for _, child := range cmd.Commands() {
		c.walk(child)
	}
}

// placeholder finds the positional arguments of a usage line.
var placeholder = regexp.MustCompile(`^[\["]*([A-Z]+(?:[|/][A-Z]+)*|[a-z]+(?:\|[a-z]+)+)(?:\||\.\.\.|[\]"]|$)`)

// placeholders returns the names of the positional arguments in order, such as
// TASK, or the words between which to choose, such as "succeeded|failed".
func placeholders(use string) (out []string) {
	words := strings.Fields(use)[1:]
	for i, word := range words {
		if strings.HasPrefix(word, "-") || strings.HasPrefix(word, "(--") {
			break
		}
		word = strings.TrimPrefix(word, "(")
		if m := placeholder.FindStringSubmatch(word); m != nil {
			out = append(out, m[1])
		} else if i > 0 {
			break
		}
	}
	return out
}

// repeats reports whether the last argument may be given several times.
func repeats(use string) bool { return strings.Contains(use, "...") }

func (c *Completer) arguments(cmd *cobra.Command, more bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all := c.positional[cmd]
		at := len(args)
		if more && at >= len(all) {
			at = len(all) - 1
		}
		if at < 0 || at >= len(all) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.complete(cmd.Context(), all[at], args, begun, args)
	}
}

// complete returns the values that begin as typed, without those given already.
func (c *Completer) complete(ctx context.Context, how completion, args []string, begun string, given []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if how.files {
		return nil, cobra.ShellCompDirectiveDefault
	}
	// A list with commas is completed at its last part.
	head := ""
	if at := strings.LastIndex(begun, ","); at >= 0 {
		head = begun[:at+1]
	}
	var out []cobra.Completion
	for _, v := range c.values(ctx, how, args) {
		if strings.HasPrefix(head+v.name, begun) && !slices.Contains(given, v.name) {
			out = append(out, cobra.CompletionWithDesc(head+v.name, termsafe.Line(v.about)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// values returns everything that may be typed; nothing when the hub is away.
func (c *Completer) values(ctx context.Context, how completion, args []string) []value {
	out := make([]value, 0, len(how.words))
	for _, word := range how.words {
		out = append(out, value{name: word})
	}
	if how.list == nil {
		return out
	}
	client, err := c.e.Client()
	if err != nil {
		return out
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	found, err := how.list(ctx, client, args)
	if err != nil {
		return out
	}
	return append(out, found...)
}
