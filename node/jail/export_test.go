package jail

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/client"
)

// DeleteTask deletes a jail's task through what a test puts before it.
func (m *Manager) DeleteTask(ctx context.Context, id string, through func(client.Task) client.Task) error {
	ctx = m.namespaced(ctx)
	ctr, err := m.container(ctx, id)
	if err != nil {
		return err
	}
	task, err := ctr.Task(ctx, nil)
	if err != nil {
		return fmt.Errorf("find the task: %w", err)
	}
	return m.deleteTask(ctx, through(task))
}
