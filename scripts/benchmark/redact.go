package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

const (
	redactSecrets = 500
	redactBytes   = 64 << 20
	redactChunk   = 64 << 10
	redactRounds  = 5
)

// redactStream measures how fast a stream of a service's log is masked while 500
// secrets are in use, each in all encodings that are known, against the
// replacer of Go's own library with the secrets as they are. In each
// megabyte there is one secret, in clear or in base64, which must be gone.
func redactStream(context.Context) (result, error) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // text for a benchmark
	r := &redact.Redactor{}
	var secrets, pairs []string
	for range redactSecrets {
		secret := strings.TrimPrefix(ident.Secret("x"), "x_")
		secrets = append(secrets, secret)
		pairs = append(pairs, secret, redact.Mask)
	}
	r.Add(secrets...)
	var log bytes.Buffer
	for line, next := 0, 0; log.Len() < redactBytes; line++ {
		fmt.Fprintf(&log, "2026-11-22T20:%02d:%02d.%03dZ INFO  web-%d request handled: method=GET path=/api/v1/items/%d status=200 bytes=%d user=%08x\n",
			line/60%60, line%60, line%1000, line%8, random.IntN(1e6), random.IntN(1e5), random.Uint32())
		if log.Len() > next {
			secret := secrets[random.IntN(len(secrets))]
			if line%2 == 0 {
				secret = base64.StdEncoding.EncodeToString([]byte("login:" + secret))
			}
			fmt.Fprintf(&log, "DEBUG header Authorization: %s\n", secret)
			next += 1 << 20
		}
	}
	text := log.Bytes()
	rate := func(do func()) float64 {
		began := time.Now()
		do()
		return float64(len(text)) / 1e6 / time.Since(began).Seconds()
	}
	var ours, peers []float64
	left := 0
	shown, part := bytes.Clone(text), make([]byte, 0, redactChunk+redact.MaskReach)
	for range redactRounds {
		shown, part = shown[:0], part[:0]
		ours = append(ours, rate(func() {
			for at := 0; at < len(text); {
				n := min(redactChunk, len(text)-at)
				part = append(part, text[at:at+n]...)
				at += n
				settled := r.Mask(part)
				if at == len(text) {
					settled = len(part)
				}
				shown = append(shown, part[:settled]...)
				part = append(part[:0], part[settled:]...)
			}
		}))
		for _, secret := range secrets {
			if bytes.Contains(shown, []byte(secret)) {
				left++
			}
		}
		replacer := strings.NewReplacer(pairs...)
		whole := string(text)
		peers = append(peers, rate(func() { _ = replacer.Replace(whole) }))
	}
	if left > 0 {
		return nil, errors.New("a secret was shown")
	}
	mine, peer := median(ours), median(peers)
	return result{
		"unit": "MB/s", "ours": mine, "peer": peer, "peer_name": "strings.Replacer, the secrets as they are", "ratio": mine / peer,
		"n": redactRounds, "secrets": redactSecrets,
	}, nil
}
