package jointoken_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
)

func TestTokenComesBackAsItWasMade(t *testing.T) {
	t.Parallel()
	fingerprint := jointoken.Fingerprint([]byte("a key"))
	made := jointoken.New(fingerprint)
	read, err := jointoken.Parse(" " + made.Reveal() + "\n")
	require.NoError(t, err)
	require.Equal(t, made, read)
	require.True(t, read.Names(fingerprint))
	require.False(t, read.Names(jointoken.Fingerprint([]byte("another key"))))
	secret, _, _ := strings.Cut(made.Reveal(), ".")
	require.Equal(t, ident.Hash(secret), read.Hash())
}

// Printing a token does not show it.
func TestTokenNeverPrints(t *testing.T) {
	t.Parallel()
	token := jointoken.New(jointoken.Fingerprint(nil))
	secret, _, _ := strings.Cut(token.Reveal(), ".")
	for _, printed := range []string{fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s", token, token, token, token)} {
		require.NotContains(t, printed, secret)
	}
}

func TestMalformedTokensAreRefusedWithoutRepeatingThem(t *testing.T) {
	t.Parallel()
	good := jointoken.New(jointoken.Fingerprint(nil)).Reveal()
	for name, text := range map[string]string{
		"empty":           "",
		"cut short":       good[:len(good)-1],
		"too long":        good + "0",
		"without a dot":   strings.ReplaceAll(good, ".", ""),
		"another kind":    "dhu" + good[3:],
		"two in one":      good + "\n" + good,
		"not hex":         good[:len(good)-1] + "z",
		"an upper case S": "dhj_S" + good[5:],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jointoken.Parse(text)
			require.ErrorContains(t, err, "join token is malformed")
			if text != "" {
				require.NotContains(t, err.Error(), text)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("dhj_.")
	f.Add(jointoken.New(jointoken.Fingerprint(nil)).Reveal())
	f.Fuzz(func(t *testing.T, text string) {
		token, err := jointoken.Parse(text)
		if err == nil {
			require.Equal(t, strings.TrimSpace(text), token.Reveal())
		}
	})
}
