package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/provider"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// names returns the values of an enum of the API as the code and the database name them.
func names(values map[int32]string, prefix string) (out []string) {
	for n, value := range values {
		if n != 0 {
			out = append(out, stateName(value, prefix))
		}
	}
	return out
}

func TestTheAPIHasTheStatesOfTasks(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, task.States(), names(deckhandv1.TaskState_name, "TASK_STATE_"))
}

func TestTheAPIAndTheDatabaseHaveTheKindsOfTriggers(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, persona.TriggerKinds(), names(deckhandv1.TriggerKind_name, "TRIGGER_KIND_"))

	// The newest check of the column counts; destinations have a kind too, which begins
	// with webhook as well.
	files, err := filepath.Glob("../../hub/storage/store/migrations/*.sql")
	require.NoError(t, err)
	check := regexp.MustCompile(`CHECK \(kind IN \(('webhook', 'cron'[^)]*)\)\)`)
	var stored string
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if m := check.FindStringSubmatch(string(text)); m != nil {
			stored = m[1]
		}
	}
	require.ElementsMatch(t, persona.TriggerKinds(), strings.Split(strings.ReplaceAll(stored, "'", ""), ", "))
}

// table returns the names in the first column of a page's table: `one`, or `one`, `two`.
func table(t *testing.T, path, head string) (out []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), head)
	require.True(t, found, "%s has no table %q", path, head)
	rows, _, _ := strings.Cut(after, "\n\n")
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		if len(cells) < 2 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			out = append(out, m[1])
		}
	}
	return out
}

func TestTheDocumentedProvidersAreTheTable(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, provider.Connectable(), table(t, "../../docs/providers.md", "| provider | API | address |\n|---|---|---|\n"))
}
