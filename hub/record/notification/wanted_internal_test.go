package notification

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A user's preference for notifications takes away from what a device has chosen, and adds
// nothing.
func TestDevicesGetWhatTheirUserWants(t *testing.T) {
	t.Parallel()
	chosen := []string{"approvals", "failures", "budgets"}
	for preference, want := range map[string][]string{"": chosen, "all": chosen, "needed": {"approvals"}, "none": {noEvents}} {
		require.Equal(t, want, (&addressee{notifications: preference}).wanted(chosen), preference)
	}
	require.Equal(t, []string{noEvents}, (&addressee{notifications: "needed"}).wanted([]string{"failures"}))
	require.Equal(t, chosen, (*addressee)(nil).wanted(chosen))
	require.Equal(t, []string{"approvals", "failures", "budgets"}, chosen, "it is not changed")
	require.Subset(t, DeviceEvents(), needed)
}
