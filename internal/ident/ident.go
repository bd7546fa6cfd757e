// Package ident creates random ids and secrets. Each is a kind, an underscore,
// and random characters.
package ident

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
)

var encoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// New returns a fresh id such as "task_3q9…": the kind and 100 random bits in
// Crockford's lower-case base 32 (20 characters). Ids may be shortened to a
// unique prefix wherever a person types them.
func New(kind string) string { return kind + "_" + random(13)[:20] }

// Secret returns a fresh token such as "dhu_…": the kind and 200 random bits
// (40 characters). Only its Hash is stored.
func Secret(kind string) string { return kind + "_" + random(25) }

// Hash is what is stored of a secret: its SHA-256. The secrets have 200 random
// bits, so no salt or stretching is needed.
func Hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

func random(bytes int) string {
	buf := make([]byte, bytes)
	// crypto/rand.Read never fails: it ends the process instead.
	_, _ = rand.Read(buf)
	return encoding.EncodeToString(buf)
}
