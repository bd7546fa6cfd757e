package step

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/redact"
)

// A file that is no valid UTF-8 is no secret by that alone, and its secrets are found.
func TestASecretIsFoundInAFileThatIsNoText(t *testing.T) {
	t.Parallel()
	all := &redact.Redactor{}
	all.Org("org_1").Learn("credential", "hunter2-and-more")
	mask := all.Org("org_1")
	binary := bytes.Repeat([]byte{0x89, 'P', 'N', 'G', 0xff, 0xfe, 0, '\r', '\n'}, 10_000)
	for name, tc := range map[string]struct {
		content string
		secret  bool
	}{
		"an image":                    {"", false},
		"a known value":               {"hunter2-and-more", true},
		"a key by its shape":          {"sk-ant-api03-CANARYCANARYCANARYCANARYCANARY", true},
		"a key between invalid bytes": {"\xffsk-ant-api03-CANARYCANARYCANARYCANARYCANARY\xfe", true},
	} {
		for where, data := range map[string][]byte{
			"begins": append([]byte(tc.content), binary...), "ends": append(bytes.Clone(binary), tc.content...),
			"has in its middle": append(append(bytes.Clone(binary), tc.content...), binary...),
		} {
			before := bytes.Clone(data)
			require.Equal(t, tc.secret, hasSecret(mask, data), "%s %s", where, name)
			require.Equal(t, before, data, "the file is sent as it is")
		}
	}
}
