package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// contexts is the file ~/.config/deckhand/config.yaml: the hubs that this
// person works with. It holds tokens, so only its owner may read it.
type contexts struct {
	Current  string                 `yaml:"current,omitempty"`
	Contexts map[string]contextItem `yaml:"contexts,omitempty"`
}

type contextItem struct {
	HubURL string `yaml:"hub-url"`
	Token  string `yaml:"token,omitempty"`
}

// hubs returns the contexts' hubs, the current one first.
func (c contexts) hubs() []hubAccess {
	var out []hubAccess
	if item, ok := c.Contexts[c.Current]; ok {
		out = append(out, hubAccess{url: item.HubURL, token: config.Secret(item.Token)})
	}
	if len(out) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
		out = append(out, hubAccess{url: c.Contexts[name].HubURL, token: config.Secret(c.Contexts[name].Token)})
	}
	return out
}

func contextsPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the configuration folder: %w", err)
	}
	return filepath.Join(dir, "deckhand", "config.yaml"), nil
}

func loadContexts() (contexts, error) {
	var out contexts
	path, err := contextsPath()
	if err != nil {
		// Without a home folder there are no contexts.
		return out, nil //nolint:nilerr // see above
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("read the contexts: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&out); err != nil && !errors.Is(err, io.EOF) {
		return out, fault.New(fault.Invalid, "%s is malformed (%s)", path, err).
			WithFix("mend it, or move it away and make contexts anew with `deckhand context use`")
	}
	return out, nil
}

// save replaces the file in one step.
func (c contexts) save() error {
	path, err := contextsPath()
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("save the contexts: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".config-*") // mode 0600
	if err != nil {
		return fmt.Errorf("save the contexts: %w", err)
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("save the contexts: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}

func (a *app) contextCommand() *cobra.Command {
	cmd := group("context", "Choose which hub to work with", `
A context is a hub's URL and a token for it, under a name. The current one is
used wherever --hub and DECKHAND_HUB_URL say nothing.
`, `
deckhand context use prod --hub https://hub.example.com --token dhu_…
deckhand context list
`)
	cmd.AddCommand(&cobra.Command{
		Use:   "use NAME",
		Short: "Make a context current; with --hub, make or change it first",
		Example: `# a new one; the token may also come from DECKHAND_TOKEN
deckhand context use prod --hub https://hub.example.com --token dhu_…
# back to one made before
deckhand context use prod`,
		Args: takes("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return a.contextUse(args[0]) },
	}, &cobra.Command{
		Use: "list", Short: "List the contexts", Example: "deckhand context list",
		Args: takes(),
		RunE: func(*cobra.Command, []string) error { return a.contextList() },
	})
	return cmd
}

func (a *app) contextUse(name string) error {
	all, err := loadContexts()
	if err != nil {
		return err
	}
	item, exists := all.Contexts[name]
	if !exists && a.flags.hub == "" {
		return failed(exitNotFound, fault.New(fault.NotFound, "there is no context %q", name).
			WithFix("make it with `deckhand context use %s --hub URL --token TOKEN`, or see `deckhand context list`", name))
	}
	set, err := a.settings()
	if err != nil {
		return err
	}
	if url := strings.TrimRight(a.flags.hub, "/"); url != "" {
		if url != item.HubURL {
			item = contextItem{HubURL: url}
		}
		if set.Token != "" {
			item.Token = set.Token.Reveal()
		}
	} else if a.flags.token != "" {
		item.Token = a.flags.token
	}
	if all.Contexts == nil {
		all.Contexts = map[string]contextItem{}
	}
	all.Current, all.Contexts[name] = name, item
	if err := all.save(); err != nil {
		return err
	}
	a.notef("commands now go to %s", item.HubURL)
	if item.Token == "" {
		a.notef("it has no token yet: deckhand context use %s --token TOKEN", name)
	}
	return nil
}

func (a *app) contextList() error {
	all, err := loadContexts()
	if err != nil {
		return err
	}
	if len(all.Contexts) == 0 {
		a.notef("no contexts yet; make one: deckhand context use NAME --hub URL --token TOKEN")
	}
	var items []*structpb.Struct
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		item, err := structpb.NewStruct(map[string]any{
			"name": name, "current": name == all.Current,
			"hubUrl": all.Contexts[name].HubURL, "hasToken": all.Contexts[name].Token != "",
		})
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	return output.List(a.printer(), contextNoun, items)
}

var contextNoun = output.Noun[*structpb.Struct]{
	Name: func(s *structpb.Struct) string { return s.GetFields()["name"].GetStringValue() },
	Columns: []output.Column[*structpb.Struct]{
		{Header: "current", Value: func(s *structpb.Struct) string {
			if s.GetFields()["current"].GetBoolValue() {
				return "*"
			}
			return " "
		}},
		{Header: "name", Value: func(s *structpb.Struct) string { return s.GetFields()["name"].GetStringValue() }},
		{Header: "hub", Value: func(s *structpb.Struct) string { return s.GetFields()["hubUrl"].GetStringValue() }},
	},
}
