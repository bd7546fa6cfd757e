package node

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
)

// sendArchive sends a file, or standard input for "-", in pieces, and says how far it is.
func sendArchive(cmd *cobra.Command, e *env.Env, name string, send func(data []byte) error) error {
	archive := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		archive = f
	}
	buf, sent, said := make([]byte, pieceBytes), int64(0), time.Now()
	for {
		n, err := io.ReadFull(archive, buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if sent += int64(n); time.Since(said) >= progressEvery {
			said = time.Now()
			e.Notef("sent %s", output.Size(sent))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
