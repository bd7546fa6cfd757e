package logdigest_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/skill/logdigest"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func digest(t *testing.T, args logdigest.Args) string {
	t.Helper()
	out, _, err := logdigest.Run(t.Context(), args)
	require.NoError(t, err)
	return out.String()
}

// A few lines say what is in a log: what failed first, with counts, times
// and places; then bursts, what is new, and what is common.
func TestADigestSaysWhatIsInALog(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	lines := 0
	put := func(format string, args ...any) {
		fmt.Fprintf(&log, at.Format("2006-01-02T15:04:05.000Z")+" "+format+"\n", args...)
		lines++
	}
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's data
	for i := range 3600 {
		at = at.Add(time.Second)
		put("INFO request GET /users/%d took %d ms", rng.IntN(1e6), rng.IntN(90))
		if i%60 == 0 {
			put("INFO collected %d kB", rng.IntN(1e4))
		}
		if i >= 1800 && i < 1830 {
			for range 5 {
				put("WARN pool of db-%d has no connection left", rng.IntN(3))
			}
		}
		if i == 1815 {
			put("ERROR payment of order %d failed: no connection", rng.IntN(1e4))
			log.WriteString("\tat pay.go:31\n\tat main.go:7\n")
		}
		if i == 3500 {
			put("INFO migrated to schema %d", 12)
		}
	}
	path := write(t, filepath.Join(t.TempDir(), "app.log"), log.String())
	out := digest(t, logdigest.Args{Path: path})
	require.LessOrEqual(t, len(out), 8<<10)
	require.Contains(t, out, "5 kinds of lines")
	require.Contains(t, out, "from 2026-11-22 10:00:01 to 2026-11-22 11:00:00")
	require.Contains(t, out, "error 1, warn 150, info 3661")
	require.Contains(t, out, "\n1× error 10:30:16 at "+path+":")
	require.Contains(t, out, "+ 2 lines below")
	require.Contains(t, out, "150× warn 10:30:01–10:30:30")
	require.Contains(t, out, "WARN pool of <*> has no connection left")
	require.Regexp(t, `RATE CHANGES\n10:\d\d:\d\d–10:\d\d:\d\d: 150× in \d+ s, .* WARN pool`, out)
	require.Regexp(t, `NEW, .*\n1× info 10:58:21`, out)
	require.Less(t, strings.Index(out, "ERRORS"), strings.Index(out, "WARNINGS"))
	require.Less(t, strings.Index(out, "WARNINGS"), strings.Index(out, "MOST COMMON"))

	short := digest(t, logdigest.Args{Path: path, MaxBytes: 800})
	require.LessOrEqual(t, len(short), 800)
	require.Contains(t, short, "payment of order")

	part := digest(t, logdigest.Args{Path: path, Since: "2026-11-22 10:58", Contains: "migrated"})
	require.Contains(t, part, ": 1 line,")
	_, _, err := logdigest.Run(t.Context(), logdigest.Args{Path: path, Since: "yesterday"})
	require.ErrorContains(t, err, `since "yesterday" is not a time`)
}

func TestALogIsReadWithThoseItWasRotatedInto(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "app.log"), "2026-11-22 10:00:02 third\n")
	write(t, filepath.Join(dir, "app.log.1"), "2026-11-22 10:00:01 second\n")
	write(t, filepath.Join(dir, "app.logger"), "2026-11-22 10:00:01 other\n")
	f, err := os.Create(filepath.Join(dir, "app.log.2.gz"))
	require.NoError(t, err)
	zip := gzip.NewWriter(f)
	_, err = zip.Write([]byte("2026-11-22 10:00:00 first\n"))
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	require.NoError(t, f.Close())
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "app.log.2.gz"), old, old))

	out := digest(t, logdigest.Args{Path: filepath.Join(dir, "app.log")})
	require.Contains(t, out, "3 files")
	require.Contains(t, out, "3 lines")
	require.Contains(t, out, "app.log.2.gz:1")
	require.NotContains(t, out, "other")
	require.Contains(t, out, "are those of the text in them")
	require.Contains(t, digest(t, logdigest.Args{Path: dir}), "4 files")
	require.Contains(t, digest(t, logdigest.Args{Path: filepath.Join(dir, "*.log")}), "1 line,")
}

