package output_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
)

var noun = output.Noun[*structpb.Struct]{
	Name: func(s *structpb.Struct) string { return s.GetFields()["name"].GetStringValue() },
	Columns: []output.Column[*structpb.Struct]{
		{Header: "name", Value: func(s *structpb.Struct) string { return s.GetFields()["name"].GetStringValue() },
			Style: func(*structpb.Struct) lipgloss.Style { return lipgloss.NewStyle().Foreground(lipgloss.Green) }},
		{Header: "note", Value: func(s *structpb.Struct) string { return s.GetFields()["note"].GetStringValue() }, Max: 8},
		{Header: "more", Value: func(s *structpb.Struct) string { return s.GetFields()["more"].GetStringValue() }, Wide: true},
		{Header: "text", Value: func(s *structpb.Struct) string { return s.GetFields()["text"].GetStringValue() }, Block: true},
	},
}

func object(t require.TestingT, fields map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(fields)
	require.NoError(t, err)
	return s
}

func TestOneListReadsTheSameInEveryFormat(t *testing.T) {
	t.Parallel()
	items := []*structpb.Struct{
		object(t, map[string]any{"name": "wide 世界", "note": "long enough to cut", "more": "m", "text": "a\nb"}),
		object(t, map[string]any{"name": "b\x1b[31m", "note": "x"}),
	}
	for format, want := range map[output.Format]string{
		output.Table: "NAME       NOTE\nwide 世界  long en…\nb          x\n",
		output.Wide:  "NAME       NOTE                MORE\nwide 世界  long enough to cut  m\nb          x                   -\n",
		output.Name:  "wide 世界\nb\n",
		output.JSONL: `{"more":"m","name":"wide 世界","note":"long enough to cut","text":"a\nb"}` + "\n" + `{"name":"b\u001b[31m","note":"x"}` + "\n",
		output.JSON: "[\n  {\n    \"more\": \"m\",\n    \"name\": \"wide 世界\",\n    \"note\": \"long enough to cut\",\n    \"text\": \"a\\nb\"\n  },\n" +
			"  {\n    \"name\": \"b\\u001b[31m\",\n    \"note\": \"x\"\n  }\n]\n",
		output.YAML: "- more: m\n  name: wide 世界\n  note: long enough to cut\n  text: |-\n    a\n    b\n- name: \"b\\e[31m\"\n  note: x\n",
	} {
		var out bytes.Buffer
		require.NoError(t, output.List(&output.Printer{Format: format, Out: &out, Colour: colorprofile.NoTTY}, noun, items))
		require.Equal(t, want, out.String(), format)
	}
}

func TestOneThingIsShownFieldByField(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	item := object(t, map[string]any{"name": "n", "note": "long enough to cut", "text": "a\n\x1b]0;x\x07b"})
	require.NoError(t, output.One(&output.Printer{Format: output.Table, Out: &out, Colour: colorprofile.NoTTY}, noun, item))
	require.Equal(t, "name  n\nnote  long enough to cut\n\ntext\na\n␛]0;x␇b\n", out.String())
}

func TestColoursShowWhereTheyCan(t *testing.T) {
	t.Parallel()
	items := []*structpb.Struct{object(t, map[string]any{"name": "n", "note": "x"})}
	for profile, coloured := range map[colorprofile.Profile]bool{colorprofile.TrueColor: true, colorprofile.ANSI: true, colorprofile.NoTTY: false} {
		var out bytes.Buffer
		require.NoError(t, output.List(&output.Printer{Format: output.Table, Out: &out, Colour: profile}, noun, items))
		require.Equal(t, coloured, bytes.Contains(out.Bytes(), []byte("\x1b[32m")), "%v %q", profile, out.String())
	}
}

// Whatever the value, JSON and YAML mean the same.
func TestYAMLMeansWhatJSONMeans(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "~", "null", "true", "no", "1", "1e3", "0x1", "- a", "a: b", "# c", "|", " lead", "trail ", "\n", "a\n\n", "\ta\n b", "2026-01-02",
		"\u202eevil", "\u009b31m", "\U000e0041", "👩‍💻", "\x00", "\r\n", "a\u2028b", "\ufeff", "\ufffd", "\\u202e \u202e", "=", "<<", "'\"",
	} {
		sameInYAML(t, map[string]any{"value": s, "nested": []any{s, map[string]any{s: s}}})
	}
	rapid.Check(t, func(t *rapid.T) {
		sameInYAML(t, map[string]any{rapid.String().Draw(t, "key"): rapid.String().Draw(t, "value"), "n": rapid.Float64Range(-1e20, 1e20).Draw(t, "n"), "b": true, "nil": nil, "none": []any{}})
	})
}

func sameInYAML(t require.TestingT, fields map[string]any) {
	var asJSON, asYAML bytes.Buffer
	item := object(t, fields)
	require.NoError(t, output.One(&output.Printer{Format: output.JSON, Out: &asJSON}, noun, item))
	require.NoError(t, output.One(&output.Printer{Format: output.YAML, Out: &asYAML}, noun, item))
	var a, b any
	require.NoError(t, json.Unmarshal(asJSON.Bytes(), &a))
	require.NoError(t, yaml.Unmarshal(asYAML.Bytes(), &b), asYAML.String())
	left, err := json.Marshal(a)
	require.NoError(t, err)
	right, err := json.Marshal(b)
	require.NoError(t, err)
	require.JSONEq(t, string(left), string(right), asYAML.String())
	require.NotContains(t, asYAML.String(), "\u202e")
	require.NotContains(t, asYAML.String(), "\u009b")
}

func TestAges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, d := range map[string]time.Duration{
		"0ms": -time.Second, "20ms": 20 * time.Millisecond, "1s": time.Second, "119s": 119 * time.Second, "2m": 2 * time.Minute,
		"119m": 119 * time.Minute, "47h": 47 * time.Hour, "2d": 48 * time.Hour,
	} {
		require.Equal(t, want, output.Age(now, now.Add(-d)))
	}
	require.Equal(t, "-", output.Age(now, time.Time{}))
}
