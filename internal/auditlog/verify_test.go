package auditlog_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/auditlog"
)

var (
	seed = bytes.Repeat([]byte{7}, ed25519.SeedSize)
	key  = ed25519.NewKeyFromSeed(seed)
	now  = time.Date(2026, 11, 22, 12, 0, 0, 123456000, time.UTC)
)

func public(k ed25519.PrivateKey) ed25519.PublicKey {
	p, _ := k.Public().(ed25519.PublicKey)
	return p
}

// export makes one of some heads with some entries each, signed with a key.
func export(t *testing.T, key ed25519.PrivateKey, heads, each int) []byte {
	t.Helper()
	var out bytes.Buffer
	write := func(line []byte) { out.Write(append(line, '\n')) }
	var hash auditlog.Hash
	var position int64
	write(auditlog.NewHeader("org_x", public(key), 0, hash).Line())
	for number := range heads {
		for range each {
			position++
			line, err := auditlog.Entry{
				Position: position, ID: position * 2, Time: now, ActorKind: "user", ActorID: "alice", Action: "task.paused", ObjectKind: "task",
				ObjectID: fmt.Sprintf("task_%d", position), Severity: "low", Before: json.RawMessage(`{"state":"running"}`),
				After: json.RawMessage(`{"state":"<paused> ü"}`), Reason: "lunch", Address: "192.0.2.7:4711", UserAgent: "deckhand-cli/1",
			}.Line()
			require.NoError(t, err)
			hash = auditlog.Next(hash, line)
			write(line)
		}
		write(auditlog.Head{Organisation: "org_x", Number: int64(number) + 1, Position: position, Hash: hex.EncodeToString(hash[:]), Time: now}.Sign(key).Line())
	}
	write(auditlog.End{
		Organisation: "org_x", Number: int64(heads), Entries: position, Position: position, Hash: hex.EncodeToString(hash[:]), Time: now,
	}.Sign(key).Line())
	return out.Bytes()
}

func verify(data []byte) error {
	_, err := auditlog.Verify(bytes.NewReader(data), nil)
	return err
}

// A byte that is another one is found, wherever it is.
func TestAFlippedByteIsFoundWhereverItIs(t *testing.T) {
	t.Parallel()
	small := export(t, key, 3, 2)
	report, err := auditlog.Verify(bytes.NewReader(small), public(key))
	require.NoError(t, err)
	require.Equal(t, int64(6), report.Entries)
	require.Equal(t, int64(3), report.Heads)
	require.Equal(t, "org_x", report.Organisation)
	flip := func(data []byte, at int, mask byte) {
		data[at] ^= mask
		require.Error(t, verify(data), "byte %d with %08b: %q", at, mask, data[max(0, at-20):min(len(data), at+20)])
		data[at] ^= mask
	}
	for at := range small {
		for _, mask := range []byte{1, 1 << 5, 1 << 7} { // another letter, the other case, none
			flip(small, at, mask)
		}
	}
	require.NoError(t, verify(small))

	large := export(t, key, 20, 500)
	require.NoError(t, verify(large))
	source := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		flip(large, source.IntN(len(large)), byte(1+source.IntN(255)))
	}

	receipt := append(auditlog.Receipt{
		Organisation: "org_x", TaskID: "task_x", Agent: "a", Approvers: []auditlog.Approval{{Item: "inbox_x", By: "alice", Time: now}}, Time: now,
	}.Sign(key).Line(), '\n')
	require.NoError(t, verify(receipt))
	for at := range receipt {
		for _, mask := range []byte{1, 1 << 5, 1 << 7} {
			flip(receipt, at, mask)
		}
	}
}

// Nothing can be left out, put in, put elsewhere or cut off.
func TestLinesAreAllThereAndInOrder(t *testing.T) {
	t.Parallel()
	whole := export(t, key, 3, 2)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(lines ...[]byte) []byte { return bytes.Join(lines, nil) }
	for i := range lines {
		without := slices.Concat(lines[:i], lines[i+1:])
		require.Error(t, verify(join(without...)), "without line %d", i+1)
		require.Error(t, verify(join(lines[:i]...)), "cut off before line %d", i+1)
		twice := slices.Concat(lines[:i+1], lines[i:])
		require.Error(t, verify(join(twice...)), "line %d twice", i+1)
		if i+1 < len(lines) {
			swapped := slices.Clone(lines)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			require.Error(t, verify(join(swapped...)), "lines %d and %d swapped", i+1, i+2)
		}
	}
	require.Error(t, verify(nil))
	require.Error(t, verify(append(bytes.Clone(whole), '\n')))
	require.Error(t, verify(append(bytes.Clone(whole), whole...)))

	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	forged := export(t, other, 3, 2)
	require.NoError(t, verify(forged), "it is whole, as somebody else's")
	_, err := auditlog.Verify(bytes.NewReader(forged), public(key))
	require.ErrorIs(t, err, auditlog.ErrKey)
	// A head of one's own key in a chain of the hub's.
	mixed := bytes.Split(bytes.Clone(whole), []byte("\n"))
	theirs := bytes.Split(forged, []byte("\n"))
	mixed[3] = theirs[3]
	err = verify(bytes.Join(mixed, []byte("\n")))
	var broken *auditlog.Broken
	require.True(t, errors.As(err, &broken))
	require.Equal(t, int64(4), broken.Line)
}