func TestCommonWaysToWriteATimeAreRead(t *testing.T) {
	t.Parallel()
	year := time.Now().UTC().Format("2006")
	for line, want := range map[string]string{
		"2026-11-22T01:02:03Z a b":                                         "2026-11-22 01:02:03",
		"2026-11-22T01:02:03.123456+02:00 a b":                             "2026-11-21 23:02:03",
		"2026-11-22 01:02:03,123 INFO a b":                                 "2026-11-22 01:02:03",
		"[2026-11-22 01:02:03] app.INFO: a b":                              "2026-11-22 01:02:03",
		"2026/11/22 01:02:03 [error] 12#0: a b":                            "2026-11-22 01:02:03",
		"Nov 22 01:02:03 host sshd[12]: a b":                               year + "-11-22 01:02:03",
		"<34>Nov  2 01:02:03 host su: a b":                                 year + "-11-02 01:02:03",
		"<34>1 2026-11-22T01:02:03.5Z host su - a b":                       "2026-11-22 01:02:03",
		`10.0.0.1 - - [22/Nov/2026:01:02:03 +0100] "GET / HTTP/1.1" 500 7`: "2026-11-22 00:02:03",
		"[Sun Nov 22 01:02:03 2026] [error] a b":                           "2026-11-22 01:02:03",
		"E1122 01:02:03.123456 7 main.go:9] a b":                           year + "-11-22 01:02:03",
		"261122 010203 12 INFO a b":                                        "2026-11-22 01:02:03",
		"1795309323 a b":                                                   "2026-11-22 01:02:03",
		"1795309323.5 a b":                                                 "2026-11-22 01:02:03",
		`{"level":"warn","ts":1795309323.25,"msg":"a b"}`:                  "2026-11-22 01:02:03",
		`{"time":"2026-11-22T01:02:03Z","severity":"ERROR","message":"a"}`: "2026-11-22 01:02:03",
		`time="2026-11-22T01:02:03Z" level=info msg="a b"`:                 "2026-11-22 01:02:03",
		"INFO 2026-11-22 01:02:03 a b":                                     "2026-11-22 01:02:03",
	} {
		out := digest(t, logdigest.Args{Path: write(t, filepath.Join(t.TempDir(), "log"), strings.Repeat(line+"\n", 3))})
		require.Contains(t, out, "from "+want+" to "+want, line)
		require.Contains(t, out, "1 kind of lines", line)
	}
}

