package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	sseReaders = 1000
	// ssePerToken is below how many streams a token may have.
	ssePerToken = 90
	sseRate     = 5 // events a second
	sseWarmUp   = sseRate
	sseEvents   = 10 * sseRate
)

// sse measures the time from an event to a thousand readers of one task by server-sent events,
// against as many watchers by Connect, in the same run; p99. It also reports what an idle
// reader takes in the hub: heap and stacks, from a thousand whose clients are bare sockets.
func sse(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.simulatedNode(ctx); err != nil {
		return nil, err
	}
	lease, workers, err := s.runningTask(ctx)
	if err != nil {
		return nil, err
	}
	var tokens []string
	for i := range sseReaders/ssePerToken + 1 {
		made, err := s.client.Tokens.CreateToken(ctx, &deckhandv1.CreateTokenRequest{
			Name: fmt.Sprintf("reader-%d", i), Kind: deckhandv1.TokenKind_TOKEN_KIND_USER,
		})
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, made.GetSecret())
	}
	var batch int64
	send := func() error {
		tick := time.NewTicker(time.Second / sseRate)
		defer tick.Stop()
		for range sseWarmUp + sseEvents {
			<-tick.C
			batch++
			if _, err := workers.Workers.RecordEvents(ctx, &deckhandv1.RecordEventsRequest{
				Lease: lease, Batch: batch, Events: []*deckhandv1.EventDraft{{Type: watchedType}},
			}); err != nil {
				return err
			}
		}
		return nil
	}

	before := inUse()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	readers := make([]*bufio.Reader, sseReaders)
	address := strings.TrimPrefix(s.hub.URL(), "http://")
	for i := range sseReaders {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
		if _, err := fmt.Fprintf(c, "GET /v1/events?after=now&task=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
			url.QueryEscape(lease.GetTaskId()), address, tokens[i/ssePerToken]); err != nil {
			return nil, err
		}
		var status [12]byte
		if _, err := c.Read(status[:]); err != nil || string(status[:]) != "HTTP/1.1 200" {
			return nil, fmt.Errorf("reader %d: %s: %w", i, status[:], err)
		}
	}
	idle := float64(inUse()-before) / sseReaders / 1024

	took := make([][]time.Duration, sseReaders)
	failed := make([]error, sseReaders)
	var all sync.WaitGroup
	for i := range sseReaders {
		readers[i] = bufio.NewReaderSize(conns[i], 4096)
		all.Go(func() { took[i], failed[i] = readSSE(readers[i]) })
	}
	if err := send(); err != nil {
		return nil, err
	}
	all.Wait()
	for _, c := range conns {
		_ = c.Close()
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	ours := slices.Concat(took...)

	watching, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var ready sync.WaitGroup
	for i := range sseReaders {
		// As the others, each has a connection.
		transport := &http.Transport{}
		client, err := sdk.New(sdk.Config{URL: s.hub.URL(), Token: tokens[i/ssePerToken], HTTPClient: &http.Client{Transport: transport}})
		if err != nil {
			return nil, err
		}
		ready.Add(1)
		all.Go(func() {
			defer transport.CloseIdleConnections()
			took[i], failed[i] = readWatch(watching, client, lease.GetTaskId(), ready.Done)
		})
	}
	ready.Wait()
	if err := send(); err != nil {
		return nil, err
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	peer := slices.Concat(took...)
	slices.Sort(ours)
	slices.Sort(peer)
	reader, watcher := percentile(ours, 99), percentile(peer, 99)
	return result{
		"unit": "ms, p99", "ours": reader, "peer": watcher, "peer_name": "Connect Watch", "ratio": reader / watcher, "n": len(ours), "readers": sseReaders,
		"p50": percentile(ours, 50), "peer_p50": percentile(peer, 50), "idle_kb_per_reader": idle,
	}, nil
}

// inUse returns how much of the heap and of stacks is in use.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// readSSE returns how long each event took to a reader, after those that warm up.
func readSSE(from *bufio.Reader) (took []time.Duration, err error) {
	for n := 0; n < sseWarmUp+sseEvents; {
		line, err := from.ReadString('\n')
		if err != nil {
			return took, err
		}
		if !strings.Contains(line, `"`+watchedType+`"`) {
			continue
		}
		_, at, _ := strings.Cut(line, `"time":`)
		at, _, _ = strings.Cut(strings.TrimLeft(at, ` "`), `"`)
		sent, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			return took, err
		}
		if n++; n > sseWarmUp {
			took = append(took, time.Since(sent))
		}
	}
	return took, nil
}

// readWatch is readSSE for a watcher by Connect.
func readWatch(ctx context.Context, client *sdk.Client, task string, ready func()) (took []time.Duration, err error) {
	first := sync.OnceFunc(ready)
	defer first()
	stream, err := client.Events.Watch(ctx, &deckhandv1.WatchRequest{TaskIds: []string{task}, Follow: true, FromNow: true})
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // it is over
	for n := 0; stream.Receive(); {
		first()
		e := stream.Msg().GetEvent()
		if e.GetType() != watchedType {
			continue
		}
		if n++; n > sseWarmUp {
			took = append(took, time.Since(e.GetTime().AsTime()))
		}
		if n == sseWarmUp+sseEvents {
			return took, nil
		}
	}
	return took, stream.Err()
}
