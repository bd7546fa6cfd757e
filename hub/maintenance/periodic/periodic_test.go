package periodic_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/maintenance/periodic"
)

func TestJobsRunAtTheirIntervalsAndAFailureStopsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failing, often, seldom int
		jobs := periodic.New(time.Second, hclog.NewNullLogger(),
			periodic.Job{Name: "fail", Do: func(context.Context) error { failing++; return errors.New("broken") }},
			periodic.Job{Name: "run often", Do: func(context.Context) error { often++; return nil }},
			periodic.Job{Name: "run seldom", Every: 10 * time.Second, Do: func(context.Context) error { seldom++; return nil }},
		)
		require.NoError(t, jobs.Start(t.Context()))
		time.Sleep(20*time.Second + time.Millisecond)
		jobs.Stop()

		assert.Equal(t, 21, failing)
		assert.Equal(t, 21, often)
		assert.Equal(t, 3, seldom)
	})
}
