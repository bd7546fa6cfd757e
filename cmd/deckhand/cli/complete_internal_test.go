package cli

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// Every positional argument of a known noun and every flag is completed, and only
// files complete to files. Without a hub nothing is printed.
func TestEveryArgumentAndFlagIsCompleted(t *testing.T) {
	t.Parallel()
	root := newRoot(&env.Env{Out: io.Discard, Err: io.Discard})
	files := map[string]bool{}
	asked, seen := 0, map[string]bool{}
	ask := func(words ...string) string {
		asked++
		var out, stderr bytes.Buffer
		args := append([]string{"__complete"}, words...)
		require.Equal(t, 0, Execute(t.Context(), args, strings.NewReader(""), &out, &stderr), words)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for line := range strings.Lines(stderr.String()) {
			require.True(t, strings.HasPrefix(line, "Completion ended with directive"), "%v writes %q", words, line)
		}
		return lines[len(lines)-1]
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			walk(child)
		}
		if !cmd.Runnable() || cmd.HasSubCommands() || cmd.Name() == "completion" {
			return
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		var before []string
		for _, word := range strings.Fields(cmd.Use)[1:] {
			noun := strings.TrimSuffix(strings.Trim(word, `[]("`), "...")
			if noun == "" || strings.HasPrefix(noun, "-") || strings.HasPrefix(word, "(--") {
				break
			}
			directive := ask(slices.Concat(path, before, []string{""})...)
			seen[noun] = true
			if directive == ":0" {
				files[strings.Join(path, " ")+" "+noun] = true
			} else {
				require.Contains(t, directive, ":", path)
			}
			before = append(before, "x")
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Value.Type() == "bool" || flag.Name == "help" {
				return
			}
			if ask(append(slices.Clone(path), "--"+flag.Name, "")...) == ":0" {
				files[strings.Join(path, " ")+" --"+flag.Name] = true
			}
		})
	}
	walk(root)
	require.Greater(t, asked, 200)
	for place := range files {
		name := place[strings.LastIndexAny(place, " -")+1:]
		require.True(t, slices.Contains([]string{
			"FILE", "FILE|DIR", "FOLDER", "LOCAL", "ARCHIVE", "filename", "file", "input", "payload", "key", "roots", "cert", "root", "ca", "paths", "config", "dir", "containerd",
		}, name), "%s completes to files, and is none", place)
	}
	for _, known := range []string{"TASK", "AGENT", "NODE", "TRIGGER", "DESTINATION", "USER", "TEAM", "PROVIDER", "WORKER", "HOLD", "ID", "NAME"} {
		require.True(t, seen[known], "no command takes %s any more", known)
	}
}
