package egresslink

// A program in a jail calls the hub at HubURL if its persona has hub_access. The proxy passes
// its requests on as those of the credential HubCredential: the hub serves them itself, as
// those of the jail's task. No name server knows the host.
const (
	HubCredential = "deckhand-hub" //nolint:gosec // a name
	HubHost       = "deckhand.internal"
	HubURL        = "https://" + HubHost
	// HubVariable is the variable with HubURL that commands get.
	HubVariable = "DECKHAND_URL"
)
