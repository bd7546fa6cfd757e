package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/complete"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// Every positional argument of a known noun and every flag is completed, and only
// files complete to files.
func TestEveryArgumentAndFlagIsCompleted(t *testing.T) {
	t.Parallel()
	e := &env.Env{Out: io.Discard, Err: io.Discard}
	root := newRoot(e)
	complete.Register(e, root)
	files := map[string]bool{}
	asked, seen := 0, map[string]bool{}
	isFile := func(fn cobra.CompletionFunc, cmd *cobra.Command, args ...string) bool {
		asked++
		require.NotNil(t, fn, cmd.CommandPath())
		_, directive := fn(cmd, args, "")
		return directive == cobra.ShellCompDirectiveDefault
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		if !cmd.Runnable() || cmd.HasSubCommands() || cmd.Name() == "completion" {
			return
		}
		var before []string
		for _, word := range strings.Fields(cmd.Use)[1:] {
			noun := strings.TrimSuffix(strings.Trim(word, `[]("`), "...")
			if noun == "" || strings.HasPrefix(noun, "-") || strings.HasPrefix(word, "(--") {
				break
			}
			seen[noun] = true
			if isFile(cmd.ValidArgsFunction, cmd, before...) {
				files[cmd.CommandPath()+" "+noun] = true
			}
			before = append(before, "x")
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Value.Type() == "bool" || flag.Name == "help" {
				return
			}
			fn, _ := cmd.GetFlagCompletionFunc(flag.Name)
			if isFile(fn, cmd) {
				files[cmd.CommandPath()+" --"+flag.Name] = true
			}
		})
	}
	walk(root)
	require.Greater(t, asked, 200)
	for place := range files {
		name := place[strings.LastIndexAny(place, " -")+1:]
		require.True(t, slices.Contains([]string{
			"FILE", "FILE|DIR", "FOLDER", "LOCAL", "ARCHIVE", "filename", "file", "input", "payload", "key", "roots", "cert", "root", "ca", "paths", "config", "dir", "containerd", "plan",
		}, name), "%s completes to files, and is none", place)
	}
	for _, known := range []string{"TASK", "AGENT", "NODE", "TRIGGER", "DESTINATION", "USER", "TEAM", "PROVIDER", "WORKER", "HOLD", "ID", "NAME"} {
		require.True(t, seen[known], "no command takes %s any more", known)
	}
}
