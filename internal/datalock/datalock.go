// Package datalock ensures that only one process uses a data folder. Lock takes
// an exclusive lock on a file, or returns an error that names the process that
// holds it. The kernel releases the lock when the process dies.
package datalock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Lock locks the file at path, made when absent, for as long as this process
// lives or until unlock. The kernel lets go of it when the process dies. who
// names the program in the error that a second one gets.
func Lock(path, who string) (unlock func() error, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Precondition, "cannot open the lock of the data folder: %v", err).
			WithFix("use a folder you may write to (--data-dir)")
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(file, 32))
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fault.New(fault.Precondition, "another %s (process %s) uses the data folder: %s is locked",
				who, strings.TrimSpace(string(holder)), path).
				WithFix("stop it, or give this one a folder of its own with --data-dir")
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// Record the holder, for the message above.
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), file.Close())
	}
	return file.Close, nil
}
