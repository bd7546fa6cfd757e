// Package output shows data in the formats of -o: for people as a table or a
// list of fields, for programs as JSON, JSON lines, YAML or names. Every noun
// declares once what it is called and what its columns are; what can be shown
// one way can be shown all ways.
//
// All of it goes to one writer, standard output, and nothing else does:
// progress, hints and errors are the caller's and go to standard error.
// Text that others wrote is made safe for terminals here (package termsafe).
package output

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
)

// Format is how data is shown. It is a pflag.Value.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	JSONL Format = "jsonl"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// Formats are all of them, in the order of the help.
var Formats = []string{string(Table), string(Wide), string(JSON), string(JSONL), string(YAML), string(Name)}

// String returns the format's name.
func (f *Format) String() string { return string(*f) }

// Set takes a format's name.
func (f *Format) Set(s string) error {
	if !slices.Contains(Formats, s) {
		return fmt.Errorf("use one of %s", strings.Join(Formats, ", "))
	}
	*f = Format(s)
	return nil
}

// Type names the kind of value in the help.
func (f *Format) Type() string { return "format" }

// ForPeople reports whether the format is a table of some kind.
func (f *Format) ForPeople() bool { return *f == Table || *f == Wide }

// Column is one figure of a noun.
type Column[T any] struct {
	// Header is its title, in lower case.
	Header string
	Value  func(T) string
	// Style colours the value on a terminal; nil for none.
	Style func(T) lipgloss.Style
	// Wide leaves it out of plain tables; it shows in wide ones and when one
	// thing is shown by itself.
	Wide bool
	// Alone shows it only when one thing is shown by itself.
	Alone bool
	// Block keeps its lines, below the other fields. It implies Alone.
	Block bool
	// Max is how many characters of it a plain table shows; 0 for all.
	Max int
}

// Noun says how a kind of thing is shown.
type Noun[T proto.Message] struct {
	// Name is what -o name prints: the id, or the name that commands take.
	Name    func(T) string
	Columns []Column[T]
}

// Printer shows data in one format.
type Printer struct {
	Format Format
	// Out gets the data and nothing else.
	Out io.Writer
	// Colour is what Out can show.
	Colour colorprofile.Profile
}

// Colours returns what w can show. NO_COLOR, whatever its value, means none
// (https://no-color.org), and so does anything that is not a terminal.
func Colours(w io.Writer) colorprofile.Profile {
	if os.Getenv("NO_COLOR") != "" {
		return colorprofile.NoTTY
	}
	return colorprofile.Detect(w, os.Environ())
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(term.File)
	return ok && term.IsTerminal(f.Fd())
}

// List shows things. In the formats for programs no things are an empty list;
// for people they are nothing at all, and the caller says what to do next.
func List[T proto.Message](p *Printer, noun Noun[T], items []T) error {
	switch p.Format {
	case JSON:
		return p.jsonArray(messages(items))
	case YAML:
		return p.yamlArray(messages(items))
	case JSONL, Name:
		for _, item := range items {
			if err := Entry(p, noun, item); err != nil {
				return err
			}
		}
		return nil
	default:
		if len(items) == 0 {
			return nil
		}
		return p.styled(grid(noun, items, p.Format == Wide))
	}
}

// One shows one thing: all its fields, for people.
func One[T proto.Message](p *Printer, noun Noun[T], item T) error {
	switch p.Format {
	case JSON:
		return p.json(item)
	case YAML:
		return p.yaml(item)
	case JSONL, Name:
		return Entry(p, noun, item)
	default:
		return p.styled(sheet(noun, item))
	}
}

// Brief shows one thing that a command made or changed: its row, for people,
// and otherwise what One shows.
func Brief[T proto.Message](p *Printer, noun Noun[T], item T) error {
	if p.Format.ForPeople() {
		return List(p, noun, []T{item})
	}
	return One(p, noun, item)
}

// Entry shows one thing of a stream that goes on: a JSON line (for -o json
// too, since an array would never end), a YAML document, or a name. In the
// formats for people it shows a row without a header.
func Entry[T proto.Message](p *Printer, noun Noun[T], item T) error {
	switch p.Format {
	case JSON, JSONL:
		return p.jsonLine(item)
	case YAML:
		if _, err := io.WriteString(p.Out, "---\n"); err != nil {
			return err
		}
		return p.yaml(item)
	case Name:
		_, err := fmt.Fprintln(p.Out, termsafe.Line(noun.Name(item)))
		return err
	default:
		return p.styled(row(noun, item, p.Format == Wide))
	}
}

// styled writes text with as much of its styling as Out can show.
func (p *Printer) styled(text string) error {
	_, err := (&colorprofile.Writer{Forward: p.Out, Profile: p.Colour}).Write([]byte(text))
	return err
}

func messages[T proto.Message](items []T) []proto.Message {
	out := make([]proto.Message, len(items))
	for i, item := range items {
		out[i] = item
	}
	return out
}

// Age returns how long ago t was, in its largest unit: "42s", "5m", "3h",
// "12d". A zero time is "-".
func Age(now, t time.Time) string {
	if t.IsZero() || t.Unix() == 0 {
		return "-"
	}
	return Duration(now.Sub(t))
}

// Duration returns d in its largest unit, rounded down.
func Duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}