func TestLevelsComeFromFieldsStatusesAndWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"time":"2026-11-22T01:02:03Z","severity":"ERROR","message":"a"}`:      "error 1",
		`{"level":50,"time":1795309323000,"msg":"a"}`:                           "error 1",
		`10.0.0.1 - - [22/Nov/2026:01:02:03 +0100] "GET / HTTP/1.1" 503 7 "-"`:  "error 1",
		`10.0.0.1 - - [22/Nov/2026:01:02:03 +0100] "GET /error HTTP/1.1" 200 7`: "info 1",
		"E1122 01:02:03.123456 7 main.go:9] a b":                                "error 1",
		"Nov 22 01:02:03 host kernel: Out of memory: Killed process 7":          "error 1",
		"2026-11-22 01:02:03,123 WARNING a b":                                   "warn 1",
		"time=2026-11-22T01:02:03Z level=fatal msg=gone":                        "fatal 1",
		"2026-11-22 01:02:03 install libgpg-error0:amd64 timeout=30":            "\n1 kind of lines\n",
		"2026-11-22 01:02:03 raised ValueError: no":                             "error 1",
		"2026-11-22T01:02:03Z INFO no error was found":                          "info 1",
	} {
		require.Contains(t, digest(t, logdigest.Args{Path: write(t, filepath.Join(t.TempDir(), "log"), line+"\n")}), want, line)
	}
}

// Bad input is said, and harms nothing.
func TestHostileLogsAreBoundedAndSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, _, err := logdigest.Run(t.Context(), logdigest.Args{Path: write(t, filepath.Join(dir, "bin"), "ELF\x00\x01\n")})
	require.ErrorContains(t, err, "is binary")
	_, _, err = logdigest.Run(t.Context(), logdigest.Args{Path: filepath.Join(dir, "none")})
	require.ErrorContains(t, err, "no such file")
	_, _, err = logdigest.Run(t.Context(), logdigest.Args{Path: "/dev/zero"})
	require.ErrorContains(t, err, "no log file")
	_, _, err = logdigest.Run(t.Context(), logdigest.Args{Path: t.TempDir()})
	require.ErrorContains(t, err, "no log file")
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	_, _, err = logdigest.Run(t.Context(), logdigest.Args{Path: filepath.Join(dir, "loop")})
	require.ErrorContains(t, err, "too many levels")
	_, _, err = logdigest.Run(t.Context(), logdigest.Args{Path: write(t, filepath.Join(dir, "half.gz"), "\x1f\x8b\x08\x00")})
	require.Error(t, err)

	out := digest(t, logdigest.Args{Path: write(t, filepath.Join(dir, "odd"), "a\xff\xfe b\x1b[31m\u202e\n\n\r\n"+strings.Repeat("x", 100_000)+"\n")})
	require.Contains(t, out, "a·· b·[31m·")
	require.Contains(t, out, "1 line longer than 32 kB")
	require.Contains(t, digest(t, logdigest.Args{Path: write(t, filepath.Join(dir, "empty"), "")}), "no lines")

	// Each line of a kind of its own: counted together, in bounded memory.
	var all strings.Builder
	letters := func(n int) string {
		var b []byte
		for ; n > 0; n /= 26 {
			b = append(b, byte('a'+n%26))
		}
		return string(b)
	}
	for i := range 30_000 {
		fmt.Fprintf(&all, "%s %s %s\n", letters(i+1000), letters(i*7+1000), letters(i*31+1000))
	}
	require.Contains(t, digest(t, logdigest.Args{Path: write(t, filepath.Join(dir, "many"), all.String())}), "too many kinds of lines")

	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	late, _, err := logdigest.Run(ended, logdigest.Args{Path: filepath.Join(dir, "many")})
	require.NoError(t, err)
	require.Contains(t, late.String(), "the time of the call was over")
}

// The heap stays small however long the log.
func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.log")
	f, err := os.Create(path)
	require.NoError(t, err)
	block := strings.Repeat("2026-11-22T10:00:00Z INFO request 7123 took 12 ms for client 10.0.0.1\n", 1000)
	for range 600 {
		_, err := f.WriteString(block)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, read, err := logdigest.Run(t.Context(), logdigest.Args{Path: path})
	require.NoError(t, err)
	require.EqualValues(t, 600*len(block), read)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
}

func TestTheEndOfALogIsLookedAtAlone(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&log, "2026-11-22T10:%02d:%02dZ INFO line %d\n", i/1700, i%60, i)
	}
	log.WriteString("2026-11-22T11:00:00Z ERROR the last\n")
	path := write(t, filepath.Join(t.TempDir(), "app.log"), log.String())
	out, read, err := logdigest.Tail(t.Context(), logdigest.TailArgs{Path: path, Lines: 3, Bytes: 64 << 10})
	require.NoError(t, err)
	require.LessOrEqual(t, read, int64(64<<10))
	require.Contains(t, out.String(), "error 1")
	require.Contains(t, out.String(), fmt.Sprintf("LAST ERRORS, by offset\n%d: 2026-11-22T11:00:00Z ERROR the last", log.Len()-36))
	require.Contains(t, out.String(), "INFO line 99999\n")
	require.NotContains(t, out.String(), "INFO line 99997\n")
}
