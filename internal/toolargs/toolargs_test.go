package toolargs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func planTool(t testing.TB) *deckhandv1.Tool {
	t.Helper()
	schema, err := structpb.NewStruct(map[string]any{
		"type": "object", "required": []any{"items"}, "additionalProperties": false,
		"properties": map[string]any{
			"items": map[string]any{"type": "array", "items": map[string]any{
				"type": "object", "required": []any{"id", "status"},
				"properties": map[string]any{
					"id":     map[string]any{"type": "string"},
					"status": map[string]any{"enum": []any{"pending", "done"}},
				},
			}},
			"count": map[string]any{"type": "integer", "maximum": 10},
		},
	})
	require.NoError(t, err)
	return &deckhandv1.Tool{Name: "update_plan", InputSchema: schema}
}

// The model sees what is wrong with its call, by field, with the code.
func TestWrongArgumentsAreSaidByField(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ arguments, says string }{
		"half a JSON object":             {`{"items": [`, "the text ends before the value does"},
		"text behind the object":         {`{"items": []} and more`, "more text behind"},
		"no object":                      {`[1]`, "must be a JSON object, not a list"},
		"no JSON at all":                 {`items=[]`, "not valid JSON"},
		"an empty text":                  {``, "the text ends"},
		"null":                           {`null`, "not null"},
		"a missing field":                {`{}`, "missing property 'items'"},
		"a field that is not known":      {`{"items": [], "itmes": []}`, "'itmes' not allowed"},
		"a wrong type":                   {`{"items": "a"}`, "items: got string, want array"},
		"a wrong value far down":         {`{"items": [{"id": "1", "status": "ready"}]}`, "items[0].status: value must be one of"},
		"a number past its limit":        {`{"items": [], "count": 11}`, "count: maximum: got 11, want 10"},
		"a whole number beyond int64":    {`{"items": [], "count": 1e40}`, "count: maximum"},
		"a number with a billion digits": {`{"items": [], "count": 1e999999999}`, "out of range"},
		"a key given twice":              {`{"items": [], "items": [1]}`, `the key "items" is there twice`},
		"nesting without end":            {`{"items": ` + strings.Repeat("[", 10_000), "nests deeper than 64"},
		"five megabytes":                 {`{"items": "` + strings.Repeat("a", 5<<20) + `"}`, "at most 4194304"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := toolargs.Check(planTool(t), tc.arguments)
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, "{count?: integer, items: array}")
			e := fault.As(err)
			require.Equal(t, fault.Invalid, e.Kind)
			require.Equal(t, fault.InvalidParameters, e.Code)
			require.Less(t, len(err.Error()), 8000)
		})
	}
}

func TestRightArgumentsComeBackAsAnObject(t *testing.T) {
	t.Parallel()
	got, err := toolargs.Check(planTool(t), `{"items": [{"id": "1", "status": "done"}], "count": 3}`)
	require.NoError(t, err)
	require.InDelta(t, 3, got["count"], 0)
}

func TestASchemaThatRefersElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	schema, err := structpb.NewStruct(map[string]any{"$ref": "file:///etc/passwd"})
	require.NoError(t, err)
	_, err = toolargs.Check(&deckhandv1.Tool{Name: "x", InputSchema: schema}, `{}`)
	require.True(t, fault.Is(err, fault.Internal))
}

func FuzzCheck(f *testing.F) {
	tool := planTool(f)
	for _, seed := range []string{`{}`, `{"items":[{"id":"1","status":"done"}]}`, `[[[`, `{"items":1e999}`, "\"\xff\"", `{"count":-0}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		got, err := toolargs.Check(tool, arguments)
		require.Equal(t, err == nil, got != nil)
		if err != nil {
			require.True(t, fault.Is(err, fault.Invalid))
		}
	})
}
