package persona_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/persona"
)

func TestRenameChangesTheNameOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after string }{
		{"---\nname: old # mine\ndescription: old\n---\nname: old\n", "---\nname: new # mine\ndescription: old\n---\nname: old\n"},
		{"---\r\ndescription: x\r\nname: \"old\"\r\n---\r\n", "---\r\ndescription: x\r\nname: new\r\n---\r\n"},
		{"---\n{name: 'old', description: x}\n---\n", "---\n{name: new, description: x}\n---\n"},
	} {
		got, err := persona.Rename(c.before, "new")
		require.NoError(t, err)
		require.Equal(t, c.after, got)
	}
	for _, text := range []string{"no front matter", "---\ndescription: x\n---\n", "---\nname: >-\n  old\n---\n", "---\nname: &a old\nprovider: *a\n---\n"} {
		_, err := persona.Rename(text, "new")
		require.Error(t, err, text)
	}
}

func TestWithoutKeepsTheCommentsOfTheNextKey(t *testing.T) {
	t.Parallel()
	got, had, err := persona.Without("---\nname: a\ntriggers:\n  - name: x\n    # of x\n    goal: y\n\n# The limits.\nlimits: {}\n---\nBody\n", "triggers")
	require.NoError(t, err)
	require.True(t, had)
	require.Equal(t, "---\nname: a\n\n# The limits.\nlimits: {}\n---\nBody\n", got)
	got, had, err = persona.Without("---\nname: a\ntriggers: []\n---\n", "triggers")
	require.NoError(t, err)
	require.True(t, had)
	require.Equal(t, "---\nname: a\n---\n", got)
	_, had, err = persona.Without("---\nname: a\n---\n", "triggers")
	require.NoError(t, err)
	require.False(t, had)
}

func TestChangesNamesTheKeysThatDiffer(t *testing.T) {
	t.Parallel()
	base := "---\nname: a\ntools: [x, y]\nlimits: {iterations: 5}\n---\nDo it.\n"
	for _, c := range []struct{ after, want string }{
		{base, ""},
		{"---\n# a comment\nname: \"a\"\ntools:\n  - x\n  - y\nlimits:\n  iterations: 5\n---\nDo it.\n", "tools, limits.iterations"},
		{"---\nname: a\ntools: [x, y]\nlimits: {iterations: 6, calls: 3}\n---\nDo it.\n", "limits.iterations, +limits.calls"},
		{"---\nname: a\nlimits: {iterations: 5}\n---\nDo it well.\nAnd fast.\n", "-tools, prompt (+2 -1 lines)"},
	} {
		got := persona.Changes(base, c.after)
		if c.want == "tools, limits.iterations" {
			require.Empty(t, got, "style and comments are no change")
			continue
		}
		require.Equal(t, c.want, got)
	}
}

func TestAvatarIsAnEmojiOrABuiltInPicture(t *testing.T) {
	t.Parallel()
	parse := func(avatar string) (*persona.Persona, error) {
		return persona.Parse("x.md", []byte("---\nname: a\ndescription: b\nprovider: anthropic\nmodel: m\ntools: []\navatar: "+avatar+"\n---\nDo it.\n"), persona.Vocabulary{})
	}
	for _, good := range []string{`"🤖"`, `"👩🏽‍🚀"`, `"🇩🇪"`, `"⚙️"`, `"1️⃣"`, `"❤️"`, "rocket", "shield"} {
		p, err := parse(good)
		require.NoError(t, err, good)
		require.NotEmpty(t, p.Avatar)
	}
	for _, bad := range []string{`"https://example.com/a.png"`, "javascript:x", "AB", `"<b>"`, "rockets", `"1"`, `"🤖 bot"`, `"\u202e🤖"`, `"🤖🤖🤖🤖🤖🤖🤖🤖🤖🤖🤖🤖🤖"`} {
		_, err := parse(bad)
		require.ErrorContains(t, err, "avatar", bad)
	}
}

// A persona of a name, a description, a model and tools is whole: the rest has defaults.
func TestAShortPersonaHasDefaults(t *testing.T) {
	t.Parallel()
	p, err := persona.Parse("x.md", []byte("---\nname: a\ndescription: b\nprovider: anthropic\nmodel: m\ntools: [file_read]\n---\nDo it.\n"), persona.Vocabulary{})
	require.NoError(t, err)
	require.Equal(t, 50, p.Limits.Iterations)
	require.Equal(t, persona.StopAtLimit, p.Limits.OnLimit)
	p, err = persona.Parse("x.md", []byte("---\nname: a\ndescription: b\nprovider: anthropic\nmodel: m\ntools: [file_read]\nlimits: {cost_usd: 1}\n---\nDo it.\n"), persona.Vocabulary{})
	require.NoError(t, err)
	require.Equal(t, 50, p.Limits.Iterations)
}
