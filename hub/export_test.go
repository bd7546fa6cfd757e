package hub

import "context"

// ReviewSecrets makes the hub read all stored secrets, as it does periodically.
func (h *Hub) ReviewSecrets(ctx context.Context) error { return h.secrets.Review(ctx) }
