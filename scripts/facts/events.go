package main

import (
	"fmt"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
)

// eventPage returns docs/events.md with its tables.
func eventPage() (string, error) {
	var worker, hub, lifecycle strings.Builder
	const head = "| type | when | payload |\n|---|---|---|\n"
	worker.WriteString(head)
	hub.WriteString(head)
	for _, e := range eventkind.All() {
		to := &hub
		if e.Worker {
			to = &worker
		}
		fmt.Fprintf(to, "| `%s` | %s | %s |\n", e.Kind, e.When, e.Payload)
	}
	lifecycle.WriteString("| name | event | what has happened |\n|---|---|---|\n")
	for _, l := range eventkind.LifecycleTable() {
		fmt.Fprintf(&lifecycle, "| `%s` | %s | %s |\n", l.Name, source(l), l.What)
	}
	return replaceAll("docs/events.md", map[string]string{"worker": worker.String(), "hub": hub.String(), "lifecycle": lifecycle.String()})
}

// source says which events have a lifecycle name.
func source(l eventkind.Lifecycle) string {
	text := fmt.Sprintf("`%s`", l.From)
	switch {
	case len(l.Words) > 0:
		text += fmt.Sprintf(" with `%s`: `%s`", l.Field, strings.Join(l.Words, "` or `"))
	case l.Field != "":
		text += fmt.Sprintf(" with `%s`", l.Field)
	}
	return text
}

// groupTable returns the groups of events in docs/notifications.md.
func groupTable() string {
	var out strings.Builder
	out.WriteString("| group | types |\n|---|---|\n")
	for _, g := range eventkind.Groups() {
		fmt.Fprintf(&out, "| `%s` | `%s` |\n", g, strings.Join(eventkind.Members(g), "`, `"))
	}
	return out.String()
}

// outsideTable returns the events that belong to no task in docs/notifications.md.
func outsideTable() string {
	var out strings.Builder
	out.WriteString("| type | when |\n|---|---|\n")
	for _, o := range eventkind.OutsideTable() {
		fmt.Fprintf(&out, "| `%s` | %s |\n", o.Kind, o.When)
	}
	return out.String()
}
