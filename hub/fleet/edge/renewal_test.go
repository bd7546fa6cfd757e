package edge_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 24-hour certificates renewed by the link, at two thirds of their life.
func TestTheCertificateIsRenewedOverTheLinkAtTwoThirdsOfItsLife(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	n := h.start(id, nil)
	link := h.connected(id)
	from, until := id.Validity()
	require.InDelta(t, 24*time.Hour, until.Sub(h.clock.Now()), float64(time.Minute))

	h.clock.advance(until.Sub(from)*2/3 - 10*time.Minute)
	for range 5 { // heartbeats, at each of which it could have renewed
		within(t, h.store.touched, "a heartbeat")
	}
	_, same := id.Validity()
	require.Equal(t, until, same)

	h.clock.advance(15 * time.Minute)
	n.log.wait(t, "certificate renewed")
	_, renewed := id.Validity()
	require.Greater(t, renewed, until)
	require.False(t, renewed.Before(h.clock.Now().Add(23*time.Hour)))
	require.NoError(t, link.Err())

	// The new one is good for the next link, long after the first has ended.
	h.clock.advance(until.Sub(h.clock.Now()) + time.Hour)
	h.tap.cut()
	h.log.wait(t, "node connected", "epoch=2")
}

// A machine that was off for longer than its certificate lived comes back.
func TestALapsedCertificateIsReplacedThroughTheAPI(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.clock.advance(29 * 24 * time.Hour)
	require.True(t, id.Lapsed())
	n := h.start(id, nil)
	n.log.wait(t, "renewed the lapsed certificate")
	h.connected(id)
	require.False(t, id.Lapsed())
}

func TestACertificateThatLapsedTooLongAgoIsNotReplaced(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.clock.advance(32 * 24 * time.Hour)
	n := h.start(id, nil)
	n.log.wait(t, "no link to the hub", "enrol the node again with a new join token")
}

func TestALapsedCertificateOfARevokedNodeIsNotReplaced(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	id := h.enrol()
	h.store.change(id.NodeID(), func(row *nodeRow) { row.revoked = true })
	h.clock.advance(25 * time.Hour)
	n := h.start(id, nil)
	n.log.wait(t, "no link to the hub", "was revoked")
}
