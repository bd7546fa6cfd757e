package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
)

// A model that can see gets the pictures of a file with the result of its call, and is
// offered the tool unasked.
func TestAModelSeesAFile(t *testing.T) {
	t.Parallel()
	said := []anthropictest.Answer{
		// A PNG image of 2 x 2 pixels.
		asks("shell_exec", "toolu_1", `{"command":"python3 -c \"import struct,zlib; c=lambda k,d: struct.pack('>I',len(d))+k+d+struct.pack('>I',zlib.crc32(k+d)); open('dot.png','wb').write(b'\\x89PNG\\r\\n\\x1a\\n'+c(b'IHDR',struct.pack('>IIBBBBB',2,2,8,2,0,0,0))+c(b'IDAT',zlib.compress(b'\\x00'*14))+c(b'IEND',b''))\""}`),
		asks("file_view", "toolu_2", `{"path":"dot.png"}`),
		asks("file_view", "toolu_3", `{"path":"none.png"}`),
		asks("complete_task", "toolu_4", `{"summary":"seen"}`),
	}
	turn := 0
	provider := anthropictest.New(t, func(anthropictest.Request) anthropictest.Answer {
		turn++
		return said[min(turn, len(said))-1]
	})
	f := withModel(t, provider, "viewer", "shell_exec, file_read, complete_task")
	id := f.Submit("viewer")
	f.Ended(id)
	var steps []struct{ State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	require.Equal(t, "dot.png: png, 2 x 2 pixels, shown at 2 x 2\n", steps[1].Observation)
	require.Contains(t, steps[2].Observation, "none.png: no such file")

	requests := provider.Requests()
	require.Len(t, requests, len(said))
	encode := func(v any) string {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		return string(data)
	}
	require.Contains(t, encode(requests[0].Body["tools"]), `"file_view"`)
	seen := encode(requests[2].Body["messages"])
	require.Equal(t, 1, strings.Count(seen, `"media_type":"image/png"`), "the picture is with the result")
	require.Contains(t, seen, `"iVBORw0KGgo`)
}
