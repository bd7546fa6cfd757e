package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// A code, what happened and what to do survive both transports.
func TestErrorsSurviveBothTransports(t *testing.T) {
	for kind := fault.Internal; kind <= fault.Canceled; kind++ {
		in := fault.New(kind, "task %s did it", "task_1").WithCode(fault.BudgetLimit).WithFix("raise it").WithObject("task_1")
		for name, out := range map[string]error{
			"connect": fault.FromConnect(fault.ToConnect(fmt.Errorf("while testing: %w", in))),
			"grpc":    fault.FromGRPC(fault.ToGRPC(fmt.Errorf("while testing: %w", in))),
		} {
			e := fault.As(out)
			require.NotNil(t, e, name)
			require.Equal(t, kind, e.Kind, name)
			require.Equal(t, in.Error(), e.Error(), name)
			require.Equal(t, "task_1", e.ObjectID, name)
		}
	}
}

func TestTheCauseOfAnInternalErrorStaysInside(t *testing.T) {
	err := errors.New("password=hunter2 refused")
	require.NotContains(t, fault.ToConnect(err).Error(), "hunter2")
	require.NotContains(t, fault.ToGRPC(err).Error(), "hunter2")
	require.Equal(t, connect.CodeInternal, connect.CodeOf(fault.ToConnect(err)))
	require.Equal(t, codes.Internal, status.Code(fault.ToGRPC(err)))
	require.Equal(t, connect.CodeCanceled, connect.CodeOf(fault.ToConnect(context.Canceled)))
	require.NoError(t, fault.ToConnect(nil))
	require.NoError(t, fault.ToGRPC(nil))
	require.NoError(t, fault.FromConnect(nil))
	require.NoError(t, fault.FromGRPC(nil))
}
