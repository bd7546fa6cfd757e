package journalfield_test

import (
	"encoding/json"
	"testing"

	"github.com/deckhand-sh/deckhand/internal/journalfield"
)

func TestFieldsAreTextBytesOrSeveral(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"all is well"`: "all is well", `[111,107]`: "ok", `[111,255]`: "o\uFFFD", `["first","second"]`: "first", `[[111,107],"x"]`: "ok",
		`null`: "", ``: "", `{}`: "",
	} {
		if got := journalfield.Text(json.RawMessage(raw)); got != want {
			t.Errorf("%s is %q, want %q", raw, got, want)
		}
	}
}
