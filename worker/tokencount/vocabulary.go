package tokencount

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// packed is the vocabulary as OpenAI publishes it, compressed: a token in base64 and its
// rank in each line. Only this one of four is in the program.
//
//	curl -O https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken
//	zstd -19 cl100k_base.tiktoken
//
//go:embed cl100k_base.tiktoken.zst
var packed []byte

// vocabulary reads the vocabulary for tiktoken.
type vocabulary struct{}

// LoadTiktokenBpe implements tiktoken.BpeLoader for the one vocabulary.
func (vocabulary) LoadTiktokenBpe(string) (map[string]int, error) {
	text, err := unpack()
	if err != nil {
		return nil, err
	}
	ranks := make(map[string]int, bytes.Count(text, []byte("\n")))
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		encoded, number, _ := strings.Cut(lines.Text(), " ")
		token, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("read the vocabulary: %w", err)
		}
		if ranks[string(token)], err = strconv.Atoi(number); err != nil {
			return nil, fmt.Errorf("read the vocabulary: %w", err)
		}
	}
	return ranks, nil
}

func unpack() ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("unpack the vocabulary: %w", err)
	}
	defer r.Close()
	text, err := r.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack the vocabulary: %w", err)
	}
	return text, nil
}
