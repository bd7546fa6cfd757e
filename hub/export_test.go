package hub

import "context"

// ReviewSecrets has the hub look at all secrets that there are, as it does from
// time to time.
func (h *Hub) ReviewSecrets(ctx context.Context) error { return (&secretWatcher{hub: h}).review(ctx) }
