package user

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

// A login as nobody takes as long as one as somebody.
func TestNobodysPasswordCostsAsMuchAsAnybodys(t *testing.T) {
	t.Parallel()
	cost, err := bcrypt.Cost([]byte(nobody))
	require.NoError(t, err)
	require.Equal(t, passwordCost, cost)
}
