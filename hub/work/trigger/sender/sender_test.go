package sender_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/sender"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func TestEverySenderIsDeclaredInFull(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	for _, s := range sender.All() {
		require.False(t, met[s.Name], "%s is registered twice", s.Name)
		met[s.Name] = true
		require.NotEmpty(t, s.Label, s.Name)
		require.NotEmpty(t, s.How, s.Name)
		require.NotEmpty(t, s.Example.Body, s.Name)
		require.NotEmpty(t, s.Example.Prompt, s.Name)
		require.NotEqual(t, s.As == "", s.Verify.Scheme == "", "%s has a proof of its own, or another's", s.Name)
		require.True(t, s.ID == "" || s.Key == "", "%s has two ways to tell deliveries apart", s.Name)
		proof, ok := sender.Named(s.Proof())
		require.True(t, ok && proof.HasProof(), s.Name)
		require.NoError(t, protovalidate.Validate(&deckhandv1.WebhookSpec{Verify: s.Name}), "the API takes the name")
	}
}

func TestOnlyASenderWithAGoalHasDefaults(t *testing.T) {
	t.Parallel()
	for _, s := range sender.All() {
		if !s.HasPreset() {
			require.Empty(t, s.Filter, s.Name)
			require.Empty(t, s.Mapping, s.Name)
		}
	}
}

func TestSlackChecksItsURL(t *testing.T) {
	t.Parallel()
	slack, ok := sender.Named("slack")
	require.True(t, ok)
	challenge, ok := slack.Challenge([]byte(`{"type":"url_verification","challenge":"abc"}`))
	require.True(t, ok)
	require.Equal(t, "abc", challenge)
	_, ok = slack.Challenge([]byte(slack.Example.Body))
	require.False(t, ok)
}

// Each file but sender.go, expression.go and the test declares one sender, and
// each is registered.
func TestEveryFileDeclaresARegisteredSender(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	declaration, name := regexp.MustCompile(`(?m)^var \w+ = Sender\{$`), regexp.MustCompile(`Name: +"([a-z]+)"`)
	var declared []string
	for _, e := range entries {
		if slices.Contains([]string{"sender.go", "expression.go", "sender_test.go"}, e.Name()) {
			continue
		}
		data, err := os.ReadFile(e.Name())
		require.NoError(t, err)
		require.Len(t, declaration.FindAll(data, -1), 1, e.Name())
		declared = append(declared, name.FindStringSubmatch(string(data))[1])
	}
	require.ElementsMatch(t, sender.Names(sender.Any), declared)
}
