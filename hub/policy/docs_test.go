package policy_test

import (
	"os"
	"testing"

	"github.com/deckhand-sh/deckhand/hub/policy"
)

func TestTheDocumentedPolicyIsSound(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/policy.yaml")
	if err == nil {
		_, err = policy.Parse("docs/policy.yaml", data)
	}
	if err != nil {
		t.Fatal(err)
	}
}
