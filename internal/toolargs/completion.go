package toolargs

// The statuses that complete_task takes: how far an agent got.
const (
	StatusDone    = "done"
	StatusPartial = "partial"
	StatusBlocked = "blocked"
	StatusFailed  = "failed"
)
