package task

import (
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// queuePosition says where a task stands in the queue.
func queuePosition(t *deckhandv1.Task) string {
	if t.GetStanding().GetPlace() == 0 {
		return ""
	}
	return fmt.Sprintf("%d, %s", t.GetStanding().GetPlace(), WaitEstimate(t.GetStanding()))
}

// WaitEstimate says how long a task is likely to wait, and from what that is known.
func WaitEstimate(s *deckhandv1.Standing) string {
	if s.GetWait() == nil {
		return s.GetBasis()
	}
	if wait := s.GetWait().AsDuration(); wait >= time.Second {
		return fmt.Sprintf("about %s by %s", output.Duration(wait), s.GetBasis())
	}
	return "at once by " + s.GetBasis()
}
