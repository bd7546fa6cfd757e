package hubcontext

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
)

func addCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "add NAME",
		Short: "Make or change a context, and keep the current one",
		Long: `Make or change a context. It becomes the current one only where there is none.
The file is readable by its owner alone.`,
		Example: `deckhand context add staging --hub https://hub.example.com --token dhu_…`,
		Args:    env.Args("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return add(e, cmd, args[0]) },
	}
}

func add(e *env.Env, cmd *cobra.Command, name string) error {
	if e.Flags.Hub == "" {
		return env.Usage(cmd, "--hub is missing")
	}
	set, err := e.Settings()
	if err != nil {
		return err
	}
	all, err := env.LoadContexts()
	if err != nil {
		return err
	}
	if all.Contexts == nil {
		all.Contexts = map[string]env.Context{}
	}
	all.Contexts[name] = env.Context{HubURL: strings.TrimRight(e.Flags.Hub, "/"), Token: set.Token.Reveal()}
	if _, exists := all.Contexts[all.Current]; !exists {
		all.Current = name
	}
	if err := all.Save(); err != nil {
		return err
	}
	if all.Current != name {
		e.Notef("the current context is still %s; change it with `deckhand context use %s`", all.Current, name)
	}
	return nil
}
