package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// watchLife and watchBytes bound one command that watches; its viewer starts the next one.
	watchLife  = time.Hour
	watchBytes = 64 << 20
	// watchStart bounds how long one takes to be there, and watchAnswer how long the jail may take
	// to answer: while it is frozen, it does not.
	watchStart  = 10 * time.Second
	watchAnswer = 5 * time.Second
	// mostPixels bounds the width and the height of a picture: the browsers of viewers decode it.
	mostPixels = 4096
)

// BrowserWatch shows the browser of a task to people, and passes on what they do.
type BrowserWatch struct {
	node   machine.Link
	exec   string
	cancel context.CancelFunc
	in     *bufio.Reader
	said   int64 // how many bytes of its standard input are written
}

// WatchBrowser begins to watch the browser of a task, if one runs in a jail. Its command runs as
// the browser's own user, so that those of the agent do not see what it passes on.
func WatchBrowser(ctx context.Context, node machine.Link, jailID, taskID string, key browserlink.Key) (*BrowserWatch, error) {
	starting, cancelStart := context.WithTimeout(ctx, watchStart)
	defer cancelStart()
	res, err := node.Exec().ListExecs(starting, &nodev1.ListExecsRequest{JailId: jailID, LiveOnly: true})
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	keeper := ""
	for _, e := range res.GetExecs() {
		if strings.HasPrefix(e.GetExecId(), browserKeeper(taskID)) && !e.GetLeaderExited() {
			keeper = e.GetExecId()
		}
	}
	if keeper == "" {
		return nil, fault.New(fault.Precondition, "the task has no browser that runs").WithObject(taskID).WithFix("wait until it opens a page")
	}
	w := &BrowserWatch{node: node, exec: "watch_" + strings.TrimPrefix(taskID, "task_") + "_" + strings.TrimPrefix(ident.New("x"), "x_")[:8]}
	if _, err := node.Exec().StartExec(starting, &nodev1.StartExecRequest{Spec: &nodev1.ExecSpec{
		ExecId: w.exec, JailId: jailID, Timeout: durationpb.New(watchLife), StdinOpen: true, User: browserUser, Dir: "/tmp",
		Argv: []string{nodelink.SkillPath, "browser", "watch", browserFolder(taskID)}, OfflineGrace: durationpb.New(browserlink.ViewerPatience * time.Second),
		OutputLimitBytes: watchBytes, Passing: true,
	}}); err != nil {
		return nil, fault.FromGRPC(err)
	}
	call := browserlink.Call{Keeper: keeper, Exec: w.exec, Deadline: time.Now().Add(watchStart).UnixMilli(), Tool: browserlink.WatchTool}
	err = w.write(ctx, map[string]any{"tool": call.Tool, "exec": call.Exec, "deadline": call.Deadline, "signature": key.Sign(call)})
	// What was done until the end is read: Close ends it.
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	var log nodev1.ExecService_ReadLogClient
	if err == nil {
		log, err = node.Exec().ReadLog(reading, &nodev1.ReadLogRequest{ExecId: w.exec, Follow: true})
	}
	if err != nil {
		w.Close(ctx)
		return nil, fault.FromGRPC(err)
	}
	w.in = bufio.NewReaderSize(&logReader{from: log}, browserlink.MaxShown)
	return w, nil
}

// errGap is returned where output of a command is lost.
var errGap = errors.New("output is lost")

// logReader reads the standard output of a command, until its end or the first gap.
type logReader struct {
	from nodev1.ExecService_ReadLogClient
	rest bytes.Reader
}

func (r *logReader) Read(p []byte) (int, error) {
	for r.rest.Len() == 0 {
		piece, err := r.from.Recv()
		if err != nil {
			return 0, err
		}
		if piece.GetGap() != nil {
			return 0, errGap
		}
		if piece.GetStream() == nodev1.LogStream_LOG_STREAM_STDOUT {
			r.rest.Reset(piece.GetData())
		}
	}
	return r.rest.Read(p)
}

// Next returns what is shown next, with the picture of a frame.
func (w *BrowserWatch) Next() (shown browserlink.Shown, picture []byte, err error) {
	return readShown(w.in)
}

// ReadRecording passes the frames of a recording, which is the output of a command, to show, with
// their pictures. Where it ends within a frame, the command still writes that or was killed. It returns
// io.ErrUnexpectedEOF if the rest is not there or cannot be read.
func ReadRecording(ctx context.Context, node machine.Link, exec string, show func(frame browserlink.Frame, picture []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log, err := node.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: exec, Limit: 2 * browserlink.MaxRecording})
	if err != nil {
		return fault.FromGRPC(err)
	}
	in := bufio.NewReaderSize(&logReader{from: log}, browserlink.MaxShown)
	for range browserlink.MaxRecorded {
		shown, picture, err := readShown(in)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil && ctx.Err() == nil && status.Code(err) == codes.Unknown: // what it says, not how it comes
			return io.ErrUnexpectedEOF
		case err != nil:
			return fault.FromGRPC(err)
		case shown.Frame == nil:
			return io.ErrUnexpectedEOF
		}
		if err := show(*shown.Frame, picture); err != nil {
			return err
		}
	}
	return nil
}

// readShown returns what a browser shows next, with the picture of a frame. What comes from the jail
// may be anything.
func readShown(in *bufio.Reader) (shown browserlink.Shown, picture []byte, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return shown, nil, err
	}
	if err := json.Unmarshal(line, &shown); err != nil {
		return shown, nil, fmt.Errorf("read what a browser shows: %w", err)
	}
	if shown.Frame == nil || shown.Frame.Bytes == 0 {
		return shown, nil, nil
	}
	if shown.Frame.Bytes < 0 || shown.Frame.Bytes > browserlink.MaxFrame {
		return shown, nil, errors.New("a picture of the browser is too large")
	}
	picture = make([]byte, shown.Frame.Bytes)
	if _, err := io.ReadFull(in, picture); err != nil {
		return shown, nil, err
	}
	size, err := jpeg.DecodeConfig(bytes.NewReader(picture))
	if err != nil {
		return shown, nil, errors.New("a picture of the browser is no JPEG")
	}
	if size.Width > mostPixels || size.Height > mostPixels {
		return shown, nil, errors.New("a picture of the browser has too many pixels")
	}
	shown.Frame.Width, shown.Frame.Height = size.Width, size.Height
	return shown, picture, nil
}

// Say tells the browser what the person does, or that they are still there.
func (w *BrowserWatch) Say(ctx context.Context, said browserlink.Said) error {
	return w.write(ctx, said)
}

func (w *BrowserWatch) write(ctx context.Context, message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, watchAnswer)
	defer cancel()
	for data = append(data, '\n'); len(data) > 0; {
		res, err := w.node.Exec().WriteStdin(ctx, &nodev1.WriteStdinRequest{ExecId: w.exec, Offset: w.said, Data: data, Timeout: durationpb.New(watchAnswer)})
		if err != nil {
			return fault.FromGRPC(err)
		}
		taken := min(max(res.GetWritten()-w.said, 0), int64(len(data)))
		if taken == 0 {
			return fault.New(fault.Unavailable, "the browser takes no input").WithFix("watch it again")
		}
		w.said, data = w.said+taken, data[taken:]
	}
	return nil
}

// Close ends the watching.
func (w *BrowserWatch) Close(ctx context.Context) {
	w.cancel()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	// If this fails, the browser ends it for saying nothing.
	_, _ = w.node.Exec().WriteStdin(ctx, &nodev1.WriteStdinRequest{ExecId: w.exec, Offset: w.said, Eof: true, Timeout: durationpb.New(time.Second)})
}
