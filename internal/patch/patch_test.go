package patch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/patch"
)

func whole(lines ...string) string {
	return "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch"
}

func TestPatchesAreRead(t *testing.T) {
	t.Parallel()
	files, err := patch.Parse(whole("*** Add File: a.md", "+# A", "+", "*** Update File: b.go", "*** Move to: c/b.go", "@@ type T struct {", "@@ \tx int", " one", "-two", "+three", "*** End of File", "*** Delete File: d"))
	require.NoError(t, err)
	require.Equal(t, []patch.File{
		{Kind: patch.Add, Path: "a.md", Content: "# A\n\n"},
		{Kind: patch.Update, Path: "b.go", To: "c/b.go", Hunks: []patch.Hunk{{
			Line: 7, After: []string{"type T struct {", "\tx int"}, Lines: []patch.Line{{' ', "one"}, {'-', "two"}, {'+', "three"}}, AtEnd: true,
		}}},
		{Kind: patch.Delete, Path: "d"},
	}, files)
	files, err = patch.Parse(whole("*** Update File: a", "@@", "-x"))
	require.NoError(t, err)
	require.Empty(t, files[0].To)
	for text, want := range map[string]string{
		"":                               "no \"*** Begin Patch\"",
		"*** Begin Patch\n*** End Patch": "line 2 of the patch: the patch changes no file",
		whole("hello"):                   `line 2 of the patch: "hello" begins no file`,
		whole("*** Add File: a", "text"): "line 3 of the patch: a line of a new file does not begin with +",
		whole("*** Update File: a"):      `nothing is changed in "a"`,
		whole("*** Update File: a", "@@", "*oops"):                     `line 4 of the patch: "*oops" begins with none`,
		whole("*** Update File: a", "@@ x"):                            "a hunk has no lines",
		whole("*** Delete File: "):                                     "a file has no path",
		whole("*** Update File: a", "-x", "*** End of File", "+after"): `"+after" is no part of a hunk`,
	} {
		_, err := patch.Parse(text)
		require.ErrorContains(t, err, want)
	}
}

func TestHunksFindTheirPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string
		hunks  []string
		want   string
	}{
		"one line":                       {"a\nb\nc\n", []string{"@@", " a", "-b", "+B"}, "a\nB\nc\n"},
		"without a header":               {"a\nb\n", []string{"-b", "+B"}, "a\nB\n"},
		"two hunks":                      {"a\nb\nc\nd\n", []string{"@@", "-a", "+A", "@@", "-d", "+D"}, "A\nb\nc\nD\n"},
		"below a line":                   {"f\nx\ng\nx\n", []string{"@@ g", "-x", "+y"}, "f\nx\ng\ny\n"},
		"below two lines":                {"A\nm\nx\nB\nm\nx\n", []string{"@@ B", "@@ m", "-x", "+y"}, "A\nm\nx\nB\nm\ny\n"},
		"the last of several":            {"x\ny\nx\n", []string{"@@", "-x", "+z", "*** End of File"}, "x\ny\nz\n"},
		"only new lines":                 {"a\n", []string{"@@", "+b"}, "a\nb\n"},
		"into an empty file":             {"", []string{"@@", "+b"}, "b\n"},
		"the whole file":                 {"a\n", []string{"@@", "-a"}, ""},
		"no line end at the file's end":  {"a\nb", []string{"@@", "-b", "+c"}, "a\nc\n"},
		"other white space, which stays": {"\ta  \nb\n", []string{"@@", " a", "-b", "+c"}, "\ta  \nc\n"},
		"other dashes and quotes":        {"a – “b”\nc\n", []string{"@@", " a - \"b\"", "-c", "+d"}, "a – “b”\nd\n"},
		"lines that end in CRLF":         {"a\r\nb\r\n", []string{"@@", " a", "-b", "+c", "+d"}, "a\r\nc\r\nd\r\n"},
		"an empty line too many":         {"a\nb", []string{"@@", "-a", "+A", ""}, "A\nb\n"},
	} {
		files, err := patch.Parse(whole(append([]string{"*** Update File: f"}, c.hunks...)...))
		require.NoError(t, err, name)
		got, err := files[0].Apply(c.before)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	files, err := patch.Parse(whole("*** Update File: f", "@@", "-a", "+A", "@@", " x", "-y"))
	require.NoError(t, err)
	_, err = files[0].Apply("a\nb\n")
	require.ErrorContains(t, err, `"f", the hunk on line 6 of the patch: its lines are not in the file`)
	var missing *patch.Missing
	require.True(t, errors.As(err, &missing))
	require.Equal(t, "x\ny", missing.Text)
}

// A patch that can be read can be applied or is refused: nothing else of the file changes.
func FuzzPatch(f *testing.F) {
	f.Add(whole("*** Update File: f", "@@ a", " b", "-c", "+d", "", "*** End of File"), "a\nb\nc\n\n")
	f.Add(whole("*** Update File: f", "-a", "@@", "-a"), "a\r\na")
	f.Fuzz(func(t *testing.T, text, before string) {
		files, err := patch.Parse(text)
		if err != nil {
			return
		}
		for _, file := range files {
			after, err := file.Apply(before)
			if err != nil || file.Kind != patch.Update {
				continue
			}
			added, removed := 0, 0
			for _, h := range file.Hunks {
				for _, line := range h.Lines {
					added += strings.Count(string(line.Change), "+")
					removed += strings.Count(string(line.Change), "-")
				}
			}
			lines := func(s string) int { return strings.Count(strings.TrimSuffix(s, "\n"), "\n") + min(len(s), 1) }
			if len(file.Hunks) > 0 && lines(after) != lines(before)+added-removed {
				t.Errorf("%d lines and %d added, %d removed are %d", lines(before), added, removed, lines(after))
			}
		}
	})
}
