package taskplan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

func TestAPlanIsReadFromYAMLAndJSON(t *testing.T) {
	t.Parallel()
	want := `{"items":[{"title":"Back up"},{"id":"m","title":"Migrate","children":[{"title":"Stop"},{"title":"Run","dependsOn":["x"]}]}]}`
	for _, text := range []string{
		"- Back up\n- title: Migrate\n  id: m\n  children: [Stop, {title: Run, depends_on: [x]}]\n",
		"items:\n- Back up\n- {title: Migrate, id: m, children: [Stop, {title: Run, dependsOn: [x]}]}\n",
		want,
	} {
		plan, err := parsePlan([]byte(text))
		require.NoError(t, err, text)
		got, err := protojson.Marshal(plan)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
	for text, problem := range map[string]string{
		"": "EOF", "[]": "no items", "a: 1": "neither a list", "- 1": "item 1", "- {titel: x}": "titel", "- {title: a, children: b}": "a list",
	} {
		_, err := parsePlan([]byte(text))
		require.ErrorContains(t, err, problem, text)
	}
}
