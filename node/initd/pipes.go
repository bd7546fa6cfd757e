package initd

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/node/execlog"
	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// output is init's end of what a command writes to.
type output struct {
	file   *os.File
	stream execlog.Stream
}

// pipes are the command's ends and init's ends of what connects them.
type pipes struct {
	theirs    []*os.File  // to be closed once the stub has them
	stdio     [3]*os.File // of theirs
	outs      []output
	pty       *os.File // nil without a terminal
	input     *input   // nil without input
	line      *os.File // to the stub and from it
	theirLine *os.File // of theirs
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
	p.theirs = nil
}

func (p *pipes) close() {
	p.closeTheirs()
	if p.input != nil {
		_ = p.input.file.Close()
	}
	for _, out := range p.outs {
		_ = out.file.Close()
	}
	if p.line != nil {
		_ = p.line.Close()
	}
}

func newPipes(req *initv1.StartRequest) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := p.openLine(); err != nil {
		return p, err
	}
	if req.GetPtyRows() > 0 {
		return p, p.openPTY(req)
	}
	if err := p.openInput(len(req.GetStdin()) > 0 || req.GetStdinOpen()); err != nil {
		return p, err
	}
	for i, stream := range []execlog.Stream{execlog.Stdout, execlog.Stderr} {
		r, w, err := outputPipe("output")
		if err != nil {
			return p, err
		}
		p.theirs, p.stdio[i+1] = append(p.theirs, w), w
		p.outs = append(p.outs, output{r, stream})
	}
	return p, nil
}

// openLine makes what init and a stub talk by.
func (p *pipes) openLine() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a line to the stub: %w", err)
	}
	// Ours alone: the stub waits in its read.
	err = unix.SetNonblock(fds[0], true)
	p.line, p.theirLine = os.NewFile(uintptr(fds[0]), "line"), os.NewFile(uintptr(fds[1]), "line")
	p.theirs = append(p.theirs, p.theirLine)
	if err != nil {
		return fmt.Errorf("make a line to the stub: %w", err)
	}
	return nil
}

func (p *pipes) openInput(wanted bool) error {
	if !wanted {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("open stdin: %w", err)
		}
		p.theirs, p.stdio[0] = append(p.theirs, null), null
		return nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	p.stdio[0] = os.NewFile(uintptr(fds[0]), "stdin")
	p.theirs = append(p.theirs, p.stdio[0])
	err := unix.SetNonblock(fds[1], true)
	p.input = newInput(os.NewFile(uintptr(fds[1]), "stdin"), false)
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	return nil
}

// openPTY makes a terminal that belongs to the command's user.
func (p *pipes) openPTY(req *initv1.StartRequest) error {
	master, slave, err := openPTYAs(int(req.GetUid()))
	if err != nil {
		return fmt.Errorf("make a terminal: %w", err)
	}
	p.theirs = append(p.theirs, slave)
	p.stdio = [3]*os.File{slave, slave, slave}
	p.pty, p.input = master, newInput(master, true)
	p.outs = []output{{master, execlog.PTY}}
	if err := setSize(master, req.GetPtyRows(), req.GetPtyCols()); err != nil {
		return fmt.Errorf("make a terminal: %w", err)
	}
	return nil
}

// openPTYAs opens a terminal as a user: it then is that user's, for which init
// has no other right.
func openPTYAs(uid int) (master, slave *os.File, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := os.Geteuid() // of this thread, which the fallback of setThreadUser changes
	if err := setThreadUser(uid); err != nil {
		return nil, nil, err
	}
	defer func() {
		if rerr := setThreadUser(own); rerr != nil {
			panic("init cannot be itself again: " + rerr.Error()) // nothing may run as this thread
		}
	}()
	if master, slave, err = pty.Open(); err != nil {
		return nil, nil, err
	}
	// The command's end must be blocking, like a terminal. Fd makes it so.
	_ = slave.Fd()
	return master, slave, nil
}

// setThreadUser changes the user that this thread, and no other, makes files as.
func setThreadUser(uid int) error {
	if _, err := unix.SetfsuidRetUid(uid); !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	// A kernel without it, such as gVisor before 2023. The system call itself
	// applies to one thread, unlike the function of that name.
	const unchanged = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, unchanged, uintptr(uid), unchanged); errno != 0 {
		return errno
	}
	return nil
}

func setSize(master *os.File, rows, cols uint32) error {
	return pty.Setsize(master, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)})
}
