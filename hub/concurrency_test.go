package hub_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// What comes in a crowd is sifted together: each delivery ends as it would
// alone, also those that cannot be read, are large, or are somebody else's to
// handle at the moment.
func TestACrowdOfDeliveriesIsSifted(t *testing.T) {
	t.Parallel()
	r := newTriggerRig(t, hubtest.Start(t, hubtest.Config(t)))
	trigger, _ := r.webhook("crowd", &deckhandv1.TriggerSpec{Filter: "payload.wanted == true", Goal: "Look at {{ payload.n }}."})
	other, _ := r.webhook("other", &deckhandv1.TriggerSpec{Filter: "false"})
	conn, err := pgx.Connect(t.Context(), r.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	const many = 200
	// Of ten: one starts a task, one has no such field, one is no JSON, one is of
	// the other trigger, one is large, and the others are left out.
	_, err = conn.Exec(t.Context(), `INSERT INTO deliveries (id, org_id, trigger_id, key, source, state, headers, body)
		SELECT 'dlv_crowd' || n, t.org_id, CASE WHEN n % 10 = 3 THEN $2 ELSE t.id END, 'crowd-' || n, 'webhook', 'accepted', '{"Content-Type": "application/json"}',
		       convert_to(CASE n % 10 WHEN 0 THEN '{"wanted": true, "n": ' || n || '}' WHEN 1 THEN '{}' WHEN 2 THEN '{'
		           WHEN 4 THEN '{"wanted": false, "x": "' || repeat('x', 300000) || '"}' ELSE '{"wanted": false}' END, 'UTF8')
		FROM triggers t, generate_series(1, $3) AS n WHERE t.id = $1`, trigger.GetId(), other.GetId(), many)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var waiting int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM deliveries WHERE state = 'accepted'").Scan(&waiting))
		return waiting == 0
	}, patience, 20*time.Millisecond)
	counts := map[string]int{}
	rows, err := conn.Query(t.Context(), "SELECT state || ' ' || (substr(id, 10)::int % 10), count(*) FROM deliveries GROUP BY 1")
	require.NoError(t, err)
	for rows.Next() {
		var what string
		var n int
		require.NoError(t, rows.Scan(&what, &n))
		counts[what] = n
	}
	require.NoError(t, rows.Err())
	want := map[string]int{"started 0": many / 10, "failed 1": many / 10, "failed 2": many / 10}
	for _, n := range []int{3, 4, 5, 6, 7, 8, 9} {
		want[fmt.Sprint("filtered ", n)] = many / 10
	}
	require.Equal(t, want, counts)
	var tasks int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(DISTINCT goal) FROM tasks WHERE trigger_id = $1", trigger.GetId()).Scan(&tasks))
	require.Equal(t, many/10, tasks)
}
