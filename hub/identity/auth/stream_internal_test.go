package auth

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// An organisation has so many streams open at once, over all of its tokens, and
// another has its own. One that ends makes room.
func TestAnOrganisationsStreamsAreBounded(t *testing.T) {
	t.Parallel()
	d := NewDoor(Guards{}, nil, nil, nil)
	open := func(org, token string, kind Kind) (func(), error) {
		return d.stream(WithIdentity(t.Context(), Identity{OrgID: org, TokenID: token, Kind: kind}), token)
	}
	var end func()
	for i := range StreamsOrganisation {
		var err error
		end, err = open("org_1", fmt.Sprint("token_", i/StreamsEach), User)
		require.NoError(t, err)
	}
	_, err := open("org_1", "token_0", User)
	require.ErrorContains(t, err, "100 streams are open already with this token")
	_, err = open("org_1", "token_new", User)
	require.ErrorContains(t, err, "2000 streams are open already in this organisation")
	require.Equal(t, fault.RateLimited, fault.As(err).Code)
	_, err = open("org_2", "token_other", User)
	require.NoError(t, err)
	_, err = open("org_1", "token_worker", Worker)
	require.NoError(t, err, "its workers are not kept from their work")
	end()
	_, err = open("org_1", "token_new", User)
	require.NoError(t, err, "and the one that was refused holds nothing")
}
