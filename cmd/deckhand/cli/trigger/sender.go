package trigger

// senders are what --webhook takes: a preset, or a way to verify.
var (
	presets       = []string{"github", "gitlab", "slack", "alertmanager", "json"}
	verifications = []string{"token", "github", "gitlab", "standard", "slack", "jira", "stripe", "hmac"}
)
