package tokencount

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vocabulary is the published one: its digest is that of tiktoken's own source.
func TestTheVocabularyIsThePublishedOne(t *testing.T) {
	t.Parallel()
	text, err := unpack()
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	require.Equal(t, "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7", hex.EncodeToString(sum[:]))
	ranks, err := vocabulary{}.LoadTiktokenBpe("")
	require.NoError(t, err)
	require.Len(t, ranks, 100256)
}
