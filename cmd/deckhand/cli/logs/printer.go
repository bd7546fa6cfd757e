package logs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/colorprofile"
	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/logging"
)

// printer writes lines for people or for programs.
type printer struct {
	out    io.Writer
	json   bool
	colour colorprofile.Profile
}

// shownFirst are the keys that people look for, in this order.
var shownFirst = []string{logging.TaskID, logging.Attempt, logging.StepID, logging.NodeID}

func (p *printer) line(e entry) error {
	if p.json {
		_, err := fmt.Fprintf(p.out, "%s\n", termsafe.JSON(e.text))
		return err
	}
	level := strings.ToUpper(e.Level.String())
	style := output.Dim
	switch e.Level {
	case hclog.Warn:
		style = output.Warn
	case hclog.Error:
		style = output.Bad
	}
	var keys []string
	for key := range e.Values {
		if !slices.Contains(shownFirst, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var rest strings.Builder
	for _, key := range append(slices.Clone(shownFirst), keys...) {
		value := e.Text(key)
		if value == "" {
			continue
		}
		if strings.ContainsAny(value, " \"=") {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&rest, " %s=%s", termsafe.Line(key), termsafe.Line(value))
	}
	out := &colorprofile.Writer{Forward: p.out, Profile: p.colour}
	_, err := fmt.Fprintf(out, "%s %s %s: %s%s\n", e.At.Local().Format("2006-01-02 15:04:05.000"), style.Render(fmt.Sprintf("%-5s", level)),
		termsafe.Line(e.Component), termsafe.Line(e.Message), output.Dim.Render(rest.String()))
	return err
}
