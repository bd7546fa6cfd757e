package env

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

	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

// Contexts is the file ~/.config/deckhand/config.yaml: the hubs that this
// person works with. It holds tokens, so only its owner may read it.
type Contexts struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts,omitempty"`
}

// Context is one of the hubs, with the person's token for it.
type Context struct {
	HubURL string `yaml:"hub-url"`
	Token  string `yaml:"token,omitempty"`
}

// hubs returns the contexts' hubs, the current one first; none without a current one.
func (c Contexts) hubs() []hubAccess {
	access := func(item Context) hubAccess { return hubAccess{url: item.HubURL, token: config.Secret(item.Token)} }
	current, ok := c.Contexts[c.Current]
	if !ok {
		return nil
	}
	out := []hubAccess{access(current)}
	for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
		if name != c.Current {
			out = append(out, access(c.Contexts[name]))
		}
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

// LoadContexts returns the contexts of the user; empty if the user has no file of them,
// or no configuration folder that could hold one.
func LoadContexts() (Contexts, error) {
	var out Contexts
	path, err := contextsPath()
	if err != nil {
		return out, nil //nolint:nilerr // a service without a home folder has no contexts
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
			WithFix("repair it, or move it away and create contexts again with `deckhand context use`")
	}
	return out, nil
}

// Save replaces the file in one step.
func (c Contexts) Save() error {
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
	if err := wholefile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("save the contexts: %w", err)
	}
	return nil
}
