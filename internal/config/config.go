// Package config fills a role's Config struct from flags, environment variables
// and a configuration file. A flag on the command line overrides a DECKHAND_*
// variable, which overrides the file, which overrides the flag's default.
//
// A key has the same name everywhere: the flag --lease-ttl is
// DECKHAND_LEASE_TTL in the environment, lease-ttl in the file and
// `koanf:"lease-ttl"` on the field.
package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// EnvPrefix begins the name of every environment variable that is read.
const EnvPrefix = "DECKHAND_"

// Secret is a value that never prints itself.
type Secret string

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// String hides the value; an empty one stays empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText hides the value from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// reserved annotates a flag of Reserve with why it cannot be set.
const reserved = "deckhand_reserved"

// Reserve makes a key an error, with the reason why nobody sets it, in the file and on
// the command line: for a program that reads another one's file and makes that setting
// itself. The environment is not looked at: the variable may be meant for the other one.
func Reserve(flags *pflag.FlagSet, key, why string) {
	flags.String(key, "", why)
	f := flags.Lookup(key)
	f.Hidden, f.Annotations = true, map[string][]string{reserved: {why}}
}

// Reserved returns why a flag cannot be set, or "".
func Reserved(f *pflag.Flag) string {
	if f == nil || len(f.Annotations[reserved]) == 0 {
		return ""
	}
	return f.Annotations[reserved][0]
}

// Load fills dst, a pointer to a struct with koanf tags. path names a YAML
// file; empty for none. A key in the file that is no flag is an error.
func Load(flags *pflag.FlagSet, path string, dst any) error {
	k := koanf.New("\x00") // no nesting: keys are flat
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return fmt.Errorf("config file %s: %w", path, err)
		}
		for _, key := range k.Keys() {
			key, _, _ = strings.Cut(key, "\x00") // of a map, such as labels: {zone: eu}
			if why := Reserved(flags.Lookup(key)); why != "" {
				return fmt.Errorf("config file %s: remove the key %q: %s", path, key, why)
			}
			if flags.Lookup(key) == nil {
				return fmt.Errorf("config file %s: unknown key %q; the keys are the flags that --help lists: %s",
					path, key, strings.Join(names(flags), ", "))
			}
		}
	}
	if err := k.Load(env.Provider("\x00", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: os.Environ,
		TransformFunc: func(name, value string) (string, any) {
			key := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, EnvPrefix)), "_", "-")
			if f := flags.Lookup(key); f == nil || value == "" || Reserved(f) != "" {
				return "", nil
			}
			return key, value
		},
	}), nil); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	var given error
	flags.Visit(func(f *pflag.Flag) {
		if why := Reserved(f); why != "" {
			given = fmt.Errorf("remove --%s: %s", f.Name, why)
		}
	})
	if given != nil {
		return given
	}
	if err := k.Load(posflag.Provider(flags, "\x00", k), nil); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	if err := k.Unmarshal("", dst); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

func names(flags *pflag.FlagSet) []string {
	var out []string
	flags.VisitAll(func(f *pflag.Flag) { out = append(out, f.Name) })
	slices.Sort(out)
	return out
}
