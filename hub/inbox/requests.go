package inbox

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// requestTasks is how many of an agent's tasks are searched for earlier requests.
	requestTasks  = 50
	shownRequests = 5
	// maxRequestURL bounds the URL of an earlier request, in bytes.
	maxRequestURL = 500
)

// EarlierRequest is a request that an agent has sent to the host that it asks to send to.
type EarlierRequest struct {
	StepID, TaskID string
	// Number is that of the step in its task.
	Number int32
	Method string
	// URL has its secrets masked.
	URL       string
	At        time.Time
	State     string
	ErrorCode string
	// Status is that of the response; 0 if there was none, or it is not known.
	Status int32
}

// requests finds what the agent of a call sent to its host before it was asked about.
func (c *Card) requests(ctx context.Context, q *db.Queries, item db.InboxItem) error {
	decision, err := DecisionOf(item)
	if err != nil || decision.Request == nil || item.AgentID == "" {
		return err
	}
	rows, err := q.EarlierRequests(ctx, db.EarlierRequestsParams{
		OrgID: item.OrgID, AgentID: item.AgentID, Host: decision.Request.Host, Before: item.AskedAt,
		Tools: slices.Sorted(maps.Keys(RequestMethods)), MaxTasks: requestTasks, MaxRows: shownRequests,
	})
	if err != nil {
		return fmt.Errorf("find earlier requests of agent %s: %w", item.AgentID, err)
	}
	for _, row := range rows {
		one := EarlierRequest{
			StepID: row.ID, TaskID: row.TaskID, Number: row.Number, Method: RequestMethods[row.Tool], URL: textcut.Bytes(row.Url, maxRequestURL, "…"),
			State: row.State, ErrorCode: row.ErrorCode, Status: statusOf(row.Observation),
		}
		if row.StartedAt != nil {
			one.At = *row.StartedAt
		}
		c.Requests, c.RequestsFound = append(c.Requests, one), row.Found
	}
	return nil
}

// statusLine begins the result of a call that got a response; of a download, if that failed.
var statusLine = regexp.MustCompile(`^(?:error \S+: )?HTTP (\d{3})\b`)

// statusOf returns the status in the result of a call that sent a request; 0 for none.
func statusOf(observation string) int32 {
	found := statusLine.FindStringSubmatch(observation)
	if found == nil {
		return 0
	}
	status, _ := strconv.ParseInt(found[1], 10, 32) // three digits
	return int32(status)
}
