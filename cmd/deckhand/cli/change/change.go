// Package change shows changed files, and undoes changes: Run first asks the
// hub
// what an undo would do, shows that, and does it with --yes only.
package change

import (
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Show prints the paths that change, one a line, and how many more there are.
func Show(e *env.Env, changes []*deckhandv1.FileChange, files int32) {
	for _, c := range changes {
		fmt.Fprintf(e.Out, "%s %s\n", Sign(c.GetKind()), termsafe.Line(c.GetPath()))
	}
	if more := int(files) - len(changes); more > 0 {
		fmt.Fprintf(e.Out, "and %d more\n", more)
	}
}

// Sign returns the mark of a kind of change: +, - or ~.
func Sign(kind deckhandv1.ChangeKind) string {
	switch kind {
	case deckhandv1.ChangeKind_CHANGE_KIND_ADDED:
		return "+"
	case deckhandv1.ChangeKind_CHANGE_KIND_DELETED:
		return "-"
	}
	return "~"
}

// UndoTime says how long something can still be undone.
func UndoTime(left time.Duration) string {
	if left <= 0 {
		return "the time to undo is over"
	}
	return fmt.Sprintf("can be undone for another %s", left.Round(time.Second))
}
