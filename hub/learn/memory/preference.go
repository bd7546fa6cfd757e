package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Preferences of a user whose keys have a meaning. Others are told to runs as they are.
const (
	// Speed is fast, normal or careful.
	Speed = "execution_speed"
	// Confirmation is always, dangerous_only or never. It adds approvals to those that persona
	// and policy ask for, and takes none away.
	Confirmation = "confirmation_level"
	// Timeout is the time that workers spend on a task that gives none, as a duration.
	Timeout = "default_timeout"
	// Tools is a list of names of tools, the preferred first.
	Tools = "preferred_tools"
	// Language is the language of results and questions.
	Language = "language"
	// Notifications is what the user's devices are notified of: all that they have chosen, needed
	// (approvals, questions and what needs a person) or none.
	Notifications = "notifications"
)

// ConfirmAlways is the Confirmation that asks before each call of a tool that is not safe.
const ConfirmAlways = "always"

var choices = map[string][]string{
	Speed:        {"fast", "normal", "careful"},
	Confirmation: {ConfirmAlways, "dangerous_only", "never"},
	// Package notification reads it.
	Notifications: {"all", "needed", "none"},
}

// Bounds of Timeout.
const (
	leastTimeout = time.Minute
	mostTimeout  = 7 * 24 * time.Hour
)

// checkPreference refuses a value that a preference with a meaning cannot have.
func checkPreference(key string, value any) error {
	text, isText := value.(string)
	bad := func(fix string, args ...any) error {
		return fault.New(fault.Invalid, "value is nothing that the preference %s can be", key).WithFix(fix, args...)
	}
	if of := choices[key]; of != nil && !slices.Contains(of, text) {
		return bad("use %s", strings.Join(of, ", "))
	}
	switch key {
	case Timeout:
		d, err := time.ParseDuration(text)
		if err != nil || d < leastTimeout || d > mostTimeout {
			return bad("use a duration from 1m to 168h, such as 45m")
		}
	case Tools:
		list, ok := value.([]any)
		for _, one := range list {
			name, isName := one.(string)
			ok = ok && isName && len(name) <= 128 && !strings.ContainsAny(name, " \n<>")
		}
		if !ok || len(list) == 0 || len(list) > 20 {
			return bad(`use a list of 1 to 20 names of tools, such as ["file_edit", "shell_exec"]`)
		}
	case Language:
		if !isText || text == "" || len(text) > 60 || strings.ContainsAny(text, "\n<>") {
			return bad("use the name of a language, such as German")
		}
	}
	return nil
}

// Preferences are those of a user that have a meaning; zero for what is not set.
type Preferences struct {
	Speed, Confirmation string
	Timeout             time.Duration
}

// PreferencesOf returns a user's.
func (m *Memories) PreferencesOf(ctx context.Context, orgID, userName string) (Preferences, error) {
	rows, err := m.cfg.Store.PreferencesOf(ctx, db.PreferencesOfParams{OrgID: orgID, UserName: userName})
	if err != nil {
		return Preferences{}, fmt.Errorf("read the preferences of %s: %w", userName, err)
	}
	var out Preferences
	for _, row := range rows {
		var text string
		if json.Unmarshal(row.Value, &text) != nil {
			continue
		}
		switch row.Key {
		case Speed:
			out.Speed = text
		case Confirmation:
			out.Confirmation = text
		case Timeout:
			out.Timeout, _ = time.ParseDuration(text)
		}
	}
	return out, nil
}
