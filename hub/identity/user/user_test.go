package user

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

// A login with an unknown name takes as long as one with a known name.
func TestNobodysPasswordCostsAsMuchAsAnybodys(t *testing.T) {
	t.Parallel()
	cost, err := bcrypt.Cost([]byte(nobody))
	require.NoError(t, err)
	require.Equal(t, passwordCost, cost)
}
