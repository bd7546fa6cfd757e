package initd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	initv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/init/v1"
)

// stat is a line of /proc/<pid>/stat, as far as it is needed:
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
type stat struct {
	state   byte
	started string
	ticks   int64 // of processor time, with the children that were waited for
	pages   int64 // resident
}

// readStat returns what the kernel knows of a process; ok is false if it is gone.
func readStat(pid int) (st stat, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return st, false
	}
	// The name, in parentheses, may hold anything; the state follows it.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 22 {
		return st, false
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
		return n
	}
	return stat{
		state: fields[0][0], started: string(fields[22-3]),
		ticks: number(14) + number(15) + number(16) + number(17), pages: number(24),
	}, true
}

// tick is the unit of processor time in /proc, which is fixed for programs.
const tick = 10 * time.Millisecond

// Usage implements the protocol.
func (s *server) Usage(_ context.Context, req *initv1.UsageRequest) (*initv1.UsageResponse, error) {
	r, err := s.running(req.GetExecId())
	if err != nil {
		return nil, err
	}
	out := &initv1.UsageResponse{}
	s.gate.do(func() {
		for _, pid := range s.trees.members(r.stub) {
			st, ok := readStat(pid)
			if !ok || st.state == 'Z' || st.state == 'X' {
				continue
			}
			out.CpuNs += st.ticks * int64(tick)
			out.MemoryBytes += st.pages * int64(os.Getpagesize())
			out.Processes++
		}
	})
	return out, nil
}

// listening is the state of a socket that listens, in /proc/net/tcp.
const listening = "0A"

// Ports implements the protocol.
func (s *server) Ports(context.Context, *initv1.PortsRequest) (*initv1.PortsResponse, error) {
	out := &initv1.PortsResponse{}
	var err error
	s.gate.do(func() {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			var raw []byte
			raw, err = os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
				continue // no such family
			}
			if err != nil {
				return
			}
			for line := range strings.Lines(string(raw)) {
				fields := strings.Fields(line)
				if len(fields) < 4 || fields[3] != listening {
					continue
				}
				_, hex, _ := strings.Cut(fields[1], ":")
				if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
					out.Tcp = append(out.Tcp, uint32(port))
				}
			}
		}
	})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "read the jail's sockets: %v", err)
	}
	slices.Sort(out.Tcp)
	out.Tcp = slices.Compact(out.Tcp)
	return out, nil
}
