package audit

import "strings"

// The severity of an entry. High and critical ones are sent to destinations.
const (
	Low      = "low"
	Medium   = "medium"
	High     = "high"
	Critical = "critical"
)

// severities are by action, or by the beginning of one that ends in a dot. The
// longest counts; what is not here is low. High is what changes who may do what,
// where keys and data go, and what stops others' work. Critical is what needs a person at
// once: the audit cannot be trusted any more, or a dangerous call runs that nobody was asked
// about.
var severities = map[string]string{
	"access.":                High,
	"agent.deleted":          High,
	"agent.disabled":         Medium,
	"agent.enabled":          Medium,
	"agent.renamed":          Medium,
	"agent.transferred":      High,
	"agent.undeleted":        Medium,
	"budget.":                Medium,
	"destination.":           Medium,
	"egress.refused":         Medium,
	"hold.":                  High,
	"hub.":                   High,
	"node.":                  High,
	"node.drained":           Medium,
	"node.file_read":         Medium,
	"node.folder_listed":     Medium,
	"node.journal_read":      Medium,
	"node.look_refused":      Medium,
	"node.undrained":         Medium,
	"organisation.":          High,
	"plan.":                  High,
	"passkey.":               High,
	"policy.":                High,
	"price.set":              Medium,
	"provider.":              High,
	"vault.":                 High,
	"retention.":             High,
	"session.refused":        Medium,
	"team.":                  High,
	"token.":                 Medium,
	"trigger.secret_rotated": Medium,
	"user.":                  High,
	"workspace.exported":     Medium,
	"audit.exported":         Medium,
	"audit.verified":         Medium,
	"audit.broken":           Critical,
	"call.denied":            Medium,
}

// Severity returns how much an action matters.
func Severity(action string) string {
	if s, ok := severities[action]; ok {
		return s
	}
	kind, _, _ := strings.Cut(action, ".")
	if s, ok := severities[kind+"."]; ok {
		return s
	}
	return Low
}
