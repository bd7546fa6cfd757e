package step

import (
	"encoding/json"

	"github.com/deckhand-sh/deckhand/hub/tool"
)

// withFiles says in a result's outcome how many files the call changed, where
// that is known.
func withFiles(r tool.Result) tool.Result {
	if r.Workspace == nil || r.Workspace.GetError() != "" {
		return r
	}
	if r.Outcome == nil {
		r.Outcome = map[string]any{}
	}
	r.Outcome["files_changed"] = r.Workspace.GetFiles()
	return r
}

// encodeOutcome answers the outcome of a result as masked JSON.
func (s *Steps) encodeOutcome(r tool.Result) (json.RawMessage, error) {
	if r.Outcome == nil {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(s.cfg.Redact.Map(r.Outcome))
}

// outcome answers the state that a result brings a started step to.
func outcome(r tool.Result) State {
	switch {
	case r.Unknown:
		return Unknown
	case r.Failed:
		return Failed
	}
	return Succeeded
}
