package config

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/spf13/pflag"
)

// mentioned finds the flags that a usage mentions.
var mentioned = regexp.MustCompile(`--[a-z][a-z-]*`)

// WriteTemplate writes a configuration file with every key of a program, each with
// what it is for and its default, all commented out: the file changes nothing until a
// line is edited. title is a comment at its top.
func WriteTemplate(out io.Writer, flags *pflag.FlagSet, title string) error {
	var b strings.Builder
	comment(&b, title)
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || !IsKey(f) {
			return
		}
		value, err := assignment(f, f.DefValue)
		if err != nil {
			failed = fmt.Errorf("write the default of %s: %w", f.Name, err)
			return
		}
		b.WriteString("\n")
		usage := mentioned.ReplaceAllStringFunc(strings.ReplaceAll(f.Usage, "`", ""), func(name string) string {
			if key := strings.TrimPrefix(name, "--"); flags.Lookup(key) != nil {
				return key // as it is called in the file
			}
			return name
		})
		comment(&b, strings.ToUpper(usage[:1])+usage[1:]+".")
		b.WriteString("#" + value + "\n")
	})
	if failed != nil {
		return failed
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// notAKey annotates a flag that is no setting.
const notAKey = "deckhand_not_a_key"

// NotAKey says that a flag is no setting: it does something once, and does not belong
// in a configuration file.
func NotAKey(flags *pflag.FlagSet, name string) {
	f := flags.Lookup(name)
	f.Annotations = map[string][]string{notAKey: {"true"}}
}

// IsKey reports whether a flag is a setting, which a configuration file may have.
func IsKey(f *pflag.Flag) bool {
	return f.Annotations[notAKey] == nil && Reserved(f) == "" && f.Name != "config" && f.Name != "help"
}

// Edit returns a configuration file in which every flag that was given is set, and
// the keys of those, in their order. All else stays as it is.
func Edit(text []byte, flags *pflag.FlagSet) (changed []byte, keys []string, err error) {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	flags.Visit(func(f *pflag.Flag) {
		if !IsKey(f) {
			return
		}
		value, failed := assignment(f, f.Value.String())
		if failed != nil {
			err = fmt.Errorf("write %s: %w", f.Name, failed)
			return
		}
		keys = append(keys, f.Name)
		lines = set(lines, f.Name, value)
	})
	return []byte(strings.Join(lines, "\n") + "\n"), keys, err
}

// set puts the line of a key into a file: in place of the one that is there, or of
// the commented default, or at the end.
func set(lines []string, key, line string) []string {
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+":") })
	if at < 0 {
		at = slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#"+key+":") })
	}
	if at < 0 {
		return append(lines, line)
	}
	// The rest of a value of several lines is indented, or begins with a dash.
	end := at + 1
	for !strings.HasPrefix(lines[at], "#") && end < len(lines) && lines[end] != "" && strings.ContainsAny(lines[end][:1], " -\t") {
		end++
	}
	return slices.Replace(lines, at, end, line)
}

// assignment is the line that sets a flag's key to a value.
func assignment(f *pflag.Flag, value string) (string, error) {
	switch f.Value.Type() {
	case "stringSlice":
		list := []string{}
		if text := strings.Trim(value, "[]"); text != "" {
			list = strings.Split(text, ",")
		}
		text, err := json.Marshal(list)
		return f.Name + ": " + string(text), err
	case "stringToString":
		values := map[string]string{}
		for pair := range strings.SplitSeq(strings.Trim(value, "[]"), ",") {
			if key, value, ok := strings.Cut(pair, "="); ok {
				values[key] = value
			}
		}
		text, err := json.Marshal(values)
		return f.Name + ": " + string(text), err
	case "bool", "int", "int64", "uint32", "float64":
		return f.Name + ": " + value, nil
	}
	text, err := yaml.Parser().Marshal(map[string]any{f.Name: value})
	return strings.TrimRight(string(text), "\n"), err
}

// Environment returns the names of the environment variables that set a flag's key.
func Environment(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		name := EnvPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if os.Getenv(name) != "" && IsKey(f) {
			names = append(names, name)
		}
	})
	return names
}

// lineWidth is how long the lines of comments are.
const lineWidth = 88

// comment writes text as lines of comments.
func comment(b *strings.Builder, text string) {
	for paragraph := range strings.Lines(text) {
		line := "#"
		for word := range strings.FieldsSeq(paragraph) {
			if len(line)+1+len(word) > lineWidth {
				b.WriteString(line + "\n")
				line = "#"
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
}
