package hubcontext

import (
	"github.com/spf13/cobra"

	"strings"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

func useCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Select a context; with --hub, create or update it first",
		Example: `# a new one; the token may also come from DECKHAND_TOKEN
deckhand context use prod --hub https://hub.example.com --token dhu_…
# back to one made before
deckhand context use prod`,
		Args: env.Args("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return use(e, args[0]) },
	}
}

// use makes a context current, after making or changing it as the flags say.
func use(e *env.Env, name string) error {
	all, err := env.LoadContexts()
	if err != nil {
		return err
	}
	item, exists := all.Contexts[name]
	if !exists && e.Flags.Hub == "" {
		return env.Failed(env.ExitNotFound, fault.New(fault.NotFound, "there is no context %q", name).
			WithFix("make it with `deckhand context use %s --hub URL --token TOKEN`, or see `deckhand context list`", name))
	}
	set, err := e.Settings()
	if err != nil {
		return err
	}
	if url := strings.TrimRight(e.Flags.Hub, "/"); url != "" {
		if url != item.HubURL {
			item = env.Context{HubURL: url}
		}
		if set.Token != "" {
			item.Token = set.Token.Reveal()
		}
	} else if e.Flags.Token != "" {
		item.Token = e.Flags.Token
	}
	if all.Contexts == nil {
		all.Contexts = map[string]env.Context{}
	}
	all.Current, all.Contexts[name] = name, item
	if err := all.Save(); err != nil {
		return err
	}
	e.Notef("commands now go to %s", item.HubURL)
	if item.Token == "" {
		e.Notef("it has no token yet: deckhand context use %s --token TOKEN", name)
	}
	return nil
}
