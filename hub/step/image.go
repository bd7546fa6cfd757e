package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// keepImages stores the images of a call's result once.
func (s *Steps) keepImages(ctx context.Context, q *db.Queries, step db.Step, images []tool.Image) error {
	for i, image := range images {
		if err := q.AddStepImage(ctx, db.AddStepImageParams{
			OrgID: step.OrgID, StepID: step.ID, TaskID: step.TaskID, Place: int32(i), MediaType: image.MediaType, Data: image.Data, ForPeople: image.ForPeople, Mark: image.Mark, //nolint:gosec // at most 4
		}); err != nil {
			return fmt.Errorf("store image %d of step %s: %w", i, step.ID, err)
		}
	}
	return nil
}

// Images returns the images of a task's steps, or of one step, by step id.
func (s *Steps) Images(ctx context.Context, orgID, taskID, stepID string) (map[string][]*deckhandv1.Image, error) {
	rows, err := s.cfg.Store.StepImages(ctx, db.StepImagesParams{OrgID: orgID, TaskID: taskID, StepID: stepID})
	if err != nil {
		return nil, fmt.Errorf("load the images of task %s: %w", taskID, err)
	}
	out := map[string][]*deckhandv1.Image{}
	for _, row := range rows {
		out[row.StepID] = append(out[row.StepID], ImageMessage(row))
	}
	return out, nil
}

// ImageMessage returns an image as the API has it.
func ImageMessage(row db.StepImagesRow) *deckhandv1.Image {
	m := &deckhandv1.Image{MediaType: row.MediaType, Data: row.Data, ForPeople: row.ForPeople}
	if len(row.Mark) == 4 {
		m.Mark = &deckhandv1.Image_Mark{Left: row.Mark[0], Top: row.Mark[1], Width: row.Mark[2], Height: row.Mark[3]}
	}
	return m
}
