package browser

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
)

// A recording ends before it is too large, and has no frame that may show what a person types.
func TestARecordingIsBounded(t *testing.T) {
	t.Parallel()
	var to bytes.Buffer
	r := recording{to: &to, left: 3 * browserlink.MaxFrame, frames: 100}
	filmed := func(private bool) *pictureFrame {
		return &pictureFrame{Frame: browserlink.Frame{At: 1, URL: "http://shop.example.com/"}, data: bytes.Repeat([]byte("x"), browserlink.MaxFrame), private: private}
	}
	secret := filmed(true)
	more, err := r.add(secret, secret)
	require.NoError(t, err)
	require.True(t, more)
	says := to.String()
	require.Contains(t, says, `"problem":"not recorded, because a person types a secret"`)
	require.Less(t, len(says), browserlink.MaxFrame)
	more, err = r.add(filmed(false), secret)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, says, to.String(), "the picture is of before")
	n := 0
	for more = true; more; n++ {
		one := filmed(false)
		more, err = r.add(one, one)
		require.NoError(t, err)
	}
	require.Equal(t, 3, n)
	require.LessOrEqual(t, to.Len(), 3*browserlink.MaxFrame)
	r.close(7, "it is full")
	require.True(t, strings.HasSuffix(to.String(), `"at":7,"width":0,"height":0,"bytes":0,"problem":"it is full","ended":true}}`+"\n"))

	r = recording{to: &to, left: browserlink.MaxRecording, frames: 1}
	for _, want := range []bool{true, false} {
		more, err = r.add(&pictureFrame{Frame: browserlink.Frame{At: 1}}, nil)
		require.NoError(t, err)
		require.Equal(t, want, more)
	}
}
