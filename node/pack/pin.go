package pack

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/knadh/koanf/parsers/yaml"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// DefaultPins is the file with the pins of a node.
const DefaultPins = "/etc/deckhand/packs.yaml"

// Pin says which archive a pack is made of.
type Pin struct {
	Name string
	// SHA256 is the archive's digest in hexadecimal.
	SHA256 string
	// URL is where it is; empty for one that is imported as a file.
	URL string
}

func (p Pin) check() error {
	invalid := func(what string) error {
		return fault.New(fault.Invalid, "the pin %.60q: %s", p.Name, what).WithFix("write it as NAME: {url: https://…, sha256: …}")
	}
	if raw, err := hex.DecodeString(p.SHA256); err != nil || len(raw) != 32 || hex.EncodeToString(raw) != p.SHA256 {
		return invalid("its sha256 is not 64 hexadecimal digits in small letters")
	}
	if !nameForm.MatchString(p.Name) {
		return invalid("its name is not one of small letters, digits and -")
	}
	if u, err := url.Parse(p.URL); p.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		return invalid("its url is not one of http or https")
	}
	return nil
}

// PinOf returns the pin of a pack in a file.
func PinOf(file, name string) (Pin, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Pin{}, fault.New(fault.Precondition, "%s is not there: nothing says which archive the pack %s is made of", file, name).
			WithFix("write the pin there: %s: {url: https://…, sha256: …}", name)
	}
	if err != nil {
		return Pin{}, fmt.Errorf("read the pins: %w", err)
	}
	all, err := yaml.Parser().Unmarshal(raw)
	if err != nil {
		return Pin{}, fault.New(fault.Invalid, "%s is not valid YAML", file).WithCause(err)
	}
	of, ok := all[name].(map[string]any)
	if !ok {
		return Pin{}, fault.New(fault.NotFound, "%s has no pin for the pack %q", file, name).WithFix("write it there: %s: {url: https://…, sha256: …}", name)
	}
	pin := Pin{Name: name}
	for key, value := range of {
		text, ok := value.(string)
		switch {
		case ok && key == "sha256":
			pin.SHA256 = text
		case ok && key == "url":
			pin.URL = text
		default:
			return Pin{}, fault.New(fault.Invalid, "%s: %s.%s is not known, or not a text", file, name, key).WithFix("use url and sha256")
		}
	}
	return pin, pin.check()
}
