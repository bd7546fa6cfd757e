package trigger

import (
	"context"
	"fmt"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/schedule"
)

// SkipOverdue moves every schedule whose slot is over to its next one, whatever its policy
// for missed runs: after a restore the slots since the backup may have fired.
func SkipOverdue(ctx context.Context, q *db.Queries, now time.Time) error {
	rows, err := q.OverdueSchedules(ctx)
	if err != nil {
		return fmt.Errorf("find schedules that are due: %w", err)
	}
	var moved db.SetTriggerSlotsParams
	for _, row := range rows {
		spec, err := readSpec(row.Spec)
		if err != nil {
			return err
		}
		every, err := schedule.Parse(spec.GetCron().GetSchedule(), spec.GetCron().GetTimeZone())
		if err != nil {
			return fmt.Errorf("the schedule of trigger %s %w", row.ID, err)
		}
		slot := every.Next(now)
		if slot.IsZero() {
			if err := q.SetTriggerNext(ctx, db.SetTriggerNextParams{OrgID: row.OrgID, ID: row.ID}); err != nil {
				return fmt.Errorf("rest trigger %s: %w", row.ID, err)
			}
			continue
		}
		moved.Ids, moved.Slots = append(moved.Ids, row.ID), append(moved.Slots, slot)
		moved.Nexts = append(moved.Nexts, slot.Add(schedule.Jitter(row.ID, slot, spec.GetCron().GetJitter().AsDuration())))
	}
	if err := q.SetTriggerSlots(ctx, moved); err != nil {
		return fmt.Errorf("move schedules on: %w", err)
	}
	return nil
}
