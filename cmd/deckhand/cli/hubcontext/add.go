package hubcontext

import (
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// addOptions are the flags of context add.
type addOptions struct {
	how replacing
}

func addCommand(e *env.Env) *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Create or update a context without selecting it",
		Long: `Make or change a context. It becomes the current one only where there is none.
A context of another hub is kept unless --replace is given.
The file is readable by its owner alone.`,
		Example: `deckhand context add staging --hub https://hub.example.com --token dhu_…`,
		Args:    env.Args("NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return add(e, cmd, args[0], o.how) },
	}
	cmd.Flags().BoolVar(&o.how.all, "replace", false, "replace a context of another hub")
	cmd.Flags().BoolVar(&o.how.loopback, "replace-loopback", false, "replace a context of another hub on this machine")
	_ = cmd.Flags().MarkHidden("replace-loopback") // for deckhand up, whose port may change
	return cmd
}

// replacing says which contexts of other hubs are replaced.
type replacing struct{ all, loopback bool }

func (r replacing) allows(hubURL string) bool {
	u, err := url.Parse(hubURL)
	if err != nil {
		return r.all
	}
	ip := net.ParseIP(u.Hostname())
	return r.all || r.loopback && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

func add(e *env.Env, cmd *cobra.Command, name string, how replacing) error {
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
	if old, exists := all.Contexts[name]; exists && old.HubURL != strings.TrimRight(e.Flags.Hub, "/") && !how.allows(old.HubURL) {
		return fault.New(fault.Precondition, "the context %s is for %s", name, old.HubURL).WithFix("choose another name, or give --replace")
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
