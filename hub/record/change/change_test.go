package change_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deckhand-sh/deckhand/hub/record/change"
)

func TestSubscribersReceiveTheChangesOfTheirType(t *testing.T) {
	t.Parallel()
	var feed change.Feed
	var got []string
	change.Subscribe(&feed, func(c change.QueueChanged) { got = append(got, "first "+c.OrgID) })
	change.Subscribe(&feed, func(c change.QueueChanged) { got = append(got, "second "+c.OrgID) })
	change.Subscribe(&feed, func(c change.NodeDrainChanged) { got = append(got, "drain "+c.NodeID) })

	feed.Publish(change.QueueChanged{OrgID: "a"})
	feed.Publish(change.NodeDrainChanged{NodeID: "n"})
	feed.Publish(change.RightsChanged{})

	assert.Equal(t, []string{"first a", "second a", "drain n"}, got)
}

func TestANilFeedDropsChanges(t *testing.T) {
	t.Parallel()
	var feed *change.Feed
	assert.NotPanics(t, func() { feed.Publish(change.QueueChanged{OrgID: "a"}) })
}
