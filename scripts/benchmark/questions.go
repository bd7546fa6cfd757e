package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// question is one with a known place.
type question struct {
	text    string
	headers bool   // over the headers of Linux, and not Go's source
	file    string // regexp of the file's path
	line    string // regexp of the line, or of one near it
}

var questions = []question{
	{text: "parse a duration string", file: `^time/format\.go$`, line: `^func ParseDuration`},
	{text: "split a path into directory and file", file: `^(path|path/filepath|internal/filepathlite)/path\.go$`, line: `^func Split\(`},
	{text: "read all bytes from a reader until end of file", file: `^io/io\.go$`, line: `^func ReadAll`},
	{text: "limit a reader to n bytes", file: `^io/io\.go$`, line: `^func LimitReader|^type LimitedReader`},
	{text: "shuffle elements at random", file: `^math/rand/(v2/)?rand\.go$`, line: `Shuffle\(`},
	{text: "compare byte slices in constant time", file: `subtle/constant_time\.go$`, line: `^func ConstantTimeCompare`},
	{text: "escape html special characters", file: `^html/(escape|template/html)\.go$`, line: `^func (EscapeString|escape|htmlEscaper|htmlReplacer)`},
	{text: "parse an ip address", file: `^net/(netip/netip|ip)\.go$`, line: `^func (ParseAddr|ParseIP)`},
	{text: "read the next request from an http connection", file: `^net/http/(request|server)\.go$`, line: `^func .*[rR]eadRequest`},
	{text: "redirect the client to another url", file: `^net/http/(server|client)\.go$`, line: `^func (Redirect|RedirectHandler|redirectBehavior)`},
	{text: "set a cookie on the http response", file: `^net/http/cookie\.go$`, line: `^func SetCookie`},
	{text: "maximum size of request headers of the http server", file: `^net/http/server\.go$`, line: `(?i)MaxHeaderBytes`},
	{text: "walk a directory tree calling a function for each file", file: `^(path/filepath/path|io/fs/walk)\.go$`, line: `^func (Walk|WalkDir|walk|walkDir)\(`},
	{text: "create a temporary directory", file: `^os/tempfile\.go$`, line: `^func MkdirTemp`},
	{text: "remove a directory and everything in it", file: `^os/(path|removeall_\w+|root\w*)\.go$`, line: `(?i)func .*RemoveAll`},
	{text: "insertion sort", file: `^(sort|slices)/zsort\w*\.go$|^slices/|^sort/`, line: `^func insertionSort`},
	{text: "grow a slice when appending", file: `^runtime/slice\.go$`, line: `^func growslice`},
	{text: "garbage collector background mark worker", file: `^runtime/mgc\.go$`, line: `^func gcBgMark`},
	{text: "scheduler finds a runnable goroutine", file: `^runtime/proc\.go$`, line: `^func findRunnable`},
	{text: "steal work from another processor", file: `^runtime/proc\.go$`, line: `^func (stealWork|runqsteal)`},
	{text: "deadlock when all goroutines are asleep", file: `^runtime/proc\.go$`, line: `^func checkdead|all goroutines are asleep`},
	{text: "unmarshal json into a value", file: `^encoding/json/`, line: `^func Unmarshal`},
	{text: "compile a regular expression", file: `^regexp/regexp\.go$`, line: `^func (Compile|compile|MustCompile)`},
	{text: "cancel a context after a timeout", file: `^context/context\.go$`, line: `^func WithTimeout`},
	{text: "slow path of locking a mutex", file: `sync/mutex\.go$`, line: `lockSlow\(\) \{`},
	{text: "check a certificate's hostname", file: `^crypto/x509/verify\.go$`, line: `VerifyHostname`},
	{text: "maximum length of a path name", headers: true, file: `^limits\.h$`, line: `PATH_MAX`},
	{text: "inotify event for a deleted file", headers: true, file: `^inotify\.h$`, line: `IN_DELETE`},
	{text: "clone flag for a new pid namespace", headers: true, file: `^sched\.h$`, line: `CLONE_NEWPID`},
	{text: "submission queue entry of io_uring", headers: true, file: `^io_uring\.h$`, line: `^struct io_uring_sqe`},
	{text: "tcp keepalive idle time option", headers: true, file: `^tcp\.h$`, line: `TCP_KEEPIDLE`},
	{text: "ethernet frame header", headers: true, file: `^if_ether\.h$`, line: `^struct ethhdr`},
	{text: "ip version 4 packet header", headers: true, file: `^ip\.h$`, line: `^struct iphdr`},
	{text: "seccomp return value that kills the process", headers: true, file: `^seccomp\.h$`, line: `SECCOMP_RET_KILL`},
	{text: "capability to administer the network", headers: true, file: `^capability\.h$`, line: `CAP_NET_ADMIN`},
	{text: "status structure of a loop device", headers: true, file: `^loop\.h$`, line: `^struct loop_info`},
	{text: "types of bpf maps", headers: true, file: `^bpf\.h$`, line: `^enum bpf_map_type`},
	{text: "ioctl that sets the watchdog timeout", headers: true, file: `^watchdog\.h$`, line: `WDIOC_SETTIMEOUT`},
	{text: "netlink message header", headers: true, file: `^netlink\.h$`, line: `^struct nlmsghdr`},
	{text: "fuse request header sent to userspace", headers: true, file: `^fuse\.h$`, line: `^struct fuse_in_header`},
}

// makeLog writes a log of a service.
func makeLog(path string, size int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for written := int64(0); written < size; {
		at = at.Add(time.Duration(rng.IntN(5)) * time.Millisecond)
		stamp := at.AppendFormat(nil, "2006-01-02T15:04:05.000Z ")
		var n int
		switch kind := rng.IntN(10_000); {
		case kind < 5000:
			n, err = fmt.Fprintf(w, "%sINFO request method=GET path=/api/v1/users/%d status=200 took=%dms client=10.0.%d.%d\n",
				stamp, rng.IntN(1e6), rng.IntN(900), rng.IntN(256), rng.IntN(256))
		case kind < 8000:
			n, err = fmt.Fprintf(w, "%sDEBUG cache hit key=user:%d ttl=%d\n", stamp, rng.IntN(1e6), rng.IntN(300))
		case kind < 9500:
			n, err = fmt.Fprintf(w, "%sINFO [worker-%d] job %016x finished in %d ms\n", stamp, rng.IntN(16), rng.Uint64(), rng.IntN(999))
		case kind < 9999:
			n, err = fmt.Fprintf(w, "%sWARN slow query took %d ms table=%s\n", stamp, 500+rng.IntN(2500), []string{"users", "orders", "items"}[rng.IntN(3)])
		default:
			n, err = fmt.Fprintf(w, "%sERROR payment of order %d failed: connection to db-%d refused\n    at pay.go:33\n", stamp, rng.IntN(1e5), rng.IntN(3))
		}
		if err != nil {
			return err
		}
		written += int64(n)
	}
	return w.Flush()
}
