// Package phase names the seven phases of an iteration of the agent loop. The worker reports
// them, and the hub adds up their times.
package phase

// Names returns the phases in their order.
func Names() []string {
	return []string{"analyze_context", "update_plan", "think", "select_tool", "execute_action", "observe_result", "iterate"}
}
