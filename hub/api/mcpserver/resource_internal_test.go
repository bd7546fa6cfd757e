package mcpserver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAURINamesATaskALogOrAFile(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]resource{
		"deckhand://tasks/task_1":                       {task: "task_1"},
		"deckhand://tasks/task_1/steps/3/log":           {task: "task_1", step: "3"},
		"deckhand://tasks/task_1/files/a/b%20c.md":      {task: "task_1", path: "a/b c.md"},
		"deckhand://tasks/task_1/files/steps/3/log":     {task: "task_1", path: "steps/3/log"},
		"deckhand://tasks/task_1/files/..%2Fsecret":     {task: "task_1", path: "../secret"}, // the node refuses it
		"deckhand://tasks/task_1/files/\xe2\x80\xae.md": {task: "task_1", path: "\u202e.md"},
	} {
		got, ok := parseURI(uri)
		require.True(t, ok, uri)
		require.Equal(t, want, got, uri)
	}
	for _, uri := range []string{
		"", "deckhand://tasks/", "deckhand://nodes/x", "deckhand://tasks/t/files/", "deckhand://tasks/t/files", "deckhand://tasks/t/steps/3",
		"deckhand://tasks/t/steps/3/4/log", "deckhand://tasks/t/steps//log", "deckhand://tasks/%zz", "https://tasks/t",
	} {
		_, ok := parseURI(uri)
		require.False(t, ok, uri)
	}
}

// A piece of a text ends with a whole character.
func TestAPieceOfATextEndsWithAWholeCharacter(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{"": "", "abc": "abc", "aü": "aü", "aü"[:2]: "a", "a😀"[:4]: "a"} {
		text, n, ok := textOf([]byte(data))
		require.True(t, ok, "%q", data)
		require.Equal(t, want, text)
		require.Len(t, want, n)
	}
	for _, data := range []string{"\xff", "a\xffb", "\xff\xfe\xfd\xfc\xfb"} {
		_, _, ok := textOf([]byte(data))
		require.False(t, ok, "%q", data)
	}
}
