package httprule_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/httprule"
)

func TestRulesAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for text, effect := range map[string]httprule.Effect{
		"allow GET /repos/{owner}/{repo}/**":    httprule.Allow,
		"deny DELETE /**":                       httprule.Deny,
		"tool http_post POST /deployments":      httprule.UseTool,
		"allow POST /graphql query":             httprule.Allow,
		"tool github__createIssue POST /issues": httprule.UseTool,
	} {
		rule, err := httprule.ParseRule(text)
		require.NoError(t, err, text)
		assert.Equal(t, effect, rule.Effect, text)
		assert.Equal(t, text, rule.Text())
	}
	for text, says := range map[string]string{
		"":                 "is empty",
		"GET /":            "neither allow, deny nor tool",
		"allow":            "is empty",
		"tool":             "the name of the tool",
		"tool POST /x":     "the name of the tool",
		"tool http_post /": "",
	} {
		_, err := httprule.ParseRule(text)
		if says == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, says, text)
	}
}
