package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

// Every flag that takes a value says in the help what the value is.
func TestFlagsShowTheNamesOfTheirValues(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	seen := 0
	walk = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if kind := flag.Value.Type(); flag.Hidden || kind == "bool" || kind == "count" {
				return
			}
			seen++
			assert.NotEmpty(t, env.ValueName(flag), "%s --%s: give it a name in env/help.go, or in its usage as `NAME`", cmd.CommandPath(), flag.Name)
		})
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(newRoot(&env.Env{Out: io.Discard, Err: io.Discard}))
	require.Greater(t, seen, 300)
	for line, want := range map[string][]string{
		"":          {"--hub URL", "-o --output FORMAT"},
		"run":       {"--budget USD", "--input FILE", "--timeout DURATION", "--limit NAME=VALUE"},
		"task list": {"--agent AGENT", "--state STATE", "--limit NUMBER"},
		"task logs": {"--error[=CODE]"},
		"node exec": {"--env NAME=VALUE"},
		"hub":       {"--listen HOST:PORT", "--database-url URL"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, 0, Execute(t.Context(), append(strings.Fields(line), "--help"), strings.NewReader(""), &out, &errs), errs.String())
		for _, flag := range want {
			require.Regexp(t, `(?m)^ +`+regexp.QuoteMeta(flag)+` `, out.String(), line)
		}
	}
}
